#include "backends/cpu/products/sparse/sparse_weights.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace tessera::backends::cpu {
namespace {

constexpr int kMostLanes = 16;

// For each input one bit per lane (output), set if the weight is nonzero. Lanes behind the last output are zero.
void panel_masks(const WeightMatrix& weights, std::int64_t first, int lanes, std::vector<std::uint16_t>& masks) {
  std::ranges::fill(masks, std::uint16_t{0});
  const int used = static_cast<int>(std::min<std::int64_t>(lanes, weights.outputs - first));
  if (weights.input_stride == 1) {
    for (int lane = 0; lane < used; ++lane) {
      const float* row = weights.data + (first + lane) * weights.output_stride;
      for (std::int64_t k = 0; k < weights.inputs; ++k)
        masks[static_cast<std::size_t>(k)] |= static_cast<std::uint16_t>((row[k] != 0 ? 1u : 0u) << lane);
    }
    return;
  }
  for (std::int64_t k = 0; k < weights.inputs; ++k) {
    const float* line = weights.data + k * weights.input_stride + first * weights.output_stride;
    unsigned mask = 0;
    for (int lane = 0; lane < used; ++lane) mask |= (line[lane * weights.output_stride] != 0 ? 1u : 0u) << lane;
    masks[static_cast<std::size_t>(k)] = static_cast<std::uint16_t>(mask);
  }
}

// The number of nonzero weights of each lane in a segment's masks.
std::array<int, kMostLanes> lane_counts(const std::uint16_t* masks) {
  std::array<int, kMostLanes> counts{};
  for (std::int64_t k = 0; k < kSegment; ++k) {
    for (int lane = 0; lane < kMostLanes; ++lane) counts[static_cast<std::size_t>(lane)] += masks[k] >> lane & 1;
  }
  return counts;
}

bool has_three(unsigned a, unsigned b, unsigned c, unsigned d) {
  return ((a & b & (c | d)) | ((a | b) & c & d)) != 0;
}

}  // namespace

SparseCounts count_sparse(const WeightMatrix& weights, int lanes) {
  SparseCounts counts;
  counts.weights = weights.inputs * weights.outputs;
  counts.two_of_four = true;
  // Padded with zeros to whole segments.
  std::vector<std::uint16_t> masks(static_cast<std::size_t>((weights.inputs + kSegment - 1) / kSegment * kSegment));
  for (std::int64_t first = 0; first < weights.outputs; first += lanes) {
    panel_masks(weights, first, lanes, masks);
    for (std::size_t k = 0; k < masks.size(); ++k) {
      counts.nonzero += std::popcount(masks[k]);
      counts.nonzero_vectors += masks[k] != 0;
    }
    for (std::size_t k = 0; k < masks.size(); k += static_cast<std::size_t>(kSegment))
      counts.slots += std::ranges::max(lane_counts(masks.data() + k));
    counts.vectors += weights.inputs;
    ++counts.panels;
    for (std::size_t k = 0; k < masks.size() && counts.two_of_four; k += 4)
      counts.two_of_four = !has_three(masks[k], masks[k + 1], masks[k + 2], masks[k + 3]);
  }
  return counts;
}

namespace {

// Times of the forms, relative to that of one vector of a dense float32 product.
struct FormTimes {
  double dense, block, look_up, two_of_four;
};

FormTimes form_times(bool few, int lanes, bool bf16) {
  if (!bf16) return {1, 1.35, lanes >= 16 ? (few ? 1.6 : 2.6) : 6, 0.7};
  // Dense bfloat16 products of few rows read half as many bytes; those of many rows use pairwise dot products.
  return {few ? 0.6 : 0.3, few ? 1.0 : 1.35, lanes >= 16 ? (few ? 1.4 : 2.6) : 6, 0.5};
}

}  // namespace

SparseForm choose_form(const SparseCounts& counts, std::int64_t rows, int lanes, bool bf16) {
  constexpr std::int64_t kLeastWeights = 64 * 64;
  if (counts.weights < kLeastWeights) return SparseForm::dense;
  // A dense product reads its vectors faster if all are in the cache, the more so with many rows.
  constexpr std::int64_t kCachedWeights = std::int64_t{1} << 18;
  const bool few = rows <= 2;
  const double share = counts.weights >= kCachedWeights ? 1 : few ? 0.6 : 0.3;
  const FormTimes times = form_times(few, lanes, bf16);
  const double dense = times.dense * share * static_cast<double>(counts.vectors);
  const double panels = share < 1 ? 25 * static_cast<double>(counts.panels) : 0;
  const double blocks = times.block * static_cast<double>(counts.nonzero_vectors) + panels,
               segments = times.look_up * static_cast<double>(counts.slots) + panels,
               halves = few && counts.two_of_four ? times.two_of_four * static_cast<double>(counts.vectors) + panels
                                                  : HUGE_VAL;
  const double best = std::min({blocks, segments, halves});
  if (best > 0.75 * dense) return SparseForm::dense;
  if (best == blocks) return SparseForm::blocks;
  return best == segments ? SparseForm::segments : SparseForm::two_of_four;
}

namespace {

// Appends the slots of a panel and their positions.
void add_segments(const std::vector<std::uint16_t>& masks, SparseWeights& where) {
  for (std::size_t begin = 0; begin < masks.size(); begin += static_cast<std::size_t>(kSegment)) {
    const int slots = std::ranges::max(lane_counts(masks.data() + begin));
    where.slots.push_back(static_cast<std::uint8_t>(slots));
    const std::size_t first = where.bytes.size();
    where.bytes.resize(first + static_cast<std::size_t>(slots * where.lanes));
    for (int lane = 0; lane < where.lanes; ++lane) {
      int slot = 0;
      for (std::int64_t k = 0; k < kSegment; ++k) {
        if ((masks[begin + static_cast<std::size_t>(k)] >> lane & 1) == 0) continue;
        where.bytes[first + static_cast<std::size_t>(slot++ * where.lanes + lane)] = static_cast<std::uint8_t>(k);
      }
    }
    where.floats += slots * where.lanes;
  }
}

// Appends the words of a panel.
void add_words(const std::vector<std::uint16_t>& masks, SparseWeights& where) {
  for (std::size_t begin = 0; begin < masks.size(); begin += static_cast<std::size_t>(kSegment)) {
    for (int lane = 0; lane < where.lanes; ++lane) {
      std::uint32_t places = 0;
      for (std::uint32_t group = 0; group < 8; ++group) {
        unsigned found = 0;
        for (std::uint32_t k = 0; k < 4; ++k) {
          if ((masks[begin + 4 * group + k] >> lane & 1) != 0) places |= k << (4 * group + 2 * found++);
        }
      }
      where.words.push_back(places);
    }
    where.floats += 16 * where.lanes;
  }
}

}  // namespace

SparseWeights find_weights(const WeightMatrix& weights, SparseForm form, int lanes) {
  SparseWeights where;
  where.form = form;
  where.inputs = weights.inputs;
  where.outputs = weights.outputs;
  where.lanes = lanes;
  const std::int64_t words = (weights.inputs + kSegment - 1) / kSegment;
  std::vector<std::uint16_t> masks(static_cast<std::size_t>(words * kSegment));
  where.place_starts.push_back(0);
  for (std::int64_t first = 0; first < weights.outputs; first += lanes) {
    panel_masks(weights, first, lanes, masks);
    where.value_starts.push_back(where.floats);
    where.byte_starts.push_back(static_cast<std::int64_t>(where.bytes.size()));
    if (form == SparseForm::blocks) {
      for (std::size_t k = 0; k < masks.size(); ++k) {
        if (masks[k] != 0) where.places.push_back(static_cast<std::uint32_t>(k));
      }
      where.place_starts.push_back(static_cast<std::int64_t>(where.places.size()));
      where.floats = where.place_starts.back() * lanes;
    } else if (form == SparseForm::segments) {
      add_segments(masks, where);
    } else {
      add_words(masks, where);
    }
  }
  return where;
}

namespace {

void pack_two_of_four(const WeightMatrix& weights, const SparseWeights& where, std::int64_t panel, float* to) {
  const std::int64_t words = (where.inputs + kSegment - 1) / kSegment;
  for (std::int64_t word = 0; word < words; ++word) {
    for (int lane = 0; lane < where.lanes; ++lane) {
      const std::int64_t output = panel * where.lanes + lane;
      for (int group = 0; group < 8; ++group) {
        float values[2] = {};
        int found = 0;
        for (std::int64_t k = word * kSegment + 4 * group, end = k + 4; k < end; ++k) {
          if (k >= where.inputs || output >= where.outputs || weights.at(k, output) == 0) continue;
          values[found++] = weights.at(k, output);
        }
        for (int i = 0; i < 2; ++i) to[((word * 8 + group) * 2 + i) * where.lanes + lane] = values[i];
      }
    }
  }
}

void pack_segments(const WeightMatrix& weights, const SparseWeights& where, std::int64_t panel, float* to) {
  const std::int64_t segments = (where.inputs + kSegment - 1) / kSegment;
  for (std::int64_t segment = 0; segment < segments; ++segment) {
    const int slots = where.slots[static_cast<std::size_t>(panel * segments + segment)];
    std::fill_n(to, slots * where.lanes, 0.0f);
    for (int lane = 0; lane < where.lanes; ++lane) {
      const std::int64_t output = panel * where.lanes + lane;
      int slot = 0;
      for (std::int64_t k = segment * kSegment, end = std::min(k + kSegment, where.inputs); k < end; ++k) {
        if (output >= where.outputs || weights.at(k, output) == 0) continue;
        to[slot++ * where.lanes + lane] = weights.at(k, output);
      }
    }
    to += slots * where.lanes;
  }
}

void pack_blocks(const WeightMatrix& weights, const SparseWeights& where, std::int64_t panel, float* to) {
  const auto at = static_cast<std::size_t>(panel);
  for (std::int64_t i = where.place_starts[at]; i < where.place_starts[at + 1]; ++i) {
    for (int lane = 0; lane < where.lanes; ++lane) {
      const std::int64_t output = panel * where.lanes + lane;
      *to++ = output < where.outputs ? weights.at(where.places[static_cast<std::size_t>(i)], output) : 0.0f;
    }
  }
}

}  // namespace

void pack_values(const WeightMatrix& weights, const SparseWeights& where, float* to) {
  const auto pack = where.form == SparseForm::two_of_four ? pack_two_of_four
                    : where.form == SparseForm::segments  ? pack_segments
                                                          : pack_blocks;
  for (std::int64_t panel = 0; panel < where.panels(); ++panel)
    pack(weights, where, panel, to + where.value_starts[static_cast<std::size_t>(panel)]);
}

}  // namespace tessera::backends::cpu
