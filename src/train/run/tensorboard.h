// The log of a training as TensorBoard reads it: an event file, which is a list of TFRecords that hold messages Event
// (https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/util/event.proto).
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/train.h"

namespace tessera::train {

// CRC-32C (Castagnoli, RFC 3720 appendix B.4).
std::uint32_t crc32c(std::string_view bytes);

// A TFRecord: the length (u64), its masked CRC-32C (u32), the data, and theirs; little-endian. A checksum is masked by
// a rotation by 15 bits to the right and the addition of 0xa282ead8.
std::string tf_record(std::string_view data);

// A message Event with scalars by their tags.
std::string scalar_event(double wall_time, std::int64_t step,
                         const std::vector<std::pair<std::string, double>>& scalars);

class TensorBoardLog {
 public:
  TensorBoardLog() = default;  // writes nothing
  // Begins a new file in the folder, which is made. A training that goes on from `step` tells TensorBoard that what an
  // earlier file has behind that step is void. Throws Error(io).
  TensorBoardLog(const std::filesystem::path& folder, std::int64_t step);

  // train/loss, train/learning_rate, train/gradient_norm and train/samples_per_s.
  void add(const StepReport& report);
  // DATA/METRIC and DATA/loss, DATA being test, validation or train_data. The tests of the best weights are left out.
  void add(const EvaluationReport& report);

 private:
  void write(const std::string& event);

  std::ofstream file_;
  std::string path_;
};

}  // namespace tessera::train
