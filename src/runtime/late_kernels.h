// Kernels of a step whose operand types depend on data, kept for the types that come again.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/backend.h"

namespace tessera::runtime {

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
  std::shared_ptr<const backends::Kernel> find_or_make(const backends::Device& device, const ops::NodeView& view);
  // How many kernels were made.
  std::int64_t made() const;

 private:
  // A kernel with what it may refer to.
  struct Entry {
    std::string key;
    ir::Node node;
    std::vector<ops::TensorType> inputs, outputs;
    std::vector<Tensor> constants;
    backends::KernelPointer kernel;
  };

  bool is_relied_on(std::size_t input, const Tensor& tensor) const;
  std::string key_of(const ops::NodeView& view) const;
  std::shared_ptr<const Entry> make(const backends::Device& device, const ops::NodeView& view, std::string key);

  const std::vector<bool> constant_;
  backends::WeightStore& weights_;
  mutable std::mutex mutex_;
  std::list<std::shared_ptr<const Entry>> entries_;  // the one used last first
  std::int64_t made_ = 0;
};

}  // namespace tessera::runtime
