// Which weights of a package each step of a plan reads, so that a run can begin before all of them have been read from
// the file: a step waits for its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "io/package.h"
#include "io/package/weight_stream.h"
#include "plan/plan.h"
#include "runtime/run/run_control.h"

namespace tessera::runtime {

// A constant or a packing that a step reads.
struct StepWeights {
  const Tensor* constant = nullptr;                 // the constant, also of a packing where the plan has it
  const backends::PackedWeights* packed = nullptr;  // null: the constant itself is read
  bool in_part = false;                             // the step reads less than half of it: rows of a table
};

// Calls `visit` with what the step reads. A constant that the kernel packed is not read itself.
void for_each_weights(const plan::Plan& plan, const plan::Step& step,
                      const std::function<void(const StepWeights&)>& visit);

// In the order of their first use by the plan's steps, without those that are no constants of `graph` or packings of
// such; what is only read in part comes last. For io::write_package.
std::vector<io::FirstUse> first_uses(const plan::Plan& plan, const ir::Graph& graph);

// The arrival of the weights of one plan; immutable.
class WeightArrival {
 public:
  // `source`: the graph of the package. What passes made other constants of was read, too, so the run's end waits for
  // it. Chooses the stream's groups, by what the steps are expected to take on that many threads.
  WeightArrival(const plan::Plan& plan, const ir::Graph& source, const io::PackageOrigin& package, int threads);

  // Whether nothing is to be waited for.
  bool is_complete() const;
  // Waits for what the step reads, without a core. Throws as io::WeightStream::wait_for, and where the run is to end.
  void wait_for_step(std::size_t step, RunControl& control) const;
  // The same for what is only read in part, and for constants that are outputs of the plan.
  void wait_for_rest(RunControl& control) const;
  void wait_for_all(RunControl& control) const;

 private:
  void add_step(const plan::Plan& plan, const plan::Step& step);
  void add_rest(const plan::Plan& plan, const ir::Graph& source);
  void add(const void* data, std::int64_t bytes, std::vector<std::size_t>& to) const;
  void choose_groups(const plan::Plan& plan, int threads);
  void wait(std::span<const std::size_t> pieces, RunControl& control) const;

  std::shared_ptr<io::WeightStream> stream_;
  std::shared_ptr<const io::StoredPackings> packings_;
  std::vector<std::size_t> pieces_;  // of all steps in a row
  std::vector<std::size_t> ends_;    // by step: where its pieces end
  std::vector<std::size_t> rest_;
  std::vector<std::size_t> all_;  // sorted
};

}  // namespace tessera::runtime
