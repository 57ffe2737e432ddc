// Builds graphs whose types are known at each step. The model zoo, decompositions, gradients and tests use it.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "ops/core/op.h"

namespace tessera::ops {

class GraphBuilder {
 public:
  explicit GraphBuilder(ir::Graph& graph) : graph_(&graph) {}
  ir::Graph& graph() { return *graph_; }

  // Adds a node with `outputs` outputs and infers their types at once. `captures` are the values from outside that its
  // subgraphs use. Throws what inference throws.
  std::vector<ir::ValueId> add_multi(std::string op, std::vector<ir::ValueId> inputs, std::size_t outputs,
                                     ir::Attributes attributes = {}, std::vector<ir::ValueId> captures = {});
  ir::ValueId add(std::string op, std::vector<ir::ValueId> inputs, ir::Attributes attributes = {}) {
    return add_multi(std::move(op), std::move(inputs), 1, std::move(attributes))[0];
  }

  // The value converted to this element type, or the value itself if it has that type.
  ir::ValueId cast(ir::ValueId value, DType dtype);

  ir::ValueId constant(Tensor tensor, std::string name = "") {
    return graph_->add_constant(std::move(tensor), std::move(name));
  }
  ir::ValueId integers(std::vector<std::int64_t> values);      // 1-D i64
  ir::ValueId scalar(double value, DType dtype = DType::f32);  // rank 0, any real or integer type
  const ir::ValueType& type(ir::ValueId id) const { return graph_->value(id).type; }
  const ir::Dims* dims(ir::ValueId id) const;  // null if the rank is unknown
  DType dtype(ir::ValueId id) const { return type(id).dtype; }

  // The prefix ("layer1/0/") of the names of nodes added from here on; it makes models readable.
  void set_name_prefix(std::string prefix) { prefix_ = std::move(prefix); }

 private:
  ir::Graph* graph_;
  std::string prefix_;
};

}  // namespace tessera::ops
