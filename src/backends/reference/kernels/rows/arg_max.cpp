#include "backends/backend.h"
#include "backends/host/numeric.h"
#include "backends/reference/lines.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// better(x, best) is strict. If elements are equal, the first wins, or the last.
template <typename Better>
void choose(KernelContext& context, Better better) {
  const Tensor& input = context.input(0);
  const std::int64_t axis = ops::normalise_axis(context.integer("axis"), input.rank());
  const bool last = context.integer("select_last_index") != 0;
  std::int64_t* result = context.output(0).mutable_data<std::int64_t>();
  with_wide_type(input.dtype(), [&](auto zero) {
    const auto values = read<decltype(zero)>(input);
    for_each_line(input.shape(), axis, [&](std::int64_t offset, std::int64_t length, std::int64_t stride) {
      std::int64_t best = 0;
      const auto at = [&](std::int64_t i) { return values[static_cast<std::size_t>(offset + i * stride)]; };
      for (std::int64_t i = 1; i < length; ++i) {
        if (better(at(i), at(best)) || (last && at(i) == at(best))) best = i;
      }
      *result++ = best;
    });
  });
}

}  // namespace

void arg_max(KernelContext& context) {
  choose(context, [](auto x, auto best) { return x > best; });
}

void arg_min(KernelContext& context) {
  choose(context, [](auto x, auto best) { return x < best; });
}

}  // namespace tessera::backends::reference
