// RotaryEmbedding in float32: the halves of a head, or its even and odd elements, are turned a vector at a time.
#include "ops/attention/rotary_embedding.h"

#include <algorithm>

#include "backends/cpu/attention/kernels.h"
#include "backends/cpu/attention/rotary_functions.h"
#include "base/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/attention/rotary_embedding.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

struct Turned {
  V first, second;
};

HWY_INLINE Turned turn(V first, V second, V cosine, V sine) {
  return {hn::MulSub(cosine, first, hn::Mul(sine, second)), hn::MulAdd(sine, first, hn::Mul(cosine, second))};
}

void halves(const float* x, const float* cosines, const float* sines, std::int64_t pairs, float* y) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < pairs; i += lanes) {
    const auto part = hn::FirstN(d, static_cast<std::size_t>(pairs - i < lanes ? pairs - i : lanes));
    const Turned turned = turn(hn::MaskedLoad(part, d, x + i), hn::MaskedLoad(part, d, x + pairs + i),
                               hn::MaskedLoad(part, d, cosines + i), hn::MaskedLoad(part, d, sines + i));
    hn::BlendedStore(turned.first, part, d, y + i);
    hn::BlendedStore(turned.second, part, d, y + pairs + i);
  }
}

void neighbours(const float* x, const float* cosines, const float* sines, std::int64_t pairs, float* y) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= pairs; i += lanes) {
    V first, second;
    hn::LoadInterleaved2(d, x + 2 * i, first, second);
    const Turned turned = turn(first, second, hn::LoadU(d, cosines + i), hn::LoadU(d, sines + i));
    hn::StoreInterleaved2(turned.first, turned.second, d, y + 2 * i);
  }
  if (i == pairs) return;
  // The pairs that fill no vector.
  HWY_ALIGN float padded[2 * hn::MaxLanes(D())] = {};
  for (std::int64_t j = 0; j < 2 * (pairs - i); ++j) padded[j] = x[2 * i + j];
  const auto part = hn::FirstN(d, static_cast<std::size_t>(pairs - i));
  V first, second;
  hn::LoadInterleaved2(d, padded, first, second);
  const Turned turned = turn(first, second, hn::MaskedLoad(part, d, cosines + i), hn::MaskedLoad(part, d, sines + i));
  hn::StoreInterleaved2(turned.first, turned.second, d, padded);
  for (std::int64_t j = 0; j < 2 * (pairs - i); ++j) y[2 * i + j] = padded[j];
}

}  // namespace

const RotaryFunctions* rotary_functions() {
  static constexpr RotaryFunctions functions{halves, neighbours};
  return &functions;
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(rotary_functions);

const RotaryFunctions& active_rotary_functions() {
  return *HWY_DYNAMIC_DISPATCH(rotary_functions)();
}

std::string reject_rotary_embedding_f32(const ops::NodeView& view) {
  return view.input(0).dtype == DType::f32 ? "" : "the input is not float32";
}

void rotary_embedding_f32(KernelContext& context) {
  const ops::RotarySizes sizes = ops::rotary_sizes(context, context.input(0).shape());
  const RotaryFunctions& functions = active_rotary_functions();
  const auto turn = context.integer("interleaved") != 0 ? functions.neighbours : functions.halves;
  const std::int64_t pairs = sizes.rotated / 2, table_rows = context.input(1).shape()[0];
  const std::int64_t* const positions = context.has_input(3) ? context.input(3).data<std::int64_t>() : nullptr;
  const float *const x = context.input(0).data<float>(), *const cosines = context.input(1).data<float>(),
                     *const sines = context.input(2).data<float>();
  float* const y = context.output(0).mutable_data<float>();
  const std::int64_t line_floats = sizes.heads * sizes.head_size;
  context.parallel_for(
      sizes.batch * sizes.length, std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(line_floats, 1)),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t t = begin; t < end; ++t) {
          std::int64_t row = t;
          if (positions != nullptr) {
            row = positions[t];
            require(row >= 0 && row < table_rows, ErrorKind::failed, "position {} is outside [0, {})", row, table_rows);
          }
          for (std::int64_t h = 0; h < sizes.heads; ++h) {
            const std::int64_t line = sizes.packed
                                          ? t * sizes.heads + h
                                          : (t / sizes.length * sizes.heads + h) * sizes.length + t % sizes.length;
            const float* const from = x + line * sizes.head_size;
            float* const to = y + line * sizes.head_size;
            turn(from, cosines + row * pairs, sines + row * pairs, pairs, to);
            std::copy(from + sizes.rotated, from + sizes.head_size, to + sizes.rotated);
          }
        }
      });
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
