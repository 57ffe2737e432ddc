// Packages of language models: what was written is read, and whatever is wrong with a file is said.
#include "io/package/language_package.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "io/file.h"
#include "io/package/byte_stream.h"
#include "io/package/section_kinds.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace tessera::test::language_package_test {
namespace {

using io::LanguagePackage;

constexpr std::size_t kTable = 64, kEntry = 96;
const io::PackageInfo kInfo{"0.0.1", "cpu", "some+set", "f32", {}, {}, false};

Tensor bytes_of_length(std::int64_t length, int first) {
  Tensor tensor(DType::u8, {length});
  std::iota(tensor.mutable_data<std::uint8_t>(), tensor.mutable_data<std::uint8_t>() + length,
            static_cast<std::uint8_t>(first));
  return tensor;
}

// A file in memory that can be spoilt.
struct File {
  explicit File(const std::filesystem::path& path) : bytes(io::read_file(path, 1 << 20)) {}
  explicit File(std::vector<std::byte> given) : bytes(std::move(given)) {}

  LanguagePackage open() const {
    auto copy = std::make_shared<Tensor>(DType::u8, Shape{static_cast<std::int64_t>(bytes.size())});
    std::memcpy(copy->mutable_raw(), bytes.data(), bytes.size());
    return io::read_language_package({static_cast<const std::byte*>(copy->raw()), bytes.size()}, copy);
  }
  template <typename T>
  T number(std::size_t offset) const {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
    return value;
  }
  std::size_t entry_of(std::uint32_t kind) const {
    std::size_t entry = kTable;
    while (number<std::uint32_t>(entry + 32) != kind) entry += kEntry;
    return entry;
  }
  std::size_t offset_of(std::uint32_t kind) const { return number<std::uint64_t>(entry_of(kind) + 40); }
  // Puts a number into a section, and makes the checksums right, as a forger would.
  template <typename T>
  void forge(std::uint32_t kind, std::size_t at, T value) {
    std::memcpy(bytes.data() + offset_of(kind) + at, &value, sizeof value);
    const std::uint64_t sum = XXH3_64bits(bytes.data() + offset_of(kind), number<std::uint64_t>(entry_of(kind) + 48));
    std::memcpy(bytes.data() + entry_of(kind) + 64, &sum, sizeof sum);
    const std::uint64_t table = XXH3_64bits(bytes.data() + kTable, number<std::uint32_t>(12) * kEntry);
    std::memcpy(bytes.data() + 24, &table, sizeof table);
  }

  std::vector<std::byte> bytes;
};

struct LanguagePackageTest : testing::Test {
  LanguagePackageTest() {
    content.form = io::LanguageForm::folder;
    content.texts = {{"config.json", "{}"}, {"tokenizer.json", "[]"}};
    content.tensors = {{"a.weight", base::BlockFormat::q8_0, 2, 64, bytes_of_length(136, 3)},
                       {"b.weight", base::BlockFormat::f32, 1, 5, bytes_of_length(20, 9)}};
    packed = bytes_of_length(300, 50);
    io::write_language_package(path, content, kInfo,
                               {{content.tensors[0].bytes, "some packing[136]", io::bytes_of(packed)},
                                {bytes_of_length(10, 0), "of another tensor", io::bytes_of(packed)}});
  }
  // Where the first weight's entry has its format, rows, columns and offset in the section.
  std::size_t weight_at() const { return 4 + 4 + (4 + 11 + 4 + 2) + (4 + 14 + 4 + 2) + 4 + (4 + 8); }

  io::LanguageContent content;
  Tensor packed;
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "model.tsr";
};

TEST_F(LanguagePackageTest, HoldsTextsWeightsAndPackings) {
  const File file(path);
  EXPECT_TRUE(io::is_language_package(file.bytes));
  const LanguagePackage package = file.open();
  EXPECT_EQ(package.content.form, io::LanguageForm::folder);
  EXPECT_EQ(package.content.texts, content.texts);
  EXPECT_EQ(package.file_bytes, static_cast<std::int64_t>(file.bytes.size()));
  EXPECT_FALSE(package.origin->has_graph);
  EXPECT_EQ(package.origin->info.instruction_set, "some+set");
  ASSERT_EQ(package.content.tensors.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const io::LanguageTensor &found = package.content.tensors[i], &expected = content.tensors[i];
    EXPECT_EQ(found.name, expected.name);
    EXPECT_EQ(found.format, expected.format);
    EXPECT_EQ(std::pair(found.rows, found.columns), std::pair(expected.rows, expected.columns));
    EXPECT_TRUE(std::ranges::equal(io::bytes_of(found.bytes), io::bytes_of(expected.bytes)));
    package.origin->stream->need(found.bytes.raw(), found.bytes.bytes());
  }
  EXPECT_EQ(package.origin->packings->size(), 1u);
  const auto found = package.origin->packings->find(package.content.tensors[0].bytes.raw(), "some packing[136]");
  ASSERT_TRUE(std::ranges::equal(found, io::bytes_of(packed)));
  package.origin->stream->need(found.data(), static_cast<std::int64_t>(found.size()));
  io::verify_package(path);
}

TEST_F(LanguagePackageTest, IsNoModelOfAGraph) {
  const File file(path);
  auto copy = std::make_shared<Tensor>(DType::u8, Shape{static_cast<std::int64_t>(file.bytes.size())});
  std::memcpy(copy->mutable_raw(), file.bytes.data(), file.bytes.size());
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(copy->raw()), file.bytes.size());
  expect_error_containing(ErrorKind::invalid_model, "no section of", [&] { io::read_package(bytes, copy); });
}

TEST_F(LanguagePackageTest, CutFilesAreRefused) {
  const File whole(path);
  for (std::size_t end = 0; end < whole.bytes.size(); end += end < 1024 ? 7 : 61) {
    const File cut(std::vector(whole.bytes.begin(), whole.bytes.begin() + static_cast<std::ptrdiff_t>(end)));
    expect_error_containing(ErrorKind::invalid_model, "", [&] { cut.open(); });
    io::is_language_package(cut.bytes);  // reads nothing beyond the end, which sanitizers see
  }
}

TEST_F(LanguagePackageTest, DamageIsFound) {
  for (const std::uint32_t kind : {io::kInfo, io::kLanguage, io::kPackings, io::kPieces}) {
    File file(path);
    file.bytes[file.offset_of(kind) + 1] ^= std::byte{8};
    expect_error_containing(ErrorKind::invalid_model, "is damaged: its checksum differs", [&] { file.open(); });
  }
  for (const std::uint32_t kind : {io::kConstants, io::kPacked}) {
    File file(path);
    file.bytes[file.offset_of(kind) + 1] ^= std::byte{8};
    const LanguagePackage package = file.open();  // weights are checked when they are taken
    const auto packing = package.origin->packings->find(package.content.tensors[0].bytes.raw(), "some packing[136]");
    expect_error_containing(ErrorKind::invalid_model, "bytes of the package's weights are damaged", [&] {
      package.origin->stream->need(package.content.tensors[0].bytes.raw(), 136);
      package.origin->stream->need(packing.data(), static_cast<std::int64_t>(packing.size()));
    });
  }
}

TEST_F(LanguagePackageTest, ForgedNumbersAreRefused) {
  const auto refused = [&](ErrorKind kind, const std::string& text, std::size_t at, auto value) {
    File file(path);
    file.forge(io::kLanguage, at, value);
    expect_error_containing(kind, text, [&] { file.open(); });
  };
  const std::size_t format = weight_at(), rows = format + 4 + 4, columns = rows + 8, offset = columns + 8;
  refused(ErrorKind::unsupported, "is of form 7", 0, std::uint32_t{7});
  refused(ErrorKind::invalid_model, "a list of 4294967295 entries", 4, ~std::uint32_t{0});
  refused(ErrorKind::invalid_model, "are expected where", 8, std::uint32_t{1} << 31);
  refused(ErrorKind::unsupported, "of the format 'z8_0', which is not known", format + 4, 'z');
  for (const std::uint64_t number : {std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    refused(ErrorKind::invalid_model, "is more than 2^63 - 1", rows, number);
    refused(ErrorKind::invalid_model, "from byte", offset, number);
  }
  refused(ErrorKind::over_budget, "", rows, std::uint64_t{1} << 62);
  refused(ErrorKind::invalid_model, "has 68000 bytes from byte 0 on of a section of", rows, std::uint64_t{1000});
  refused(ErrorKind::invalid_model, "", columns, std::uint64_t{33});  // no whole blocks
  refused(ErrorKind::invalid_model, "from byte 1 on", offset, std::uint64_t{1});
  refused(ErrorKind::invalid_model, "two weights 'a.weight'", offset + 8 + 4, 'a');
}

}  // namespace
}  // namespace tessera::test::language_package_test
