#include "backends/simulated/recording.h"

#include "base/error.h"

namespace tessera::backends::simulated {

SimulatedRecording::SimulatedRecording(SimulatedMachine& machine, RecordedWork work)
    : machine_(machine), work_(std::move(work)), is_awaited_(work_.operations.size(), false) {
  for (const RecordedOperation& each : work_.operations) {
    for (const std::size_t earlier : each.after) is_awaited_[earlier] = true;
  }
  for (const std::size_t last : work_.last) is_awaited_[last] = true;
  for (std::size_t i = 1; i < work_.branches; ++i) branches_.push_back(std::make_unique<SimulatedStream>(machine));
  set_launch();
}

// A replay is one launch, whatever its first operation is.
void SimulatedRecording::set_launch() {
  bool first = true;
  for (RecordedOperation& each : work_.operations) {
    if (!first) each.operation.timing.launch_ns = 0;
    each.operation.is_launch = first;
    first = false;
  }
}

bool SimulatedRecording::update(RecordedWork& work) {
  const std::lock_guard lock(mutex_);
  if (work.branches != work_.branches || work.last != work_.last || work.operations.size() != work_.operations.size())
    return false;
  for (std::size_t i = 0; i < work.operations.size(); ++i) {
    const RecordedOperation &from = work.operations[i], &to = work_.operations[i];
    if (from.operation.name != to.operation.name || from.branch != to.branch || from.after != to.after) return false;
  }
  work_ = std::move(work);
  set_launch();
  return true;
}

SimulatedStream& SimulatedRecording::stream_of(std::size_t branch, SimulatedStream& origin) {
  return branch == 0 ? origin : *branches_[branch - 1];
}

void SimulatedRecording::replay(Stream& stream) {
  // "Each launch is ordered behind both any previous work in this stream and any previous launches of this executable
  // graph."
  SimulatedStream& origin = simulated::stream_of(machine_, stream);
  Capture::refuse_to_thread("the replay of a recording");
  const std::lock_guard lock(mutex_);
  if (last_replay_ != nullptr) origin.come_after(last_replay_);
  machine_.count_replay();
  if (!branches_.empty()) {
    const std::shared_ptr<Mark> begin = origin.mark();
    for (const std::unique_ptr<SimulatedStream>& branch : branches_) {
      branch->forget_failure();  // of the replay before, which the stream of that replay has reported
      branch->wait_for(begin);
    }
  }
  std::vector<std::shared_ptr<Mark>> marks(work_.operations.size());
  for (std::size_t i = 0; i < work_.operations.size(); ++i) {
    const RecordedOperation& each = work_.operations[i];
    SimulatedStream& on = stream_of(each.branch, origin);
    for (const std::size_t earlier : each.after) on.wait_for(marks[earlier]);
    on.submit(each.operation);
    if (is_awaited_[i]) marks[i] = on.mark();
  }
  for (const std::size_t last : work_.last) origin.wait_for(marks[last]);
  last_replay_ = origin.mark();
}

}  // namespace tessera::backends::simulated
