// Runs a single operator through inference and a device's kernel, as tests of operators and kernels need it.
#pragma once

#include <string>
#include <vector>

#include "backends/backend.h"
#include "ir/graph.h"
#include "ops/core/op.h"
#include "tessera/tensor.h"

namespace tessera::test {

struct OpCall {
  std::string op;
  std::vector<Value> inputs;  // an empty Value: absent
  ir::Attributes attributes = {};
  std::size_t outputs = 1;
};

// On the device with that name; `threads` limits parallelism.
std::vector<Value> run_op(const OpCall& call, std::string_view device = "reference", int threads = 1);
std::vector<Value> run_op_on(const backends::Device& device, const OpCall& call, int threads = 1);
// The first output, which must be a tensor.
Tensor run_op_tensor(const OpCall& call, std::string_view device = "reference", int threads = 1);

// The type as kernels see it; an undefined one for what is no tensor of known sizes.
ops::TensorType concrete(const ir::ValueType& type);

// Output types inferred for inputs of these types (no constants known, except where `constants` has a tensor).
std::vector<ir::ValueType> infer_op(const std::string& op, const std::vector<ir::ValueType>& inputs,
                                    const ir::Attributes& attributes = {}, std::size_t outputs = 1,
                                    const std::vector<Tensor>& constants = {});

}  // namespace tessera::test
