#include "ops/op_table.h"

#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "ops/attention/op_table.h"
#include "ops/classical/op_table.h"
#include "ops/convolutions/op_table.h"
#include "ops/core/op_table.h"
#include "ops/element_wise/op_table.h"
#include "ops/movement/op_table.h"
#include "ops/pooling/op_table.h"
#include "ops/products/op_table.h"
#include "ops/quantised/op_table.h"
#include "ops/recurrent/op_table.h"
#include "ops/rows/op_table.h"
#include "ops/sampling/op_table.h"
#include "ops/symbols.h"
#include "ops/training/op_table.h"
#include "ops/values/op_table.h"

namespace tessera::ops {

std::span<const OpDef* const> all_ops() {
  static const std::vector<const OpDef*> table = [] {
    std::vector<const OpDef*> joined;
    for (const auto family : {core_ops(), value_ops(), element_wise_ops(), movement_ops(), row_ops(), product_ops(),
                              convolution_ops(), pooling_ops(), sampling_ops(), attention_ops(), recurrent_ops(),
                              quantised_ops(), classical_ops(), training_ops()})
      joined.insert(joined.end(), family.begin(), family.end());
    return joined;
  }();
  return table;
}

const OpDef* find_op(std::string_view name) {
  if (is_symbol(name)) return find_symbol(name);
  static const auto index = [] {
    std::unordered_map<std::string_view, const OpDef*> map;
    for (const OpDef* op : all_ops()) map.emplace(op->name, op);
    return map;
  }();
  const auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

const OpDef& op_of(const ir::Node& node) {
  const OpDef* op = find_op(node.op);
  require(op != nullptr, ErrorKind::unsupported, "operator '{}' is not supported", node.op);
  return *op;
}

}  // namespace tessera::ops
