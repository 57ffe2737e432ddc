// Builds graphs with types known at each step: used by the model zoo, decompositions, gradients and tests.
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

  // Adds a node with `outputs` outputs and infers their types at once; throws what inference throws. `captures`: what
  // its subgraphs use from around them.
  std::vector<ir::ValueId> add_multi(std::string op, std::vector<ir::ValueId> inputs, std::size_t outputs,
                                     ir::Attributes attributes = {}, std::vector<ir::ValueId> captures = {});
  ir::ValueId add(std::string op, std::vector<ir::ValueId> inputs, ir::Attributes attributes = {}) {
    return add_multi(std::move(op), std::move(inputs), 1, std::move(attributes))[0];
  }

  // The value in this element type: itself when it has it.
  ir::ValueId cast(ir::ValueId value, DType dtype);

  ir::ValueId constant(Tensor tensor, std::string name = "") {
    return graph_->add_constant(std::move(tensor), std::move(name));
  }
  ir::ValueId integers(std::vector<std::int64_t> values);      // 1-D i64
  ir::ValueId scalar(double value, DType dtype = DType::f32);  // rank 0, any real or integer type
  const ir::ValueType& type(ir::ValueId id) const { return graph_->value(id).type; }
  const ir::Dims* dims(ir::ValueId id) const;  // null: unknown rank
  DType dtype(ir::ValueId id) const { return type(id).dtype; }

  // Names of nodes added from here on start with this ("layer1/0/"); used for readable models.
  void set_name_prefix(std::string prefix) { prefix_ = std::move(prefix); }

 private:
  ir::Graph* graph_;
  std::string prefix_;
};

}  // namespace tessera::ops
