#include "train/run/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "io/output_file.h"

namespace tessera::train {
namespace {

// Field numbers of the messages, and protobuf's wire types.
enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
constexpr std::uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;  // Event
constexpr std::uint32_t kValue = 1;                                                                 // Summary
constexpr std::uint32_t kTag = 1, kSimpleValue = 2;                                                 // Summary.Value
constexpr std::uint32_t kStatus = 1, kStart = 1;                                                    // SessionLog

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
    table[i] = crc;
  }
  return table;
}

std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

std::string varint(std::uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>((value & 0x7F) | 0x80);
  return text + static_cast<char>(value);
}

std::string key_of(std::uint32_t field, WireType type) {
  return varint(field << 3 | type);
}
std::string bytes_field(std::uint32_t field, std::string_view bytes) {
  return key_of(field, kBytes) + varint(bytes.size()) + std::string(bytes);
}
std::string varint_field(std::uint32_t field, std::int64_t value) {
  return key_of(field, kVarint) + varint(static_cast<std::uint64_t>(value));
}

std::string event(double wall_time, std::int64_t step, const std::string& what) {
  return key_of(kWallTime, kFixed64) + little_endian(std::bit_cast<std::uint64_t>(wall_time), 8) +
         varint_field(kStep, step) + what;
}

double wall_time_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 && name[0] != 0 ? name.data() : "localhost";
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const char byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<std::uint8_t>(byte)) & 0xFF];
  return ~crc;
}

std::string tf_record(std::string_view data) {
  const auto masked = [](std::string_view bytes) {
    return little_endian(std::rotr(crc32c(bytes), 15) + 0xA282EAD8u, 4);
  };
  const std::string length = little_endian(data.size(), 8);
  return length + masked(length) + std::string(data) + masked(data);
}

std::string scalar_event(double wall_time, std::int64_t step,
                         const std::vector<std::pair<std::string, double>>& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    const std::string number =
        key_of(kSimpleValue, kFixed32) + little_endian(std::bit_cast<std::uint32_t>(static_cast<float>(value)), 4);
    summary += bytes_field(kValue, bytes_field(kTag, tag) + number);
  }
  return event(wall_time, step, bytes_field(kSummary, summary));
}

TensorBoardLog::TensorBoardLog(const std::filesystem::path& folder, std::int64_t step) {
  io::make_folder(folder);
  const double now = wall_time_now();
  // A training that is resumed within a second also gets a file of its own.
  for (int number = 0; path_.empty() || std::filesystem::exists(path_); ++number)
    path_ = (folder / fmt::format("events.out.tfevents.{:010}.{}.{}.{}", static_cast<std::int64_t>(now), host_name(),
                                  getpid(), number))
                .string();
  file_.open(path_, std::ios::binary | std::ios::trunc);
  write(event(now, 0, bytes_field(kFileVersion, "brain.Event:2")));
  // Makes TensorBoard discard what other files of the folder have from this step on.
  if (step > 0) write(event(now, step + 1, bytes_field(kSessionLog, varint_field(kStatus, kStart))));
}

void TensorBoardLog::write(const std::string& event) {
  const std::string record = tf_record(event);
  file_.write(record.data(), static_cast<std::streamsize>(record.size()));
  file_.flush();
  require(file_.good(), ErrorKind::io, "cannot write '{}'", path_);
}

void TensorBoardLog::add(const StepReport& report) {
  if (!file_.is_open()) return;
  write(scalar_event(wall_time_now(), report.step,
                     {{"train/loss", report.loss},
                      {"train/learning_rate", report.learning_rate},
                      {"train/gradient_norm", report.gradient_norm},
                      {"train/samples_per_s", report.samples_per_s}}));
}

void TensorBoardLog::add(const EvaluationReport& report) {
  if (!file_.is_open() || report.of_best) return;
  const std::string data = report.data == "train" ? "train_data" : report.data;
  std::vector<std::pair<std::string, double>> scalars{{data + "/loss", report.loss}};
  for (const auto& [name, value] : report.metrics) {
    if (name != "loss") scalars.emplace_back(data + "/" + name, value);
  }
  write(scalar_event(wall_time_now(), report.step, scalars));
}

}  // namespace tessera::train
