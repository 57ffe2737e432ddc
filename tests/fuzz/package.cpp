// A .tsr file from bytes to outputs, with the packed weights that it holds. The first byte says whether checksums are
// made right first, as a forger would, so that what lies behind them is reached.
#include "io/package.h"

#include <xxhash.h>

#include <cstring>

#include "run_model.h"
#include "target.h"
#include "tessera/error.h"

namespace tessera::fuzz {
namespace {

constexpr std::size_t kTable = 64, kEntry = 96;

template <typename T>
T number_at(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

void sign(std::span<std::byte> bytes) {
  if (bytes.size() < kTable) return;
  const std::uint64_t count =
      std::min<std::uint64_t>(number_at<std::uint32_t>(bytes, 12), (bytes.size() - kTable) / kEntry);
  for (std::size_t entry = kTable; entry < kTable + count * kEntry; entry += kEntry) {
    const auto offset = number_at<std::uint64_t>(bytes, entry + 40),
               stored = number_at<std::uint64_t>(bytes, entry + 48);
    if (offset > bytes.size() || stored > bytes.size() - offset) continue;
    const std::uint64_t checksum = XXH3_64bits(bytes.data() + offset, stored);
    std::memcpy(bytes.data() + entry + 64, &checksum, sizeof(checksum));
  }
  const std::uint64_t size = bytes.size(), checksum = XXH3_64bits(bytes.data() + kTable, count * kEntry);
  std::memcpy(bytes.data() + 16, &size, sizeof(size));
  std::memcpy(bytes.data() + 24, &checksum, sizeof(checksum));
}

}  // namespace

void package(std::span<const std::byte> input) {
  know_symbols_of_seed();
  const auto [tag, rest] = split_tag(input);
  const auto file = std::make_shared<Tensor>(DType::u8, Shape{static_cast<std::int64_t>(rest.size())});
  const std::span<std::byte> bytes(static_cast<std::byte*>(file->mutable_raw()), rest.size());
  std::ranges::copy(rest, bytes.begin());
  if (tag % 2 == 1) sign(bytes);
  std::optional<Model> model;
  try {
    io::Package read = io::read_package(bytes, file);
    model.emplace(std::make_shared<const ir::Graph>(std::move(read.graph)),
                  std::make_shared<const io::PackageOrigin>(std::move(read.origin)));
  } catch (const Error&) {
    return;
  }
  run_on_devices(*model, input);
}

}  // namespace tessera::fuzz
