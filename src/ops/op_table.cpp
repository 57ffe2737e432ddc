#include "ops/op_table.h"

#include <unordered_map>

#include "base/error.h"
#include "ops/element_wise_unary.h"
#include "ops/reshape.h"
#include "ops/softmax.h"

namespace tessera::ops {
namespace {

// One line an operator, grouped by the file that holds its meaning.
constexpr const OpDef* kTable[] = {
    // element_wise_unary
    &relu, &sigmoid,
    // reshape
    &reshape,
    // softmax
    &softmax,
};

}  // namespace

std::span<const OpDef* const> all_ops() { return kTable; }

const OpDef* find_op(std::string_view name) {
  static const auto index = [] {
    std::unordered_map<std::string_view, const OpDef*> map;
    for (const OpDef* op : kTable) map.emplace(op->name, op);
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
