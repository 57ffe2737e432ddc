// The values of variables that one run sees, and how its updates become their values.
//
//   VariableRun run(store, places, updates, control);   // holds the present values; waits for its turn if it updates
//   … run.value(i) … every step that can fail …
//   const std::vector<Tensor> memory = run.begin_writing(in_place, on_device);
//   … steps that write over variables …
//   run.update(i, next);                                 // every variable that has an update
//   run.finish();                                        // all become the values at once
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/run/run_control.h"
#include "runtime/variables/variable_store.h"

namespace tessera::runtime {

// Used by one thread. A run that is not finished leaves the variables as they were, but for those that it damaged.
class VariableRun {
 public:
  // `places`: of the program's variables, which value() and others number. A run that `updates` waits for its turn,
  // without a core. Throws Error(failed) for damaged variables of the program, and what stops the run.
  VariableRun(Variables& store, std::span<const std::size_t> places, bool updates, RunControl& control);
  ~VariableRun();
  VariableRun(const VariableRun&) = delete;
  VariableRun& operator=(const VariableRun&) = delete;

  // The value in host memory, copied from a device if need be.
  const Tensor& value(std::size_t variable) const { return held_[variable].tensor(); }
  // The value in the memory of the device, likewise.
  Tensor value_on(const DeviceSpace& space, std::size_t variable) const { return held_[variable].on_device(space); }
  DType dtype(std::size_t variable) const { return held_[variable].dtype(); }
  const Shape& shape(std::size_t variable) const { return held_[variable].shape(); }
  backends::TensorAllocator& memory() { return store_.memory(); }

  // Memory for the next values of these variables: their own, where the run is the only other holder, else fresh; of
  // the device for those that `on_device` is true of (by variable; empty: of none). Until finish() nobody begins to
  // hold a variable of the store. Throws Error(over_budget); nothing has begun then.
  std::vector<Tensor> begin_writing(std::span<const std::size_t> variables, const std::vector<bool>& on_device = {},
                                    const DeviceSpace& space = {});
  // A kernel is about to write to what begin_writing gave for the variable.
  void mark_written(std::size_t variable);
  // Takes back all marks of mark_written: no kernel has written, so nothing is damaged if the run ends now.
  void forget_writes() { written_.assign(written_.size(), false); }
  // The variables that are damaged if the run ends now: "variables 'a', 'b'"; "" for none.
  std::string damaged() const;

  // The next value of a variable: memory that begin_writing gave for it or that comes from memory(), or another
  // variable's value at the start of the run.
  void update(std::size_t variable, Tensor next);
  // Sets the next value of a variable in the memory of the device.
  void update_on(const DeviceSpace& space, std::size_t variable, Tensor next);
  void update_by(std::size_t variable, std::size_t other);
  void finish() noexcept;

 private:
  void end_turn();  // with the mutex held

  Variables& store_;
  const std::span<const std::size_t> places_;
  const bool updates_;
  std::vector<HeldValue> held_;
  std::vector<std::int64_t> times_set_;
  std::vector<bool> written_over_, written_;  // by variable
  std::vector<std::optional<HeldValue>> next_;
  bool writing_ = false, finished_ = false;
};

}  // namespace tessera::runtime
