#include "ops/values/unmask.h"

#include <algorithm>

#include "backends/backend.h"
#include "ops/symbols.h"

namespace tessera::backends::reference {

void unmask(KernelContext& context) {
  constexpr std::int64_t kGrain = 1 << 14;  // words
  const Tensor& masked = context.input(0);
  Tensor& plain = context.output(0);
  const auto* from = static_cast<const std::byte*>(masked.raw());
  auto* to = static_cast<std::byte*>(plain.mutable_raw());
  const std::int64_t bytes = masked.bytes();
  if (const ops::UnmaskFunction function = ops::find_unmask(context.node().op)) {
    const auto number = static_cast<std::uint32_t>(context.integer("mask"));
    context.parallel_for(bytes / 4, kGrain, [&](std::int64_t begin, std::int64_t end) {
      function(number, from + 4 * begin, to + 4 * begin, static_cast<std::uint64_t>(begin),
               static_cast<std::uint64_t>(end - begin));
    });
    std::copy(from + bytes / 4 * 4, from + bytes, to + bytes / 4 * 4);  // libraries mask whole words
    return;
  }
  const ops::Mask mask = ops::Mask::from(context.integers("key"));
  context.parallel_for((bytes + 3) / 4, kGrain, [&](std::int64_t begin, std::int64_t end) {
    mask.apply(from + 4 * begin, to + 4 * begin, static_cast<std::uint64_t>(begin),
               static_cast<std::uint64_t>(std::min(4 * end, bytes) - 4 * begin));
  });
}

}  // namespace tessera::backends::reference
