// The container: what was written is read, and whatever is wrong with a file is said.
#include "io/package/container.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "io/file.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "tessera/tensor.h"

namespace tessera::test::container_test {
namespace {

using io::Container;

constexpr std::size_t kEntry = 96, kTable = 64;

// A file in memory that can be spoilt.
class File {
 public:
  explicit File(const std::vector<std::byte>& bytes)
      : bytes_(DType::u8, {static_cast<std::int64_t>(bytes.size())}), size_(bytes.size()) {
    std::memcpy(data(), bytes.data(), bytes.size());
  }

  std::byte* data() { return static_cast<std::byte*>(bytes_.mutable_raw()); }
  std::size_t size() const { return size_; }
  void cut_to(std::size_t size) { size_ = size; }
  template <typename T>
  void set(std::size_t offset, T value) {
    std::memcpy(data() + offset, &value, sizeof(value));
  }
  // The fields of a section's entry, after its name.
  void set_kind(std::size_t section, std::uint32_t value) { set(kTable + section * kEntry + 32, value); }
  void set_codec(std::size_t section, std::uint32_t value) { set(kTable + section * kEntry + 36, value); }
  void set_offset(std::size_t section, std::uint64_t value) { set(kTable + section * kEntry + 40, value); }
  void set_stored(std::size_t section, std::uint64_t value) { set(kTable + section * kEntry + 48, value); }
  void set_raw(std::size_t section, std::uint64_t value) { set(kTable + section * kEntry + 56, value); }
  void set_name(std::size_t section, const std::string& name) {
    std::memcpy(data() + kTable + section * kEntry, name.data(), name.size());
  }
  // Makes the table's checksum right, as a forger would.
  void sign() { set<std::uint64_t>(24, XXH3_64bits(data() + kTable, 2 * kEntry)); }

  Container open() { return Container({data(), size_}, nullptr); }

 private:
  Tensor bytes_;
  std::size_t size_;
};

File make_file() {
  const TemporaryFolder folder;
  const std::string first = "first", second(5000, 's');
  std::vector<io::SectionContent> sections;
  sections.emplace_back("first", 7).append(std::as_bytes(std::span(first)));
  io::SectionContent& content = sections.emplace_back("second", 9);
  EXPECT_EQ(content.append(std::as_bytes(std::span(first))), 0u);
  EXPECT_EQ(content.append(std::as_bytes(std::span(second)), 64), 64u);
  const std::int64_t bytes = io::write_container(folder / "file", sections);
  const std::vector<std::byte> file = io::read_file(folder / "file", 1 << 20);
  EXPECT_EQ(static_cast<std::size_t>(bytes), file.size());
  return File(file);
}

TEST(Container, ReadsWhatWasWritten) {
  File file = make_file();
  const Container container = file.open();
  ASSERT_EQ(container.sections().size(), 2u);
  const io::Section& second = *container.find(9);
  EXPECT_EQ(second.name, "second");
  EXPECT_EQ(second.offset, 320u);
  EXPECT_EQ(second.stored_bytes, 5064u);
  const std::span<const std::byte> bytes = container.bytes_of(second);
  EXPECT_EQ(std::memcmp(bytes.data(), "first\0", 6), 0);
  EXPECT_EQ(bytes[64], static_cast<std::byte>('s'));
  EXPECT_EQ(container.find(8), nullptr);
  for (const io::Section& section : container.sections()) container.verify(section);
}

TEST(Container, BeginsLargeSectionsAtPagesAndCodedOnesAnywhere) {
  const TemporaryFolder folder;
  const std::vector<std::byte> large(70'000);
  std::vector<io::SectionContent> sections;
  sections.emplace_back("coded", 1, io::Codec::weights, 1 << 20).append(large);
  sections.emplace_back("large", 2).append(large);
  io::write_container(folder / "file", sections);
  File file(io::read_file(folder / "file", 1 << 20));
  const Container container = file.open();
  EXPECT_EQ(container.find(1)->offset, 256u);
  EXPECT_EQ(container.find(1)->codec, io::Codec::weights);
  EXPECT_EQ(container.find(1)->raw_bytes, 1u << 20);
  EXPECT_EQ(container.find(2)->offset % 4096, 0u);
}

TEST(Container, NoticesEveryBitThatChanges) {
  File file = make_file();
  const auto is_noticed = [&] {
    try {
      const Container container = file.open();
      for (const io::Section& section : container.sections()) container.verify(section);
      return false;
    } catch (const Error&) {
      return true;
    }
  };
  EXPECT_FALSE(is_noticed());
  const Container container = file.open();
  const auto matters = [&](std::size_t byte) {
    const bool in_section = std::ranges::any_of(container.sections(), [&](const io::Section& s) {
      return byte >= s.offset && byte < s.offset + s.stored_bytes;
    });
    return byte < 32 || (byte >= kTable && byte < kTable + 2 * kEntry) || in_section;
  };
  for (std::size_t byte = 0; byte < file.size(); ++byte) {
    if (!matters(byte)) continue;
    const std::byte was = file.data()[byte];
    for (int bit = 0; bit < 8; bit += byte < 300 ? 1 : 7) {
      file.data()[byte] = was ^ static_cast<std::byte>(1 << bit);
      EXPECT_TRUE(is_noticed()) << "byte " << byte << " bit " << bit;
    }
    file.data()[byte] = was;
  }
}

TEST(Container, RefusesEveryShorterFile) {
  File file = make_file();
  const std::size_t size = file.size();
  for (std::size_t length = 0; length < size; length += length < 400 ? 1 : 97) {
    file.cut_to(length);
    EXPECT_THROW(file.open(), Error) << length;
  }
}

TEST(Container, SaysWhatIsWrong) {
  const auto refuses = [](ErrorKind kind, const std::string& message, auto spoil) {
    File file = make_file();
    spoil(file);
    file.sign();
    expect_error(kind, message, [&] { file.open(); });
  };
  const ErrorKind invalid = ErrorKind::invalid_model, unsupported = ErrorKind::unsupported;
  refuses(invalid, "not a .tsr file", [](File& f) { f.set<char>(0, 'x'); });
  refuses(unsupported, "the file is of format version 4; this Tessera reads versions 1 to 3",
          [](File& f) { f.set<std::uint32_t>(8, 4); });
  refuses(invalid, "a file of format version 3 must have protected sections",
          [](File& f) { f.set<std::uint32_t>(8, 3); });
  refuses(invalid, "the file says that it has 4294967295 sections, at most 1024 are allowed",
          [](File& f) { f.set<std::uint32_t>(12, 0xFFFFFFFF); });
  refuses(invalid, "the file ends in its table of 1000 sections", [](File& f) { f.set<std::uint32_t>(12, 1000); });
  refuses(invalid, "the file has 5384 bytes, expected 99: it was cut off or added to",
          [](File& f) { f.set<std::uint64_t>(16, 99); });
  refuses(invalid, "section 'second' begins at byte 328, which is no multiple of 64",
          [](File& f) { f.set_offset(1, 328); });
  refuses(invalid, "section 'second' has 5064 bytes from byte 18446744073709551552 on, but the file ends at 5384",
          [](File& f) { f.set_offset(1, ~std::uint64_t{63}); });
  refuses(invalid, "section 'first' has 18446744073709551615 bytes from byte 256 on, but the file ends at 5384",
          [](File& f) { f.set_stored(0, ~std::uint64_t{0}); });
  refuses(unsupported, "section 'first' is stored with codec 3, which this Tessera cannot read",
          [](File& f) { f.set_codec(0, 3); });
  refuses(invalid, "section 'first' is stored as it is, in 5 bytes, but says that it has 6",
          [](File& f) { f.set_raw(0, 6); });
  refuses(invalid, "section 'second' overlaps first", [](File& f) { f.set_offset(1, 256); });
  refuses(invalid, "section 'first' overlaps the table of sections", [](File& f) { f.set_offset(0, 0); });
  refuses(invalid, "there are two sections of kind 7", [](File& f) { f.set_kind(1, 7); });
  refuses(invalid, "there are two sections 'first'", [](File& f) { f.set_name(1, std::string("first\0", 6)); });
  refuses(invalid, "a section's name '' is not of 1 to 31 printable characters",
          [](File& f) { f.set_name(0, std::string(1, '\0')); });
  refuses(invalid, "a section's name '\\x1B[2J' is not of 1 to 31 printable characters",
          [](File& f) { f.set_name(0, std::string("\x1B[2J\0", 5)); });
  refuses(invalid, "a section's name '" + std::string(32, 'n') + "' is not of 1 to 31 printable characters",
          [](File& f) { f.set_name(0, std::string(32, 'n')); });
}

}  // namespace
}  // namespace tessera::test::container_test
