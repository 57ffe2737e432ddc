#include "io/package/container.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"
#include "io/output_file.h"
#include "io/package/byte_stream.h"
#include "io/package/section_decoder.h"
#include "io/package/section_kinds.h"

namespace tessera::io {
namespace {

// The first byte begins neither a text nor an ONNX file; the line breaks reveal a file that was "converted" as text.
constexpr std::array<std::uint8_t, 8> kMagic{0x89, 'T', 'S', 'R', '\r', '\n', 0x1A, '\n'};
// Version 1 aligned all sections to 4096 bytes and had no coded ones; version 3 alone has encrypted ones.
constexpr std::uint32_t kFormatVersion = 3, kPlainVersion = 2;
constexpr std::size_t kHeaderBytes = 64, kEntryBytes = 96, kNameBytes = 32;
constexpr std::uint32_t kMostSections = 1024;
constexpr std::byte kZeros[kSectionAlignment] = {};

std::uint64_t round_up(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

std::uint64_t alignment_of(const SectionContent& content) {
  const bool mapped = content.codec() == Codec::none && content.bytes() >= kMappedBytes;
  return static_cast<std::uint64_t>(mapped ? kSectionAlignment : kSmallAlignment);
}

bool is_name(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) { return c > ' ' && c < 0x7F; });
}

std::vector<std::byte> header(std::uint32_t version, std::uint32_t sections, std::uint64_t file_bytes,
                              std::span<const std::byte> table) {
  ByteWriter out;
  out.raw(std::as_bytes(std::span(kMagic)));
  out.u32(version);
  out.u32(sections);
  out.u64(file_bytes);
  out.u64(XXH3_64bits(table.data(), table.size()));
  out.pad_to(kHeaderBytes);
  return out.take();
}

void write_entry(ByteWriter& out, const Section& section) {
  const std::size_t begin = out.size();
  out.raw(std::as_bytes(std::span(section.name)));
  out.pad_to(begin + kNameBytes);
  out.u32(section.kind);
  out.u32(static_cast<std::uint32_t>(section.codec));
  out.u64(section.offset);
  out.u64(section.stored_bytes);
  out.u64(section.raw_bytes);
  out.u64(section.checksum);
  out.pad_to(begin + kEntryBytes);
}

// XXH3 of bytes that come in parts.
class Checksum {
 public:
  Checksum() : state_(XXH3_createState(), XXH3_freeState) {
    if (state_ == nullptr) throw std::bad_alloc();
    XXH3_64bits_reset(state_.get());
  }
  void add(std::span<const std::byte> bytes) { XXH3_64bits_update(state_.get(), bytes.data(), bytes.size()); }
  std::uint64_t value() const { return XXH3_64bits_digest(state_.get()); }

 private:
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_;
};

// A file that is written from its first section to its last; finish() puts the header and the table in front.
class ContainerWriter {
 public:
  ContainerWriter(const std::filesystem::path& path, std::size_t sections, std::uint32_t version)
      : file_(path), version_(version) {
    write_zeros(kHeaderBytes + sections * kEntryBytes);
  }

  std::uint64_t position() const { return static_cast<std::uint64_t>(file_.position()); }
  std::uint64_t align(std::uint64_t alignment) {
    write_zeros(round_up(position(), alignment) - position());
    return position();
  }
  // `produce(sink)` writes the stored bytes.
  template <typename Produce>
  void add(Section section, const Produce& produce) {
    section.offset = position();
    Checksum checksum;
    produce([&](std::span<const std::byte> bytes) {
      checksum.add(bytes);
      file_.write(bytes);
    });
    section.stored_bytes = position() - section.offset;
    section.checksum = checksum.value();
    table_.push_back(std::move(section));
  }
  const std::vector<Section>& table() const { return table_; }

  std::int64_t finish() {
    const std::uint64_t end = position();
    ByteWriter table;
    for (const Section& section : table_) write_entry(table, section);
    const std::vector<std::byte> entries = table.take();
    file_.seek(0);
    file_.write(header(version_, static_cast<std::uint32_t>(table_.size()), end, entries));
    file_.write(entries);
    file_.commit();
    return static_cast<std::int64_t>(end);
  }

 private:
  void write_zeros(std::uint64_t count) {
    for (; count > 0; count -= std::min<std::uint64_t>(count, sizeof(kZeros)))
      file_.write(std::span(kZeros).first(static_cast<std::size_t>(std::min<std::uint64_t>(count, sizeof(kZeros)))));
  }

  OutputFile file_;
  std::uint32_t version_;
  std::vector<Section> table_;
};

}  // namespace

bool is_container(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

bool lists_section(std::span<const std::byte> bytes, std::uint32_t kind) noexcept {
  constexpr std::size_t kCountInHeader = 12, kKindInEntry = kNameBytes;
  const auto number_at = [&](std::size_t offset) {
    std::uint32_t number = 0;
    std::memcpy(&number, bytes.data() + offset, sizeof number);
    return number;
  };
  if (!is_container(bytes) || bytes.size() < kHeaderBytes) return false;
  const std::uint32_t count = number_at(kCountInHeader);
  if (count > kMostSections || count * kEntryBytes > bytes.size() - kHeaderBytes) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (number_at(kHeaderBytes + i * kEntryBytes + kKindInEntry) == kind) return true;
  }
  return false;
}

Container::Container(std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
    : bytes_(bytes), owner_(std::move(owner)) {
  TESSERA_ASSERT(reinterpret_cast<std::uintptr_t>(bytes.data()) % 64 == 0, "sections would not be aligned");
  require(is_container(bytes), ErrorKind::invalid_model, "not a .tsr file");
  require(bytes.size() >= kHeaderBytes, ErrorKind::invalid_model, "the file ends in its header, after {} bytes",
          bytes.size());
  ByteReader in(bytes.first(kHeaderBytes).subspan(kMagic.size()));
  const std::uint32_t version = in.u32();
  require(version >= 1 && version <= kFormatVersion, ErrorKind::unsupported,
          "the file is of format version {}; this Tessera reads versions 1 to {}", version, kFormatVersion);
  const std::uint32_t count = in.u32();
  require(count <= kMostSections, ErrorKind::invalid_model,
          "the file says that it has {} sections, at most {} are allowed", count, kMostSections);
  const std::uint64_t file_bytes = in.u64();
  require(file_bytes == bytes.size(), ErrorKind::invalid_model,
          "the file has {} bytes, expected {}: it was cut off or added to", bytes.size(), file_bytes);
  const std::uint64_t checksum = in.u64();
  const std::size_t table_bytes = count * kEntryBytes;
  require(table_bytes <= bytes.size() - kHeaderBytes, ErrorKind::invalid_model,
          "the file ends in its table of {} sections", count);
  const auto table = bytes.subspan(kHeaderBytes, table_bytes);
  require(XXH3_64bits(table.data(), table.size()) == checksum, ErrorKind::invalid_model,
          "the table of sections is damaged: its checksum differs");
  for (std::uint32_t i = 0; i < count; ++i)
    sections_.push_back(read_section(table.subspan(i * kEntryBytes, kEntryBytes)));
  check_overlaps(kHeaderBytes + table_bytes);
  check_protection(version);
}

// All sections are encrypted or none is, so that none can be slipped in.
void Container::check_protection(std::uint32_t version) const {
  const auto sealed = std::ranges::count(sections_, Codec::sealed, &Section::codec);
  const bool has_protection = find(kProtection) != nullptr;
  require((version == kFormatVersion) == has_protection, ErrorKind::invalid_model,
          "a file of format version {} {} protected sections", version, has_protection ? "cannot have" : "must have");
  require(sealed + 1 == static_cast<std::ptrdiff_t>(sections_.size()) || !has_protection, ErrorKind::invalid_model,
          "{} of the protected file's {} sections are encrypted, expected all but the last", sealed, sections_.size());
  require(has_protection || sealed == 0, ErrorKind::invalid_model,
          "{} sections are encrypted, and the section that says how is missing", sealed);
}

bool Container::is_protected() const {
  return decoder_ != nullptr || find(kProtection) != nullptr;
}

void Container::decode_by(std::shared_ptr<const SectionDecoder> decoder) {
  decoder_ = std::move(decoder);
  owner_ = decoder_;  // which keeps its memory
  sections_ = decoder_->sections();
}

Section Container::read_section(std::span<const std::byte> entry) const {
  Section section;
  const auto* name = reinterpret_cast<const char*>(entry.data());
  section.name.assign(name, strnlen(name, kNameBytes));
  require(section.name.size() < kNameBytes && is_name(section.name), ErrorKind::invalid_model,
          "a section's name '{}' is not of 1 to {} printable characters", base::printable(section.name),
          kNameBytes - 1);
  ByteReader in(entry.subspan(kNameBytes));
  section.kind = in.u32();
  section.codec = static_cast<Codec>(in.u32());
  section.offset = in.u64();
  section.stored_bytes = in.u64();
  section.raw_bytes = in.u64();
  section.checksum = in.u64();
  require(section.offset % kSmallAlignment == 0, ErrorKind::invalid_model,
          "section '{}' begins at byte {}, which is no multiple of {}", section.name, section.offset, kSmallAlignment);
  require(section.offset <= bytes_.size() && section.stored_bytes <= bytes_.size() - section.offset,
          ErrorKind::invalid_model, "section '{}' has {} bytes from byte {} on, but the file ends at {}", section.name,
          section.stored_bytes, section.offset, bytes_.size());
  require(section.codec == Codec::none || section.codec == Codec::weights || section.codec == Codec::sealed,
          ErrorKind::unsupported, "section '{}' is stored with codec {}, which this Tessera cannot read", section.name,
          static_cast<std::uint32_t>(section.codec));
  require(section.codec != Codec::none || section.raw_bytes == section.stored_bytes, ErrorKind::invalid_model,
          "section '{}' is stored as it is, in {} bytes, but says that it has {}", section.name, section.stored_bytes,
          section.raw_bytes);
  return section;
}

void Container::check_overlaps(std::uint64_t table_end) const {
  std::vector<const Section*> by_offset;
  std::set<std::string_view> names;
  std::set<std::uint32_t> kinds;
  for (const Section& section : sections_) {
    require(names.insert(section.name).second, ErrorKind::invalid_model, "there are two sections '{}'", section.name);
    require(kinds.insert(section.kind).second, ErrorKind::invalid_model, "there are two sections of kind {}",
            section.kind);
    by_offset.push_back(&section);
  }
  std::ranges::sort(by_offset, {}, &Section::offset);
  std::uint64_t end = table_end;
  std::string_view before = "the table of sections";
  for (const Section* section : by_offset) {
    require(section->offset >= end, ErrorKind::invalid_model, "section '{}' overlaps {}", section->name, before);
    end = section->offset + section->stored_bytes;
    before = section->name;
  }
}

const Section* Container::find(std::uint32_t kind) const {
  const auto found = std::ranges::find(sections_, kind, &Section::kind);
  return found != sections_.end() ? &*found : nullptr;
}

std::span<const std::byte> Container::bytes_of(const Section& section) const {
  if (decoder_ != nullptr) return decoder_->memory_of(section);
  return bytes_.subspan(static_cast<std::size_t>(section.offset), static_cast<std::size_t>(section.stored_bytes));
}

void Container::verify(const Section& section) const {
  const std::span<const std::byte> bytes = bytes_of(section);
  if (decoder_ != nullptr) return decoder_->need(bytes, true);
  require(XXH3_64bits(bytes.data(), bytes.size()) == section.checksum, ErrorKind::invalid_model,
          "section '{}' is damaged: its checksum differs", section.name);
}

std::uint64_t SectionContent::append(std::span<const std::byte> piece, std::uint64_t alignment) {
  const std::uint64_t offset = round_up(bytes_, alignment);
  pieces_.push_back({offset, piece});
  bytes_ = offset + piece.size();
  return offset;
}

void SectionContent::for_each_run(const std::function<void(std::span<const std::byte>)>& use) const {
  std::uint64_t end = 0;
  for (const Piece& piece : pieces_) {
    use(std::span(kZeros).first(static_cast<std::size_t>(piece.offset - end)));
    use(piece.bytes);
    end = piece.offset + piece.bytes.size();
  }
}

std::int64_t write_container(const std::filesystem::path& path, const std::vector<SectionContent>& sections,
                             const SectionEncoder* encoder) {
  const std::unique_ptr<FileEncoding> encoding = encoder != nullptr ? encoder->begin() : nullptr;
  ContainerWriter file(path, sections.size() + (encoding != nullptr ? 1 : 0),
                       encoding != nullptr ? kFormatVersion : kPlainVersion);
  for (const SectionContent& content : sections) {
    Section section{content.name(), content.kind(), content.codec(), 0, 0, content.raw_bytes(), 0};
    if (encoding == nullptr) {
      file.align(alignment_of(content));
      file.add(section, [&](const ByteSink& write) { content.for_each_run(write); });
    } else {
      section.codec = Codec::sealed;
      section.offset = file.align(kSmallAlignment);
      section.stored_bytes = section.raw_bytes = encoding->stored_bytes(content.bytes());
      file.add(section, [&](const ByteSink& write) { encoding->encode(section, content, write); });
    }
  }
  if (encoding != nullptr) {
    const std::vector<std::byte> last = encoding->close(file.table(), file.align(kSmallAlignment));
    file.add({"protection", kProtection, Codec::none, 0, 0, last.size(), 0},
             [&](const ByteSink& write) { write(last); });
  }
  return file.finish();
}

std::int64_t rewrite_container(const std::filesystem::path& path, const Container& file,
                               std::span<const std::byte> last) {
  ContainerWriter out(path, file.sections().size(), kFormatVersion);
  for (const Section& section : file.sections()) {
    out.align(kSmallAlignment);
    const std::span<const std::byte> stored = section.kind == kProtection ? last : file.bytes_of(section);
    Section entry = section;
    if (section.kind == kProtection) entry.raw_bytes = last.size();
    out.add(entry, [&](const ByteSink& write) { write(stored); });
  }
  return out.finish();
}

}  // namespace tessera::io
