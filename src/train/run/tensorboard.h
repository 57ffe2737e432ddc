// Writes the log of a training for TensorBoard: an event file, which is a sequence of TFRecords that hold Event
// messages (https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/util/event.proto).
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

// A TFRecord, little-endian: the length (u64), its masked CRC-32C (u32), the data, and the masked CRC-32C of the data.
// A checksum is masked by rotating it right by 15 bits and adding 0xa282ead8.
std::string tf_record(std::string_view data);

// An Event message with scalars by their tags.
std::string scalar_event(double wall_time, std::int64_t step,
                         const std::vector<std::pair<std::string, double>>& scalars);

class TensorBoardLog {
 public:
  TensorBoardLog() = default;  // writes nothing
  // Begins a new file in the folder, which is created. If a training resumes from `step`, the file tells TensorBoard to
  // discard later steps of earlier files. Throws Error(io).
  TensorBoardLog(const std::filesystem::path& folder, std::int64_t step);

  // Writes train/loss, train/learning_rate, train/gradient_norm and train/samples_per_s.
  void add(const StepReport& report);
  // Writes DATA/METRIC and DATA/loss, where DATA is test, validation or train_data. Tests of the best weights are left
  // out.
  void add(const EvaluationReport& report);

 private:
  void write(const std::string& event);

  std::ofstream file_;
  std::string path_;
};

}  // namespace tessera::train
