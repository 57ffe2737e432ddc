// Chooses kernels by measuring those that accept a node, with the node's shapes and on this machine, instead of by
// their order in the device's table.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "plan/choose_kernel.h"
#include "plan/make_kernels.h"

namespace tessera::plan {

// A text that names everything on which the speed of a node's kernels depends: its operator and attributes, types and
// shapes of its operands, which of them are constants, and the number of threads.
std::string tuning_key(const ops::NodeView& view, int threads);

using TuningTable = std::map<std::string, MeasuredKernels, std::less<>>;  // by tuning_key

// Receives the operator that is measured next, and the fraction (0 to 1) of the plan's measurements that is done.
using TuningProgress = std::function<void(std::string_view op, double done)>;

// Measures each key once. Thread-safe: plans of several programs share one tuner.
class Tuner {
 public:
  // Keys in `known` are not measured again, unless the device has no kernel of the name given there that accepts the
  // node.
  explicit Tuner(TuningTable known, TuningProgress progress = {})
      : table_(std::move(known)), progress_(std::move(progress)) {}

  // Returns one entry for each of `operands`, empty if there is only one kernel. Kernels run on random data. Data are
  // in the cache, while weights come from memory, as they do in a model of `constant_bytes`. A kernel that would not be
  // taken without measuring must be faster by more than times vary.
  std::vector<MeasuredKernels> choose(const Plan& plan, const std::vector<StepOperands>& operands,
                                      const backends::Device& device, backends::WeightStore& weights,
                                      const backends::ExecutionResources& resources);

  TuningTable table() const;

 private:
  mutable std::mutex mutex_;
  TuningTable table_;
  TuningProgress progress_;
};

}  // namespace tessera::plan
