// The joint at which sections get a stored form that `io` cannot read or write by itself: encryption, whose keys this
// floor does not know. The folder `protect` implements it; docs/protect.md has the form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "io/package/container.h"

namespace tessera::io {

// Receives stored bytes in the order of the file.
using ByteSink = std::function<void(std::span<const std::byte>)>;

// The encoding of one file. Sections are encoded in the order of the file, then close() is called once.
class FileEncoding {
 public:
  virtual ~FileEncoding() = default;
  // The length of the stored form of a section of so many bytes.
  virtual std::uint64_t stored_bytes(std::uint64_t bytes) const = 0;
  // Writes the stored form of the content. `entry`: its entry in the table, without the checksum.
  virtual void encode(const Section& entry, const SectionContent& content, const ByteSink& write) = 0;
  // The bytes of the file's last section, which says how the others are decoded. `table`: the entries of the encoded
  // sections, complete; `end`: where the last section begins.
  virtual std::vector<std::byte> close(const std::vector<Section>& table, std::uint64_t end) = 0;
};

// Makes encodings. Thread-safe.
class SectionEncoder {
 public:
  virtual ~SectionEncoder() = default;
  virtual std::unique_ptr<FileEncoding> begin() const = 0;
};

// The decoded sections of one file. Thread-safe.
class SectionDecoder {
 public:
  virtual ~SectionDecoder() = default;
  // The sections as they are after decoding, without the last one that close() made.
  virtual const std::vector<Section>& sections() const = 0;
  // The memory of a section of sections(), which begins at a multiple of 4096. Bytes that need() was not asked
  // for must not be read.
  virtual std::span<const std::byte> memory_of(const Section& section) const = 0;
  // Decodes those of the bytes that are not decoded yet; with `in_parallel` on all idle cores. Throws
  // Error(invalid_model) where the stored bytes were changed; then none of the bytes of such a part can be read.
  virtual void need(std::span<const std::byte> bytes, bool in_parallel = false) const = 0;
  // An encoder of files for the same keys: of models that are made from this one.
  virtual std::shared_ptr<const SectionEncoder> encoder() const = 0;
};

}  // namespace tessera::io
