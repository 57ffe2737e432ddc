// The container of Tessera's own files, .tsr: named sections that can be mapped, each with a length and a checksum
// (docs/package.md). section_kinds.h lists the sections of a package.
//
// A file is hostile until checked: opening checks the header and every offset, length and overlap; nothing is read
// beyond the file. Checksums find accidents, not forgeries. Faults throw tessera::Error: invalid_model (truncated,
// corrupt), unsupported (newer format, unknown codec).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::io {

// The encoding of a section.
enum class Codec : std::uint32_t {
  none = 0,
  weights = 1,  // see package/coded_weights.h
  sealed = 2,   // encrypted: only a SectionDecoder reads it (package/section_decoder.h)
};

struct Section {
  std::string name;        // 1 to 31 printable characters, unique in its file
  std::uint32_t kind = 0;  // what it holds; unique in its file
  Codec codec = Codec::none;
  std::uint64_t offset = 0;  // in the file, a multiple of 64, and of 4096 where it holds pieces that begin at pages
  std::uint64_t stored_bytes = 0, raw_bytes = 0;
  std::uint64_t checksum = 0;  // XXH3, 64 bits, of the stored bytes
};

// The alignment of sections that are mapped. Coded sections, and those below kMappedBytes, begin at multiples of 64.
inline constexpr std::int64_t kSectionAlignment = 4096, kSmallAlignment = 64;
inline constexpr std::uint64_t kMappedBytes = std::uint64_t{64} << 10;

// Whether the bytes begin as such a file does.
bool is_container(std::span<const std::byte> bytes);
// Whether the table of such a file, of which nothing was checked, lists a section of that kind; false for other bytes.
bool lists_section(std::span<const std::byte> bytes, std::uint32_t kind) noexcept;

class SectionDecoder;
class SectionEncoder;

// A file in memory.
class Container {
 public:
  // Checks everything but the sections' checksums. `owner` keeps the bytes, which start at a multiple of 64, alive.
  Container(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

  const std::vector<Section>& sections() const { return sections_; }
  // Whether sections are encrypted, so that decode_by() must be called before they are read.
  bool is_protected() const;
  // From here on sections() are the decoded ones, and bytes_of() is their memory, of which the decoder's need() says
  // what can be read. verify() decodes a section whole.
  void decode_by(std::shared_ptr<const SectionDecoder> decoder);
  const std::shared_ptr<const SectionDecoder>& decoder() const { return decoder_; }
  // The section of that kind, or null.
  const Section* find(std::uint32_t kind) const;
  // The bytes as stored, or as decode_by() says.
  std::span<const std::byte> bytes_of(const Section& section) const;
  // Throws Error(invalid_model) unless the section's bytes have its checksum.
  void verify(const Section& section) const;
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  Section read_section(std::span<const std::byte> entry) const;
  void check_overlaps(std::uint64_t table_end) const;
  void check_protection(std::uint32_t version) const;

  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  std::vector<Section> sections_;
  std::shared_ptr<const SectionDecoder> decoder_;
};

// A section to be written: pieces one after the other, each at a multiple of its alignment, zeros between them. The
// pieces are borrowed.
class SectionContent {
 public:
  SectionContent(std::string name, std::uint32_t kind) : name_(std::move(name)), kind_(kind) {}
  // A section whose pieces are encoded by `codec`; they decode to `raw_bytes` bytes.
  SectionContent(std::string name, std::uint32_t kind, Codec codec, std::uint64_t raw_bytes)
      : name_(std::move(name)), kind_(kind), codec_(codec), raw_bytes_(raw_bytes) {}
  // Returns the offset in the section. `alignment`: a power of two, at most 4096.
  std::uint64_t append(std::span<const std::byte> piece, std::uint64_t alignment = 1);

  const std::string& name() const { return name_; }
  std::uint32_t kind() const { return kind_; }
  Codec codec() const { return codec_; }
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t raw_bytes() const { return codec_ == Codec::none ? bytes_ : raw_bytes_; }
  // Calls `use` with the section's bytes in order.
  void for_each_run(const std::function<void(std::span<const std::byte>)>& use) const;

 private:
  struct Piece {
    std::uint64_t offset;
    std::span<const std::byte> bytes;
  };
  std::string name_;
  std::uint32_t kind_;
  Codec codec_ = Codec::none;
  std::uint64_t bytes_ = 0, raw_bytes_ = 0;
  std::vector<Piece> pieces_;
};

// Writes to a temporary name and renames. With an encoder all sections are stored in its form. Returns the file's
// length. Throws Error(io).
std::int64_t write_container(const std::filesystem::path& path, const std::vector<SectionContent>& sections,
                             const SectionEncoder* encoder = nullptr);

// Writes the encoded sections of a file as they are stored, with another last section (see FileEncoding::close).
// Returns the file's length. Throws Error(io).
std::int64_t rewrite_container(const std::filesystem::path& path, const Container& file,
                               std::span<const std::byte> last);

}  // namespace tessera::io
