// Recorded work of a simulated device that is replayed as one launch, as an executable graph of CUDA is.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "backends/simulated/capture.h"
#include "backends/simulated/simulated_stream.h"

namespace tessera::backends::simulated {

class SimulatedRecording final : public Recording {
 public:
  SimulatedRecording(SimulatedMachine& machine, RecordedWork work);

  void replay(Stream& stream) override;
  // Takes the arguments and durations of `work` if it has the same operations in the same order: "Updates the node
  // parameters in the instantiated graph specified by hGraphExec with the node parameters in a topologically identical
  // graph specified by hGraph." Returns whether it did.
  bool update(RecordedWork& work);

 private:
  void set_launch();
  // The stream on which the operations of a branch run when the recording is replayed on `origin`.
  SimulatedStream& stream_of(std::size_t branch, SimulatedStream& origin);

  SimulatedMachine& machine_;
  std::mutex mutex_;  // of replays by several threads
  RecordedWork work_;
  std::vector<bool> is_awaited_;                            // by operation: whether another branch waits for it
  std::vector<std::unique_ptr<SimulatedStream>> branches_;  // those beside branch 0
  std::shared_ptr<Mark> last_replay_;
};

}  // namespace tessera::backends::simulated
