#include "backends/cpu/trees/forest_walk.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/trees/forest_walk.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<D>;
using DU = hn::RebindToUnsigned<D>;
using V = hn::Vec<D>;
using VI = hn::Vec<DI>;
using VU = hn::Vec<DU>;
using M = hn::Mask<D>;

// Flags that nodes of the forest may have in addition to x <= split.
enum class Flags { none, missing, all };

struct Words {
  explicit Words(const PackedForest& forest)
      : feature(hn::Set(DU(), forest.feature_mask)),
        missing(hn::Set(DU(), forest.missing)),
        equal(hn::Set(DU(), forest.equal)),
        shift(hn::Set(DU(), forest.child_shift)) {}
  VU feature, missing, equal, shift;
};

struct Nodes {
  V split;
  VU word;
};

HWY_INLINE Nodes load_nodes(const std::uint64_t* nodes, VI at) {
#if HWY_TARGET == HWY_SCALAR
  const std::uint64_t node = nodes[hn::GetLane(at)];
  return {hn::BitCast(D(), hn::Set(DU(), static_cast<std::uint32_t>(node))),
          hn::Set(DU(), static_cast<std::uint32_t>(node >> 32))};
#else
  // One gather of 8 bytes costs less than two of 4.
  const hn::Repartition<std::int64_t, DI> wide;
  const hn::Half<DI> half;
  const auto low =
      hn::GatherIndex(wide, reinterpret_cast<const std::int64_t*>(nodes), hn::PromoteTo(wide, hn::LowerHalf(half, at)));
  const auto high =
      hn::GatherIndex(wide, reinterpret_cast<const std::int64_t*>(nodes), hn::PromoteTo(wide, hn::UpperHalf(half, at)));
  return {hn::ConcatEven(D(), hn::BitCast(D(), high), hn::BitCast(D(), low)),
          hn::ConcatOdd(DU(), hn::BitCast(DU(), high), hn::BitCast(DU(), low))};
#endif
}

// Whether each walk continues to the second child.
template <Flags flags>
HWY_INLINE M passes(const Words& words, const Nodes& nodes, const float* x, VI row) {
  const VI feature = hn::BitCast(DI(), hn::And(nodes.word, words.feature));
  const V value = hn::GatherIndex(D(), x, hn::Add(row, feature));
  M yes = hn::Le(value, nodes.split);
  if constexpr (flags == Flags::all) {
    const M free = hn::RebindMask(D(), hn::Eq(hn::And(nodes.word, words.equal), hn::Zero(DU())));
    yes = hn::And(yes, hn::Or(free, hn::Ge(value, nodes.split)));
  }
  if constexpr (flags != Flags::none) {
    const M missing_is_true = hn::RebindMask(D(), hn::TestBit(nodes.word, words.missing));
    yes = hn::Or(yes, hn::And(missing_is_true, hn::IsNaN(value)));
  }
  return yes;
}

HWY_INLINE VI next_if(M yes, VI first) {
  return hn::IfThenElse(hn::RebindMask(DI(), yes), hn::Add(first, hn::Set(DI(), 1)), first);
}

// Continues `vectors` vectors of walks from the nodes `at` (in trees that begin at `base`) to their leaves.
template <Flags flags, int vectors, bool several_trees>
HWY_INLINE void walk_on(const Words& words, const std::uint64_t* nodes, const VI* base, const float* x, const VI* row,
                        VI* at, std::int32_t* leaves) {
  Nodes found[vectors];
  bool moved = true;
  while (moved) {
    auto all_moves = hn::Zero(DI());
#pragma GCC unroll 4
    for (int i = 0; i < vectors; ++i) {
      found[i] = load_nodes(nodes, several_trees ? hn::Add(base[i], at[i]) : at[i]);
      const VI first = hn::BitCast(DI(), hn::Shr(found[i].word, words.shift));
      const VI next = next_if(passes<flags>(words, found[i], x, row[i]), first);
      all_moves = hn::Or(all_moves, hn::Xor(next, at[i]));
      at[i] = next;
    }
    moved = !hn::AllTrue(DI(), hn::Eq(all_moves, hn::Zero(DI())));
  }
  const VI numbers = hn::Set(DI(), static_cast<std::int32_t>(PackedForest::kLeafNumbers));
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(DI()));
#pragma GCC unroll 4
  for (int i = 0; i < vectors; ++i)
    hn::StoreU(hn::And(hn::BitCast(DI(), found[i].split), numbers), DI(), leaves + i * lanes);
}

#if HWY_TARGET != HWY_SCALAR
constexpr int kTopLevels = hn::MaxLanes(D()) >= 16 ? 4 : 3;

// Walks the first levels of a tree, whose nodes are in registers.
template <Flags flags, int vectors>
HWY_INLINE void walk_top(const Words& words, const TreeTop& top, const float* x, const VI* row, VI* at) {
  const V splits = hn::Load(D(), top.splits.data());
  const VU nodes = hn::LoadU(DU(), top.words.data());
  VI place[vectors];
#pragma GCC unroll 4
  for (int i = 0; i < vectors; ++i) place[i] = hn::Zero(DI());
  for (int level = 0; level < kTopLevels; ++level) {
#pragma GCC unroll 4
    for (int i = 0; i < vectors; ++i) {
      const Nodes found{hn::TableLookupLanes(splits, hn::IndicesFromVec(D(), place[i])),
                        hn::TableLookupLanes(nodes, hn::IndicesFromVec(DU(), place[i]))};
      const VI first = hn::Add(hn::Add(place[i], place[i]), hn::Set(DI(), 1));
      place[i] = next_if(passes<flags>(words, found, x, row[i]), first);
    }
  }
  constexpr int kFirst = (1 << kTopLevels) - 1;
  const VU places = hn::LoadU(DU(), top.places.data() + kFirst);
#pragma GCC unroll 4
  for (int i = 0; i < vectors; ++i) {
    const auto exits = hn::IndicesFromVec(DU(), hn::Sub(place[i], hn::Set(DI(), kFirst)));
    at[i] = hn::BitCast(DI(), hn::TableLookupLanes(places, exits));
  }
}
#endif

template <Flags flags, int vectors>
HWY_INLINE void rows_by(const PackedForest& forest, std::size_t tree, const float* x, std::int64_t columns,
                        std::int64_t first, std::int64_t rows, std::int32_t* leaves) {
  const DI d;
  const Words words(forest);
  const VI last = hn::Set(d, static_cast<std::int32_t>(rows - 1)),
           stride = hn::Set(d, static_cast<std::int32_t>(columns));
  const auto lanes = static_cast<std::int32_t>(hn::Lanes(d));
  VI row[vectors], at[vectors];
#pragma GCC unroll 4
  for (int i = 0; i < vectors; ++i) {
    row[i] = hn::Mul(hn::Min(hn::Iota(d, static_cast<std::int32_t>(first) + i * lanes), last), stride);
    at[i] = hn::Zero(d);
  }
  const std::uint64_t* nodes = forest.nodes.data() + forest.trees[tree].first_node;
#if HWY_TARGET != HWY_SCALAR
  walk_top<flags, vectors>(words, forest.tops[tree], x, row, at);
#endif
  walk_on<flags, vectors, false>(words, nodes, nullptr, x, row, at, leaves + first);
}

template <Flags flags, int vectors>
HWY_INLINE void trees_by(const PackedForest& forest, std::size_t tree, const float* x, std::int32_t* leaves) {
  const Words words(forest);
  const std::size_t lanes = hn::Lanes(DI());
  VI base[vectors], row[vectors], at[vectors];
#pragma GCC unroll 4
  for (int i = 0; i < vectors; ++i) {
    base[i] = hn::BitCast(DI(), hn::LoadU(DU(), forest.roots.data() + tree + static_cast<std::size_t>(i) * lanes));
    row[i] = at[i] = hn::Zero(DI());
  }
  walk_on<flags, vectors, true>(words, forest.nodes.data(), base, x, row, at, leaves);
}

// Calls body<vectors>(first walk) until `count` walks are covered.
template <typename Body>
HWY_INLINE void in_vectors(std::int64_t count, Body body) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(DI()));
  for (std::int64_t i = 0; i < count;) {
    const std::int64_t left = count - i;
    if (left > 2 * lanes) body(std::integral_constant<int, 4>(), i), i += 4 * lanes;
    else if (left > lanes) body(std::integral_constant<int, 2>(), i), i += 2 * lanes;
    else body(std::integral_constant<int, 1>(), i), i += lanes;
  }
}

template <Flags flags>
void rows_with(const PackedForest& forest, std::size_t tree, const float* x, std::int64_t columns, std::int64_t rows,
               std::int32_t* leaves) {
  in_vectors(rows, [&](auto vectors, std::int64_t first) {
    rows_by<flags, vectors>(forest, tree, x, columns, first, rows, leaves);
  });
}

template <Flags flags>
void trees_with(const PackedForest& forest, std::size_t first, std::int64_t count, const float* x,
                std::int32_t* leaves) {
  in_vectors(count, [&](auto vectors, std::int64_t i) {
    trees_by<flags, vectors>(forest, first + static_cast<std::size_t>(i), x, leaves + i);
  });
}

}  // namespace

void forest_rows(const PackedForest& forest, std::size_t tree, const float* x, std::int64_t columns, std::int64_t rows,
                 std::int32_t* leaves) {
  if (forest.equal != 0) rows_with<Flags::all>(forest, tree, x, columns, rows, leaves);
  else if (forest.missing != 0) rows_with<Flags::missing>(forest, tree, x, columns, rows, leaves);
  else rows_with<Flags::none>(forest, tree, x, columns, rows, leaves);
}

void forest_trees(const PackedForest& forest, std::size_t first, std::int64_t count, const float* x,
                  std::int32_t* leaves) {
  if (forest.equal != 0) trees_with<Flags::all>(forest, first, count, x, leaves);
  else if (forest.missing != 0) trees_with<Flags::missing>(forest, first, count, x, leaves);
  else trees_with<Flags::none>(forest, first, count, x, leaves);
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(forest_rows);
HWY_EXPORT(forest_trees);

void walk_rows(const PackedForest& forest, std::size_t tree, const float* x, std::int64_t columns, std::int64_t rows,
               std::int32_t* leaves) {
  HWY_DYNAMIC_DISPATCH(forest_rows)(forest, tree, x, columns, rows, leaves);
}

void walk_trees(const PackedForest& forest, std::size_t first, std::int64_t count, const float* x,
                std::int32_t* leaves) {
  HWY_DYNAMIC_DISPATCH(forest_trees)(forest, first, count, x, leaves);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
