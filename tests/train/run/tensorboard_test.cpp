#include "train/run/tensorboard.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "support/temporary_folder.h"

namespace tessera::train::tensorboard_test {
namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<std::uint8_t>(byte));
  return text;
}

// RFC 3720, B.4, and the check value of the catalogue of CRCs.
TEST(TensorBoard, HasTheKnownChecksums) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
}

// wall_time = 1.5 (field 1, 64 bits), step = 300 (field 2, varint ac 02), summary (field 5) with one value (field 1) of
// tag "a" (field 1) and simple_value = 0.5 (field 2, 32 bits).
TEST(TensorBoard, WritesMessagesOfProtobuf) {
  EXPECT_EQ(hex(scalar_event(1.5, 300, {{"a", 0.5}})),
            "09000000000000f83f"
            "10ac02"
            "2a0a"
            "0a08"
            "0a0161"
            "150000003f");
}

TEST(TensorBoard, FramesRecords) {
  const std::string record = tf_record("abc");
  ASSERT_EQ(record.size(), 8u + 4 + 3 + 4);
  EXPECT_EQ(hex(record.substr(0, 8)), "0300000000000000");
  EXPECT_EQ(record.substr(12, 3), "abc");
  const auto masked = [](std::string_view bytes) {
    const std::uint32_t crc = crc32c(bytes), value = ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
    std::string text(4, '\0');
    for (std::size_t i = 0; i < 4; ++i) text[i] = static_cast<char>(value >> (8 * i));
    return text;
  };
  EXPECT_EQ(hex(record.substr(8, 4)), hex(masked(record.substr(0, 8))));
  EXPECT_EQ(hex(record.substr(15)), hex(masked("abc")));
}

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

TEST(TensorBoard, KeepsAFileForEachPartOfATraining) {
  const test::TemporaryFolder folder;
  TensorBoardLog first(folder.path() / "events", 0);
  StepReport step;
  step.step = 7;
  first.add(step);
  EvaluationReport evaluation;
  evaluation.data = "validation";
  evaluation.metrics = {{"accuracy", 0.5}};
  first.add(evaluation);
  TensorBoardLog second(folder.path() / "events", 7);
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "events"))
    files.push_back(text_of(entry.path()));
  ASSERT_EQ(files.size(), 2u);
  if (files[0].size() < files[1].size()) std::swap(files[0], files[1]);
  for (const std::string& file : files) EXPECT_EQ(file.substr(12 + 9 + 2 + 2, 13), "brain.Event:2");
  for (const char* tag : {"train/loss", "train/learning_rate", "validation/accuracy", "validation/loss"})
    EXPECT_NE(files[0].find(tag), std::string::npos) << tag;
  // The session log of the second part: it starts behind step 7 (field 2), with status START (field 7).
  EXPECT_NE(files[1].find(std::string("\x10\x08\x3a\x02\x08\x01", 6)), std::string::npos);
}

}  // namespace
}  // namespace tessera::train::tensorboard_test
