#include "backends/cpu/sampling/sample_block.h"

#include <algorithm>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/sampling/sample_block.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F = hn::ScalableTag<float>;
using I = hn::RebindToSigned<F>;

// The elements of the plane at the indices of tap k, from sample i on; 0 for negative indices.
HWY_INLINE hn::Vec<F> read_tap(const SampleBlock& block, int k, std::int64_t i, const float* plane) {
  const F f;
  const I d;
  const auto index = hn::Load(d, block.index[k] + i);
  const auto read = hn::GatherIndex(f, plane, hn::Max(index, hn::Zero(d)));
  return hn::IfThenZeroElse(hn::RebindMask(f, hn::Lt(index, hn::Zero(d))), read);
}

void sample_plane(const SampleBlock& block, const float* plane, float* y, bool add) {
  const F f;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(f));
  for (std::int64_t i = 0; i < block.count; i += lanes) {
    const auto mask = hn::FirstN(f, static_cast<std::size_t>(std::min(lanes, block.count - i)));
    auto sum = add ? hn::MaskedLoad(mask, f, y + i) : hn::Zero(f);
    for (int k = 0; k < block.taps; ++k)
      sum = hn::MulAdd(hn::Load(f, block.weight[k] + i), read_tap(block, k, i, plane), sum);
    hn::BlendedStore(sum, mask, f, y + i);
  }
}

void add_slopes(const SampleBlock& block, const SlopeBlock& slopes, const float* plane, const float* dy, float* sums) {
  const F f;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(f));
  for (std::int64_t i = 0; i < block.count; i += lanes) {
    const auto mask = hn::FirstN(f, static_cast<std::size_t>(std::min(lanes, block.count - i)));
    const auto given = hn::MaskedLoad(mask, f, dy + i);
    hn::Vec<F> sum[SlopeBlock::kKinds] = {hn::Zero(f), hn::Zero(f), hn::Zero(f)};
    for (int k = 0; k < block.taps; ++k) {
      const auto read = read_tap(block, k, i, plane);
      for (int kind = 0; kind < slopes.kinds; ++kind)
        sum[kind] = hn::MulAdd(hn::Load(f, slopes.slope[kind][k] + i), read, sum[kind]);
    }
    for (int kind = 0; kind < slopes.kinds; ++kind) {
      float* to = sums + kind * SampleBlock::kSamples + i;
      hn::Store(hn::MulAdd(sum[kind], given, hn::Load(f, to)), f, to);
    }
  }
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(sample_plane);
HWY_EXPORT(add_slopes);

constexpr std::int64_t kGrain = 16384;     // reads per chunk
constexpr std::int64_t kPlanesAtOnce = 8;  // that share a block, which other planes compute again

// Fills a block; samples behind the last one read nothing.
void fill(const Sampler& sampler, std::int64_t group, std::int64_t first, std::int64_t count, SampleBlock& block,
          SlopeBlock* slopes) {
  block.count = count;
  sampler.fill(group, first, block, slopes);
  const std::int64_t end = std::min(SampleBlock::kSamples, (count + 15) / 16 * 16);
  for (int k = 0; k < block.taps; ++k) {
    for (std::int64_t i = count; i < end; ++i) {
      block.index[k][i] = -1;
      block.weight[k][i] = 0;
      for (int kind = 0; slopes != nullptr && kind < slopes->kinds; ++kind) slopes->slope[kind][k][i] = 0;
    }
  }
}

// Calls body(group, first sample, count) for all blocks, in parallel.
template <typename Body>
void for_each_block(const KernelContext& context, const SampleLayout& layout, Body body) {
  const std::int64_t blocks = (layout.samples + SampleBlock::kSamples - 1) / SampleBlock::kSamples;
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / (SampleBlock::kSamples * 4 * layout.planes));
  context.parallel_for(layout.groups * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i % blocks * SampleBlock::kSamples;
      body(i / blocks, first, std::min(SampleBlock::kSamples, layout.samples - first));
    }
  });
}

}  // namespace

std::string SampleLayout::fault() const {
  if (groups == 0 || planes == 0 || plane_elements == 0 || samples == 0) return "wants some elements";
  if (plane_elements > std::numeric_limits<std::int32_t>::max()) return "takes planes of less than 2^31 elements";
  return "";
}

void read_block(const SampleBlock& block, const float* plane, float* y, bool add) {
  HWY_DYNAMIC_DISPATCH(sample_plane)(block, plane, y, add);
}

void spread_block(const SampleBlock& block, const float* dy, float* plane) {
  for (std::int64_t s = 0; s < block.count; ++s) {
    for (int k = 0; k < block.taps; ++k) {
      if (block.index[k][s] >= 0) plane[block.index[k][s]] += block.weight[k][s] * dy[s];
    }
  }
}

void sample_planes(const KernelContext& context, const SampleLayout& layout, const Sampler& sampler, const float* x,
                   float* y) {
  for_each_block(context, layout, [&](std::int64_t group, std::int64_t first, std::int64_t count) {
    SampleBlock block;
    fill(sampler, group, first, count, block, nullptr);
    for (std::int64_t plane = group * layout.planes; plane < (group + 1) * layout.planes; ++plane)
      read_block(block, x + plane * layout.plane_elements, y + plane * layout.samples + first);
  });
}

void spread_samples(const KernelContext& context, const SampleLayout& layout, const Sampler& sampler, const float* dy,
                    float* dx) {
  const std::int64_t parts = (layout.planes + kPlanesAtOnce - 1) / kPlanesAtOnce;
  context.parallel_for(layout.groups * parts, 1, [&](std::int64_t begin, std::int64_t end) {
    SampleBlock block;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t group = i / parts, from = group * layout.planes + i % parts * kPlanesAtOnce,
                         to = std::min(from + kPlanesAtOnce, (group + 1) * layout.planes);
      std::memset(dx + from * layout.plane_elements, 0,
                  static_cast<std::size_t>((to - from) * layout.plane_elements) * sizeof(float));
      for (std::int64_t first = 0; first < layout.samples; first += SampleBlock::kSamples) {
        fill(sampler, group, first, std::min(SampleBlock::kSamples, layout.samples - first), block, nullptr);
        for (std::int64_t plane = from; plane < to; ++plane)
          spread_block(block, dy + plane * layout.samples + first, dx + plane * layout.plane_elements);
      }
    }
  });
}

void sum_slopes(const KernelContext& context, const SampleLayout& layout, const Sampler& sampler, const float* x,
                const float* dy) {
  for_each_block(context, layout, [&](std::int64_t group, std::int64_t first, std::int64_t count) {
    SampleBlock block;
    SlopeBlock slopes;
    fill(sampler, group, first, count, block, &slopes);
    alignas(64) float sums[SlopeBlock::kKinds * SampleBlock::kSamples] = {};
    for (std::int64_t plane = group * layout.planes; plane < (group + 1) * layout.planes; ++plane)
      HWY_DYNAMIC_DISPATCH(add_slopes)
    (block, slopes, x + plane * layout.plane_elements, dy + plane * layout.samples + first, sums);
    sampler.store(group, first, count, sums);
  });
}

}  // namespace tessera::backends::cpu
#endif
