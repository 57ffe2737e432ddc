#include "ops/values/unmask.h"

#include "backends/backend.h"
#include "ops/symbols.h"

namespace tessera::backends::reference {

void unmask(KernelContext& context) {
  constexpr std::int64_t kGrain = 1 << 14;  // words
  const Tensor& masked = context.input(0);
  Tensor& plain = context.output(0);
  const auto* from = static_cast<const std::byte*>(masked.raw());
  auto* to = static_cast<std::byte*>(plain.mutable_raw());
  const ops::UnmaskFunction function = ops::find_unmask(context.node().op);
  const ops::Mask mask = function == nullptr ? ops::Mask::from(context.integers("key")) : ops::Mask();
  const auto number = static_cast<std::uint32_t>(function != nullptr ? context.integer("mask") : 0);
  context.parallel_for(masked.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    const auto first = static_cast<std::uint64_t>(begin), words = static_cast<std::uint64_t>(end - begin);
    if (function != nullptr) function(number, from + 4 * begin, to + 4 * begin, first, words);
    else mask.apply(from + 4 * begin, to + 4 * begin, first, words);
  });
}

}  // namespace tessera::backends::reference
