#include "io/gguf/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "support/error_of.h"
#include "support/gguf_bytes.h"
#include "support/temporary_folder.h"

namespace tessera::io::gguf_file_test {
namespace {

using test::error_of;
using Bytes = test::GgufBytes;
using testing::ElementsAre;
using testing::HasSubstr;

GgufFile read(const Bytes& bytes) {
  const auto owner = std::make_shared<std::string>(bytes.data);
  return GgufFile::from_bytes(std::as_bytes(std::span(*owner)), owner);
}

std::string read_error(const Bytes& bytes) {
  return error_of([&] { read(bytes); });
}

ErrorKind kind_of_error(const Bytes& bytes) {
  try {
    read(bytes);
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "no error";
  return ErrorKind::failed;
}

TEST(GgufFile, ReadsValuesOfEveryType) {
  Bytes bytes;
  bytes.header(0, 14);
  bytes.key("u8", GgufType::u8).number<std::uint8_t>(200);
  bytes.key("i8", GgufType::i8).number<std::int8_t>(-5);
  bytes.key("u16", GgufType::u16).number<std::uint16_t>(60000);
  bytes.key("i16", GgufType::i16).number<std::int16_t>(-300);
  bytes.key("u32", GgufType::u32).number<std::uint32_t>(4'000'000'000U);
  bytes.key("i32", GgufType::i32).number<std::int32_t>(-70000);
  bytes.key("f32", GgufType::f32).number(1.5F);
  bytes.key("bool", GgufType::boolean).number<std::uint8_t>(1);
  bytes.key("string", GgufType::string).text("llama");
  bytes.key("u64", GgufType::u64).number<std::uint64_t>(std::uint64_t{1} << 40);
  bytes.key("i64", GgufType::i64).number<std::int64_t>(-(std::int64_t{1} << 40));
  bytes.key("f64", GgufType::f64).number(0.1);
  bytes.key("texts", GgufType::array).list(GgufType::string, 2).text("a").text("");
  bytes.key("lists", GgufType::array).list(GgufType::array, 2);
  bytes.list(GgufType::i32, 2).number<std::int32_t>(1).number<std::int32_t>(-2);
  bytes.list(GgufType::f32, 1).number(0.25F);
  const GgufFile file = read(bytes);
  EXPECT_EQ(file.value("u8").integer(), 200);
  EXPECT_EQ(file.value("i8").integer(), -5);
  EXPECT_EQ(file.value("u16").integer(), 60000);
  EXPECT_EQ(file.value("i16").integer(), -300);
  EXPECT_EQ(file.value("u32").integer(), 4'000'000'000);
  EXPECT_EQ(file.value("i32").integer(), -70000);
  EXPECT_EQ(file.value("f32").number(), 1.5);
  EXPECT_TRUE(file.value("bool").flag());
  EXPECT_EQ(file.value("string").text(), "llama");
  EXPECT_EQ(file.value("u64").integer(), std::int64_t{1} << 40);
  EXPECT_EQ(file.value("i64").integer(), -(std::int64_t{1} << 40));
  EXPECT_EQ(file.value("f64").number(), 0.1);
  EXPECT_THAT(file.value("texts").texts(), ElementsAre("a", ""));
  const std::vector<GgufValue> lists = file.value("lists").elements();
  ASSERT_EQ(lists.size(), 2u);
  EXPECT_THAT(lists[0].integers(), ElementsAre(1, -2));
  EXPECT_THAT(lists[1].numbers(), ElementsAre(0.25));
  EXPECT_EQ(file.value("texts").description(), "array of string");
  EXPECT_THAT(file.value("u8").integers(), ElementsAre(200));
  EXPECT_EQ(file.find("absent"), nullptr);
}

TEST(GgufFile, AValueOfAnotherTypeIsNamed) {
  Bytes bytes;
  bytes.header(0, 2).key("llama.block_count", GgufType::string).text("30");
  bytes.key("large", GgufType::u64).number(std::numeric_limits<std::uint64_t>::max());
  const GgufFile file = read(bytes);
  EXPECT_THAT(error_of([&] { file.value("llama.block_count").integer(); }),
              HasSubstr("the value of 'llama.block_count' has type string, expected an integer type"));
  EXPECT_THAT(error_of([&] { file.value("llama.block_count").number(); }), HasSubstr("expected a number"));
  EXPECT_THAT(error_of([&] { file.value("large").integer(); }), HasSubstr("18446744073709551615, more than 2^63 - 1"));
  EXPECT_THAT(error_of([&] { file.value("large").flag(); }), HasSubstr("has type u64, expected bool"));
  EXPECT_THAT(error_of([&] { file.value("absent"); }), HasSubstr("no metadata value 'absent'"));
}

TEST(GgufFile, TensorsAreViewsOfTheFile) {
  Bytes bytes;
  bytes.header(2, 0, 2).tensor("a", {2, 3}, 0, 0).tensor("b", {64}, 2, 32).contents(32 + 36);
  const auto owner = std::make_shared<std::string>(bytes.data);
  const GgufFile file = GgufFile::from_bytes(std::as_bytes(std::span(*owner)), owner);
  EXPECT_EQ(file.version(), 2);
  const GgufTensor& b = file.tensor("b");
  EXPECT_EQ(b.format, base::BlockFormat::q4_0);
  EXPECT_THAT(b.dimensions, ElementsAre(64));
  EXPECT_EQ(b.bytes.size(), 36u);
  EXPECT_EQ(reinterpret_cast<const char*>(b.bytes.data()), owner->data() + owner->size() - 36);
  EXPECT_EQ(file.tensor("a").elements(), 6);
  EXPECT_THAT(error_of([&] { file.tensor("c"); }), HasSubstr("the file has no tensor 'c'"));
}

TEST(GgufFile, OtherFilesAreRefusedByName) {
  EXPECT_THAT(read_error(Bytes{"GGML"}), HasSubstr("no GGUF file"));
  EXPECT_THAT(read_error(Bytes().header(0, 0, 1)), HasSubstr("GGUF version 1 is not supported, expected 2 or 3"));
  EXPECT_THAT(read_error(Bytes().header(0, 0, 3U << 24)), HasSubstr("big-endian"));
  EXPECT_EQ(kind_of_error(Bytes().header(0, 0, 3U << 24)), ErrorKind::unsupported);
}

TEST(GgufFile, CountsAreBounded) {
  const std::uint64_t large = std::uint64_t{1} << 63;
  EXPECT_EQ(kind_of_error(Bytes().header(large, 0)), ErrorKind::over_budget);
  EXPECT_EQ(kind_of_error(Bytes().header(0, large)), ErrorKind::over_budget);
  EXPECT_THAT(read_error(Bytes().header(0, 1).number(large)), HasSubstr("the header ends early"));
  EXPECT_THAT(read_error(Bytes().header(0, 1).key("k", GgufType::string).number(large)), HasSubstr("ends early"));
  EXPECT_THAT(read_error(Bytes().header(0, 1).key("k", GgufType::array).list(GgufType::u64, large / 8)),
              HasSubstr("'k' is an array of 1152921504606846976 elements of type u64, and only 0 bytes are left"));
  EXPECT_THAT(read_error(Bytes().header(0, 1).key("k", GgufType::array).list(GgufType::string, large)),
              HasSubstr("elements of type string"));
  Bytes deep;
  deep.header(0, 1).key("k", GgufType::array);
  for (int i = 0; i < 100; ++i) deep.list(GgufType::array, 1);
  EXPECT_THAT(read_error(deep), HasSubstr("arrays in arrays, more than 4 deep"));
  EXPECT_THAT(read_error(Bytes().header(0, 1).text("k").number<std::uint32_t>(13)), HasSubstr("unknown type 13"));
}

TEST(GgufFile, DimensionsAreChecked) {
  const std::uint64_t large = std::uint64_t{1} << 62;
  EXPECT_THAT(read_error(Bytes().header(1, 0).tensor("w", {large, 2}, 0, 0)), HasSubstr("size overflow"));
  EXPECT_THAT(read_error(Bytes().header(1, 0).tensor("w", {0, large, 4}, 0, 0)), HasSubstr("size overflow"));
  EXPECT_THAT(read_error(Bytes().header(1, 0).tensor("w", {large * 2}, 0, 0)), HasSubstr("more than 2^63 - 1"));
  EXPECT_THAT(read_error(Bytes().header(1, 0).tensor("w", {}, 0, 0)), HasSubstr("0 dimensions, expected 1 to 4"));
  EXPECT_THAT(read_error(Bytes().header(1, 0).tensor("w", {1, 1, 1, 1, 1}, 0, 0)), HasSubstr("5 dimensions"));
  EXPECT_THAT(read_error(Bytes().header(1, 0).tensor("w", {33}, 2, 0)), HasSubstr("whose blocks have 32 elements"));
}

TEST(GgufFile, ATensorWithoutElementsMayHaveLargeDimensions) {
  constexpr std::uint64_t large = std::uint64_t{1} << 40;
  Bytes bytes;
  bytes.header(1, 0).tensor("empty", {large, 0, large}, 0, 0).contents(0);
  EXPECT_EQ(read(bytes).tensor("empty").elements(), 0);
}

TEST(GgufFile, UnknownTensorTypesAreNamed) {
  EXPECT_THAT(read_error(Bytes().header(1, 0).tensor("w", {256}, 16, 0)),
              HasSubstr("tensor 'w' is stored as IQ2_XXS, which is not supported"));
  EXPECT_THAT(read_error(Bytes().header(1, 0).tensor("w", {256}, 99, 0)), HasSubstr("stored as type 99"));
  EXPECT_EQ(kind_of_error(Bytes().header(1, 0).tensor("w", {256}, 15, 0)), ErrorKind::unsupported);
}

TEST(GgufFile, TensorsFillTheData) {
  const auto two = [](std::uint64_t first, std::uint64_t second, std::size_t data = 64) {
    return Bytes().header(2, 0).tensor("a", {8}, 0, first).tensor("b", {8}, 0, second).contents(data);
  };
  EXPECT_EQ(read_error(two(0, 32)), "");
  EXPECT_EQ(read_error(two(32, 0)), "");
  EXPECT_THAT(read_error(two(0, 0)), HasSubstr("tensor 'b' at 0 overlaps the one before it, which reaches to 32"));
  EXPECT_THAT(read_error(two(0, 64, 96)), HasSubstr("tensor 'b' lies at 64, expected 32: there is a gap of 32 bytes"));
  EXPECT_THAT(read_error(two(0, 16)), HasSubstr("no multiple of the alignment 32"));
  EXPECT_THAT(read_error(two(0, 32, 63)), HasSubstr("is the file whole?"));
  EXPECT_THAT(read_error(two(0, (std::uint64_t{1} << 63) - 32)), HasSubstr("is the file whole?"));
  EXPECT_THAT(read_error(two(0, 0 - std::uint64_t{32})), HasSubstr("is the file whole?"));
}

TEST(GgufFile, NamesComeOnce) {
  EXPECT_THAT(read_error(Bytes().header(2, 0).tensor("a", {8}, 0, 0).tensor("a", {8}, 0, 32).contents(64)),
              HasSubstr("two tensors 'a'"));
  EXPECT_THAT(read_error(Bytes().header(0, 2).key("k", GgufType::u8).number('a').key("k", GgufType::u8).number('a')),
              HasSubstr("two metadata values 'k'"));
}

TEST(GgufFile, TheAlignmentIsAPowerOfTwo) {
  const auto aligned = [](std::uint32_t alignment) {
    return Bytes()
        .header(1, 1)
        .key("general.alignment", GgufType::u32)
        .number(alignment)
        .tensor("a", {8}, 0, 0)
        .contents(32, std::clamp(alignment, 1U, 64U));
  };
  EXPECT_EQ(read_error(aligned(64)), "");
  EXPECT_EQ(read_error(aligned(1)), "");
  EXPECT_THAT(read_error(aligned(0)), HasSubstr("general.alignment is 0, expected a power of two"));
  EXPECT_THAT(read_error(aligned(48)), HasSubstr("general.alignment is 48"));
  EXPECT_THAT(read_error(aligned(1U << 31)), HasSubstr("general.alignment is 2147483648"));
}

TEST(GgufFile, ATruncatedFileIsRefused) {
  Bytes whole;
  whole.header(2, 2).key("a", GgufType::string).text("some text");
  whole.key("b", GgufType::array).list(GgufType::u16, 3).number<std::uint16_t>(1).number<std::uint32_t>(2);
  whole.tensor("x", {4, 4}, 0, 0).tensor("y", {32}, 8, 64).contents(64 + 34);
  EXPECT_EQ(read_error(whole), "");
  for (std::size_t length = 0; length < whole.data.size(); ++length)
    EXPECT_NE(read_error(Bytes{whole.data.substr(0, length)}), "") << length;
}

void write(const std::filesystem::path& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary) << bytes.data;
}

Bytes shard(std::uint16_t number, std::uint16_t count, const std::string& tensor, std::int32_t total = 2) {
  return Bytes()
      .header(1, 3)
      .key("split.no", GgufType::u16)
      .number(number)
      .key("split.count", GgufType::u16)
      .number(count)
      .key("split.tensors.count", GgufType::i32)
      .number(total)
      .tensor(tensor, {8}, 0, 0)
      .contents(32);
}

TEST(GgufFile, JoinsTheFilesOfAModel) {
  const test::TemporaryFolder folder;
  const std::filesystem::path first = folder / "m-00001-of-00002.gguf", second = folder / "m-00002-of-00002.gguf";
  write(first, shard(0, 2, "a"));
  EXPECT_THAT(error_of([&] { GgufFile::open(first); }), HasSubstr("m-00002-of-00002.gguf' does not exist"));
  write(second, shard(1, 2, "b"));
  for (const auto& path : {first, second}) {  // whichever is given
    const GgufFile file = GgufFile::open(path);
    EXPECT_EQ(file.shards(), 2);
    EXPECT_EQ(file.tensors().size(), 2u);
    EXPECT_EQ(file.tensor("b").bytes.size(), 32u);
    EXPECT_EQ(file.value("split.no").integer(), 0);
  }
  write(second, shard(1, 2, "a"));
  EXPECT_THAT(error_of([&] { GgufFile::open(first); }), HasSubstr("two tensors 'a'"));
  write(second, shard(0, 2, "b"));
  EXPECT_THAT(error_of([&] { GgufFile::open(first); }), HasSubstr("its split.no is 0, expected 1"));
  write(first, shard(0, 2, "a", 3));
  write(second, shard(1, 2, "b", 3));
  EXPECT_THAT(error_of([&] { GgufFile::open(first); }), HasSubstr("the 2 files have 2 tensors, expected 3"));
  write(folder / "other.gguf", shard(0, 2, "a"));
  EXPECT_THAT(error_of([&] { GgufFile::open(folder / "other.gguf"); }), HasSubstr("found by their names"));
}

}  // namespace
}  // namespace tessera::io::gguf_file_test
