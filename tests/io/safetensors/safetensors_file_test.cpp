#include "io/safetensors/safetensors_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "support/error_of.h"
#include "support/temporary_folder.h"

namespace tessera::io::safetensors_file_test {
namespace {

using test::error_of;
using testing::HasSubstr;

std::string file_of(const std::string& header, std::size_t data) {
  const std::uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
  bytes += header;
  for (std::size_t i = 0; i < data; ++i) bytes += static_cast<char>(i);
  return bytes;
}

SafetensorsFile read(const std::string& bytes) {
  const auto owner = std::make_shared<std::string>(bytes);
  return SafetensorsFile::from_bytes(std::as_bytes(std::span(*owner)), owner);
}

std::string read_error(const std::string& header, std::size_t data) {
  return error_of([&] { read(file_of(header, data)); });
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape, const std::string& at) {
  return "\"" + name + "\": {\"dtype\": \"" + dtype + "\", \"shape\": " + shape + ", \"data_offsets\": " + at + "}";
}

TEST(SafetensorsFile, ReadsTensorsAndMetadata) {
  const std::string header = "{\"__metadata__\": {\"format\": \"pt\"}, " + entry("w", "BF16", "[2, 3]", "[4, 16]") +
                             ", " + entry("\\u00e9\\n\\ud83d\\ude00", "F32", "[]", "[0,4]") + "," +
                             entry("none", "I64", "[0, 5]", "[16, 16]") + "}   ";
  const std::string bytes = file_of(header, 16);
  const SafetensorsFile file = read(bytes);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.tensor("w").dtype, DType::bf16);
  EXPECT_EQ(file.tensor("w").shape, (Shape{2, 3}));
  EXPECT_EQ(file.tensor("w").bytes[0], std::byte{4});
  EXPECT_EQ(file.tensor("\u00e9\n\U0001F600").shape, Shape{});
  EXPECT_EQ(file.tensor("none").bytes.size(), 0u);
  EXPECT_EQ(file.find("v"), nullptr);
  EXPECT_THAT(error_of([&] { file.tensor("v"); }), HasSubstr("there is no tensor 'v'"));
  EXPECT_TRUE(SafetensorsFile::recognises(std::as_bytes(std::span(bytes))));
}

TEST(SafetensorsFile, KnowsTheElementTypes) {
  for (const auto& [name, bits] : std::initializer_list<std::pair<const char*, int>>{{"F64", 64},
                                                                                     {"F32", 32},
                                                                                     {"F16", 16},
                                                                                     {"BF16", 16},
                                                                                     {"I64", 64},
                                                                                     {"I32", 32},
                                                                                     {"I16", 16},
                                                                                     {"I8", 8},
                                                                                     {"U8", 8},
                                                                                     {"BOOL", 8},
                                                                                     {"F8_E4M3", 8},
                                                                                     {"F8_E5M2", 8},
                                                                                     {"U16", 16},
                                                                                     {"U32", 32},
                                                                                     {"U64", 64}}) {
    const std::size_t bytes = static_cast<std::size_t>(bits / 8) * 3;
    const SafetensorsFile file =
        read(file_of("{" + entry("t", name, "[3]", "[0, " + std::to_string(bytes) + "]") + "}", bytes));
    EXPECT_EQ(bits_of(file.tensor("t").dtype), bits) << name;
  }
  EXPECT_THAT(read_error("{" + entry("t", "F4", "[2]", "[0, 1]") + "}", 1),
              HasSubstr("tensor 't' has the element type 'F4', which is not supported"));
}

TEST(SafetensorsFile, TensorsFillTheData) {
  const auto two = [](const std::string& first, const std::string& second, std::size_t data = 16) {
    return read_error("{" + entry("a", "F32", "[2]", first) + ", " + entry("b", "F32", "[2]", second) + "}", data);
  };
  EXPECT_EQ(two("[0, 8]", "[8, 16]"), "");
  EXPECT_EQ(two("[8, 16]", "[0, 8]"), "");
  EXPECT_THAT(two("[0, 8]", "[4, 12]"), HasSubstr("tensor 'b' at 4 overlaps the one before it, which reaches to 8"));
  EXPECT_THAT(two("[0, 8]", "[12, 20]", 20), HasSubstr("tensor 'b' lies at 12, expected 8: there is a gap"));
  EXPECT_THAT(two("[0, 8]", "[8, 16]", 17), HasSubstr("the tensors take 16 bytes, but the data have 17"));
  EXPECT_THAT(two("[0, 8]", "[8, 16]", 15), HasSubstr("is the file whole?"));
  EXPECT_THAT(two("[0, 8]", "[9223372036854775800, 9223372036854775807]"), HasSubstr("is the file whole?"));
  EXPECT_THAT(two("[0, 8]", "[16, 8]"), HasSubstr("lie from 16 to 8"));
  EXPECT_THAT(two("[0, 8]", "[8, 15]", 15), HasSubstr("tensor 'b' has 7 bytes, expected 8"));
  EXPECT_THAT(two("[0, 8]", "[8, 9223372036854775808]"), HasSubstr("a number up to 2^63 - 1"));
  EXPECT_THAT(two("[0, 8]", "[8, 16.0]"), HasSubstr("expected a whole number"));
  EXPECT_THAT(two("[0, 8]", "[-8, 16]"), HasSubstr("expected a whole number"));
  EXPECT_THAT(two("[0, 8]", "[8]"), HasSubstr("tensor 'b' lacks dtype, shape or two data_offsets"));
}

TEST(SafetensorsFile, TheHeaderIsChecked) {
  EXPECT_THAT(read_error("{" + entry("a", "F32", "[4294967296, 4294967296]", "[0, 0]") + "}", 0),
              HasSubstr("too many elements"));
  EXPECT_THAT(read_error("{" + entry("a", "F32", "[1]", "[0, 4]") + "," + entry("a", "F32", "[1]", "[4, 8]") + "}", 8),
              HasSubstr("there are two tensors 'a'"));
  EXPECT_THAT(read_error("{\"a\": {\"dtype\": \"F32\"}}", 0), HasSubstr("lacks dtype, shape"));
  EXPECT_THAT(read_error("{\"a\": {\"color\": 1}}", 0), HasSubstr("the unknown entry 'color'"));
  EXPECT_THAT(read_error("{\"a\": 1}", 0), HasSubstr("has '1' at byte 6, expected '{'"));
  EXPECT_THAT(read_error("{} x", 0), HasSubstr("expected its end"));
  EXPECT_THAT(read_error("{\"a", 0), HasSubstr("the rest of a string"));
  EXPECT_THAT(read_error("{\"\\ud800\": 1}", 0), HasSubstr("a surrogate pair"));
  EXPECT_THAT(read_error("{\"" + std::string(2 << 20, 'a') + "\": 1}", 0), HasSubstr("more than 1048576 bytes"));
  std::string ones = "[1";
  for (int i = 0; i < 100; ++i) ones += ",1";
  EXPECT_THAT(read_error("{" + entry("a", "F32", ones + "]", "[0, 4]") + "}", 4), HasSubstr("more than 64 dimensions"));
}

TEST(SafetensorsFile, TheHeadersLengthIsBounded) {
  std::string bytes = file_of("{}", 0);
  const auto with_length = [&](std::uint64_t length) {
    bytes.replace(0, sizeof(length), reinterpret_cast<const char*>(&length), sizeof(length));
    return error_of([&] { read(bytes); });
  };
  EXPECT_THAT(with_length(~std::uint64_t{0}), HasSubstr("but only 2 follow"));
  EXPECT_THAT(with_length(3), HasSubstr("but only 2 follow; is the file whole?"));
  bytes.resize(100'000'001 + sizeof(std::uint64_t), ' ');
  EXPECT_THAT(with_length(100'000'001), HasSubstr("more than the limit of 100000000"));
  EXPECT_THAT(error_of([&] { read("1234"); }), HasSubstr("no whole safetensors file"));
}

TEST(SafetensorsFile, ATruncatedFileIsRefused) {
  const std::string whole =
      file_of("{" + entry("a", "F32", "[2]", "[0, 8]") + ", " + entry("b", "U8", "[3]", "[8, 11]") + "}", 11);
  EXPECT_EQ(error_of([&] { read(whole); }), "");
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_NE(error_of([&] { read(whole.substr(0, length)); }), "") << length;
}

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string index_of(const std::string& file_of_b) {
  return R"({"metadata": {"total_size": [1, {"x": null}]}, "weight_map": {"a": "1.safetensors", "b": ")" + file_of_b +
         "\"}}";
}

TEST(SafetensorsFile, JoinsTheFilesOfAnIndex) {
  const test::TemporaryFolder folder;
  write(folder / "1.safetensors", file_of("{" + entry("a", "F32", "[1]", "[0, 4]") + "}", 4));
  EXPECT_EQ(SafetensorsFile::open(folder.path()).tensors().size(), 1u);  // a single file is taken whatever its name
  write(folder / "2.safetensors", file_of("{" + entry("b", "U8", "[1]", "[0, 1]") + "}", 1));
  EXPECT_THAT(error_of([&] { SafetensorsFile::open(folder.path()); }), HasSubstr("has 2 .safetensors files"));
  const std::filesystem::path index = folder / "model.safetensors.index.json";
  write(index, index_of("2.safetensors"));
  for (const auto& path : {folder.path(), index}) {
    const SafetensorsFile file = SafetensorsFile::open(path);
    EXPECT_EQ(file.shards(), 2);
    EXPECT_EQ(file.tensor("b").bytes.size(), 1u);
    EXPECT_EQ(file.folder(), folder.path());
  }
  const auto open_error = [&](const std::string& text) {
    write(index, text);
    return error_of([&] { SafetensorsFile::open(index); });
  };
  EXPECT_THAT(open_error(index_of("../2.safetensors")), HasSubstr("expected the name of a file in its own folder"));
  EXPECT_THAT(open_error(index_of("3.safetensors")), HasSubstr("3.safetensors' does not exist"));
  EXPECT_THAT(open_error(index_of("1.safetensors")), HasSubstr("names 2 tensors, but its files have 1"));
  EXPECT_THAT(open_error(R"({"weight_map": {"a": "2.safetensors"}})"), HasSubstr("tensor 'b' lies in '2.safetensors'"));
  EXPECT_THAT(open_error("{}"), HasSubstr("no weight_map"));
  EXPECT_THAT(open_error(std::string(1000, '[')), HasSubstr("expected '{'"));
  EXPECT_THAT(open_error("{\"a\": " + std::string(1000, '[')), HasSubstr("nested more than 64 deep"));
}

}  // namespace
}  // namespace tessera::io::safetensors_file_test
