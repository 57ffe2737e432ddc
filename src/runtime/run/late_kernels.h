// Kernels of a step whose operand types depend on data, kept for the types that come again.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.h"

namespace tessera::runtime {

// A kernel with what it may refer to, for operands of these types.
struct LateKernel {
  std::string key;
  ir::Node node;
  std::vector<ops::TensorType> inputs, outputs;
  std::vector<ir::ValueType> types;  // of the outputs, where the key of the inputs alone says them; else none
  std::vector<Tensor> constants;
  backends::KernelPointer kernel;
};

// Thread-safe.
class LateKernels {
 public:
  // `constant`: which inputs of the step are constants of its graph, whose packings `weights` shares.
  LateKernels(std::vector<bool> constant, backends::WeightStore& weights)
      : constant_(std::move(constant)), weights_(weights) {}

  // The kernel that the device chooses for the node. `view` has the operands of one run as its constants. The kernel
  // relies on the graph's constants, on the contents of small operands that say what an operator does (sizes, axes,
  // scales), which must be the same again, and on the types alone of others. Null where the device's own choice needs
  // the contents of a large operand: the kernel is to be made for one run then. Throws Error as plan::choose_kernel
  // does.
  //
  // `types` are the outputs' where they follow from the operands' types and the contents that the kernel relies on: the
  // kernel can be found by the operands alone then.
  std::shared_ptr<const backends::Kernel> find_or_make(const backends::Device& device, const ops::NodeView& view,
                                                       std::span<const ir::ValueType> types = {});
  // One made with `types` for such operands, so that nothing need be inferred; or null. `inputs` are the node's.
  std::shared_ptr<const LateKernel> find(const ir::Node& node, std::span<const Value> inputs);
  // Whether kernels rely on the contents of this operand.
  bool is_relied_on(std::size_t input, const Tensor& tensor) const;
  // How many kernels were made.
  std::int64_t made() const;

 private:
  void append_operand(std::string& key, std::size_t input, DType dtype, const Shape& shape,
                      const Tensor* contents) const;
  std::string key_of(const ops::NodeView& view, bool by_inputs) const;
  std::shared_ptr<const LateKernel> make(const backends::Device& device, const ops::NodeView& view, std::string key,
                                         std::span<const ir::ValueType> types);
  // To be called with the lock.
  std::shared_ptr<const LateKernel> find(const std::string& key);

  const std::vector<bool> constant_;
  backends::WeightStore& weights_;
  mutable std::mutex mutex_;
  std::list<std::shared_ptr<const LateKernel>> entries_;  // the one used last first
  std::int64_t made_ = 0;
};

}  // namespace tessera::runtime
