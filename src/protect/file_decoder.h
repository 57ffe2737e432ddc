// Reads protected files: the io::SectionDecoder of this folder.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "io/package/section_decoder.h"
#include "protect/chunk_cipher.h"
#include "protect/protection.h"

namespace tessera::protect {

// Sections are decrypted chunk by chunk into memory of their own, each chunk once, when someone asks for it.
class FileDecoder : public io::SectionDecoder {
 public:
  // Throws Error(invalid_model) where protection, table or header are not those that a holder of the file key wrote.
  FileDecoder(const io::Container& file, Protection protection, std::shared_ptr<const Secret> file_key);
  ~FileDecoder() override;

  const std::vector<io::Section>& sections() const override { return sections_; }
  std::span<const std::byte> memory_of(const io::Section& section) const override;
  void need(std::span<const std::byte> bytes, bool in_parallel = false) const override;
  std::shared_ptr<const io::SectionEncoder> encoder() const override;

 private:
  enum class State : std::uint8_t { encrypted, busy, decrypted, changed };
  struct Region {
    std::span<const std::byte> stored;
    ChunkCipher cipher;
    SecretMemory memory;
    std::unique_ptr<std::atomic<State>[]> states;  // of its chunks
  };

  void decrypt(const Region& region, std::uint64_t chunk) const;

  std::shared_ptr<const void> owner_;  // of the stored bytes
  Protection protection_;
  std::shared_ptr<const Secret> file_key_;
  std::vector<io::Section> sections_;
  std::vector<Region> regions_;  // of the sections
};

}  // namespace tessera::protect
