// Kernels of a host whose work goes on after the call that began it has returned: collectives, reads of files, calls of
// other machines.
#pragma once

#include <chrono>
#include <memory>

#include "backends/backend.h"

namespace tessera::backends {

// Work that an asynchronous kernel has begun. One thread at a time uses it.
class PendingWork {
 public:
  // Ends the work as soon as it can if it is not complete. From then on nothing of it touches the operands.
  virtual ~PendingWork() = default;
  // Waits no longer than `patience` and returns whether the work is complete. Throws Error if the work failed.
  virtual bool wait_for(std::chrono::nanoseconds patience) = 0;
};

// How soon a run that waits for such work finds that it was cancelled or has missed its deadline.
inline constexpr std::chrono::milliseconds kPendingPatience{10};

// A kernel that a plan begins at its place in the order of steps and awaits when a later step needs its outputs or
// writes to memory that it uses (plan/asynchronous_steps.h). Its outputs have storage of the planned sizes.
class AsynchronousKernel : public Kernel {
 public:
  // Begins the work and returns soon. Inputs, outputs and scratch memory stay as they are until the work is complete or
  // its object is gone; the context itself is valid only during this call.
  virtual std::unique_ptr<PendingWork> begin(KernelContext& context) const = 0;
  // Begins the work and waits for it, for callers that have no plan and for outputs whose sizes no plan knows. Throws
  // Error(cancelled or over_budget) if the run has to stop, after the work has ended.
  void run(KernelContext& context) const final;
};

}  // namespace tessera::backends
