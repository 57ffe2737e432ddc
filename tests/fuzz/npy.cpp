// An .npy file, or with an odd first byte an .npz archive; what was read is written and read again.
#include "io/npy.h"

#include "io/npz.h"
#include "target.h"
#include "tessera/error.h"

namespace tessera::fuzz {
namespace {

void check_round_trip(const Tensor& tensor) {
  const io::NpyImage image = io::npy_image(tensor);
  std::vector<std::byte> bytes;
  for (const char c : image.header) bytes.push_back(static_cast<std::byte>(c));
  bytes.insert(bytes.end(), image.bytes().begin(), image.bytes().end());
  if (!identical(io::read_npy_bytes(bytes), tensor)) finding("an array that was read is written as another one");
}

}  // namespace

void npy(std::span<const std::byte> input) {
  const auto [tag, bytes] = split_tag(input);
  try {
    if (tag % 2 == 0) {
      check_round_trip(io::read_npy_bytes(bytes));
      return;
    }
    io::NpzLimits limits;
    limits.max_total_bytes = limits.max_inflated_bytes = std::int64_t{64} << 20;
    for (const auto& [name, tensor] : io::read_npz_bytes(bytes, limits)) check_round_trip(tensor);
  } catch (const Error&) {
  }
}

}  // namespace tessera::fuzz
