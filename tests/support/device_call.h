// Runs a single operator by a kernel of a device that is no host, as tests of such devices need it.
#pragma once

#include <vector>

#include "backends/backend.h"
#include "support/run_op.h"

namespace tessera::test {

// One operator with its operands in the device's memory, ready to be enqueued any number of times. Operands and results
// on the host are in pinned memory. Operands that are
// given as `constants` are known when the kernel is made.
class DeviceCall {
 public:
  // `misplaced_bytes`: how far from the beginning of its block each operand lies.
  DeviceCall(const backends::Device& device, const OpCall& call, const std::vector<bool>& constants = {},
             std::int64_t misplaced_bytes = 0);
  ~DeviceCall();
  DeviceCall(const DeviceCall&) = delete;
  DeviceCall& operator=(const DeviceCall&) = delete;

  void copy_inputs(backends::Stream& stream) const;
  void enqueue(backends::Stream& stream) const { run(&stream); }
  // `resources`: what else than the stream the kernel is given.
  void run(backends::Stream* stream, backends::ExecutionResources resources = {}) const;
  // Copies the results to the host; they are there when the stream has passed this point.
  std::vector<Tensor> copy_outputs(backends::Stream& stream) const;
  // The kernel's node, for what depends on it alone.
  const ops::NodeView& view() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The first output of the call, on a stream of its own.
Tensor run_on_device(const backends::Device& device, const OpCall& call, const std::vector<bool>& constants = {});
// The same from a recording of the kernel's work, which is replayed twice.
Tensor run_captured(const backends::Device& device, const OpCall& call, const std::vector<bool>& constants = {});

}  // namespace tessera::test
