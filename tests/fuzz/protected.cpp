// A protected .tsr file from bytes to outputs, by a key that is known. The first byte says whether checksums and the
// message authentication code are made right first, as one who holds the key could, so that what lies behind them is
// reached.
#include <sodium.h>
#include <xxhash.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>

#include "io/package.h"
#include "io/package/section_kinds.h"
#include "protect/file_decoder.h"
#include "protect/file_encoder.h"
#include "protect/protection.h"
#include "protect/slots.h"
#include "run_model.h"
#include "target.h"
#include "tessera/error.h"

namespace tessera::fuzz {
namespace {

constexpr std::size_t kTable = 64, kEntry = 96;

// Every seed is protected by a file key of zeros.
class KnownKey : public ModelKey {
 public:
  explicit KnownKey(bool signs) : signs_(signs) {}
  std::shared_ptr<const io::SectionDecoder> open(const io::Container& file) const override {
    protect::Protection protection = protect::protection_of(file);
    auto key = std::make_shared<const protect::Secret>(
        protect::Secret::copy_of(std::array<std::uint8_t, protect::kFileKeyBytes>{}));
    if (signs_)
      protection.mac = protect::mac_of(protection, std::span(file.sections()).first(protection.sections.size()),
                                       file.sections().back().offset, *key);
    return std::make_shared<protect::FileDecoder>(file, std::move(protection), std::move(key));
  }

 private:
  bool signs_;
};

void make_checksums_right(std::span<std::byte> bytes) {
  if (bytes.size() < kTable) return;
  std::uint32_t said = 0;
  std::memcpy(&said, bytes.data() + 12, sizeof(said));
  const std::size_t count = std::min<std::size_t>(said, (bytes.size() - kTable) / kEntry);
  for (std::size_t entry = kTable; entry < kTable + count * kEntry; entry += kEntry) {
    std::uint64_t offset = 0, stored = 0;
    std::memcpy(&offset, bytes.data() + entry + 40, sizeof(offset));
    std::memcpy(&stored, bytes.data() + entry + 48, sizeof(stored));
    if (offset > bytes.size() || stored > bytes.size() - offset) continue;
    const std::uint64_t checksum = XXH3_64bits(bytes.data() + offset, stored);
    std::memcpy(bytes.data() + entry + 64, &checksum, sizeof(checksum));
  }
  const std::uint64_t size = bytes.size(), checksum = XXH3_64bits(bytes.data() + kTable, count * kEntry);
  std::memcpy(bytes.data() + 16, &size, sizeof(size));
  std::memcpy(bytes.data() + 24, &checksum, sizeof(checksum));
}

// Describes the key slots, which needs no key.
void try_keys(const io::Container& container) {
  const protect::Protection protection = protect::protection_of(container);
  for (const protect::KeySlot& slot : protection.slots) protect::describe(slot);
  for (const protect::KeyKind kind : {protect::KeyKind::symmetric, protect::KeyKind::recipient_secret}) {
    try {
      protect::unwrap_by_key(protection, {kind, protect::Secret::copy_of(std::array<std::uint8_t, 32>{1})});
    } catch (const Error&) {
    }
  }
}

void protected_package(std::span<const std::byte> input) {
  const auto [tag, rest] = split_tag(input);
  const auto file = std::make_shared<Tensor>(DType::u8, Shape{static_cast<std::int64_t>(rest.size())});
  const std::span<std::byte> bytes(static_cast<std::byte*>(file->mutable_raw()), rest.size());
  std::ranges::copy(rest, bytes.begin());
  if (tag % 2 == 1) make_checksums_right(bytes);
  std::optional<Model> model;
  try {
    const io::Container container(bytes, file);
    if (!container.is_protected()) return;
    try_keys(container);
    const KnownKey key(tag % 2 == 1);
    io::Package read = io::read_package(bytes, file, {}, &key);
    model.emplace(std::make_shared<const ir::Graph>(std::move(read.graph)),
                  std::make_shared<const io::PackageOrigin>(std::move(read.origin)));
  } catch (const Error&) {
    return;
  }
  run_on_devices(*model, input);
}

constexpr Target kTargets[] = {{"protected", protected_package, {}}};

}  // namespace

std::span<const Target> protect_targets() {
  return kTargets;
}

}  // namespace tessera::fuzz
