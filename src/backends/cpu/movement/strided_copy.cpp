#include "backends/cpu/movement/strided_copy.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/numbers/checked.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/movement/strided_copy.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// target[row * target_stride + column] = source[column * source_stride + row], 4 by 4 elements of 4 bytes.
HWY_INLINE void transpose_4x4(const std::uint32_t* source, std::int64_t source_stride, std::uint32_t* target,
                              std::int64_t target_stride) {
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<std::uint32_t, 4> d;
  const hn::FixedTag<std::uint64_t, 2> d64;
  const auto a = hn::LoadU(d, source), b = hn::LoadU(d, source + source_stride);
  const auto c = hn::LoadU(d, source + 2 * source_stride), e = hn::LoadU(d, source + 3 * source_stride);
  const auto ab_low = hn::BitCast(d64, hn::InterleaveLower(d, a, b));
  const auto ab_high = hn::BitCast(d64, hn::InterleaveUpper(d, a, b));
  const auto ce_low = hn::BitCast(d64, hn::InterleaveLower(d, c, e));
  const auto ce_high = hn::BitCast(d64, hn::InterleaveUpper(d, c, e));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, ab_low, ce_low)), d, target);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, ab_low, ce_low)), d, target + target_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, ab_high, ce_high)), d, target + 2 * target_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, ab_high, ce_high)), d, target + 3 * target_stride);
#else
  for (int row = 0; row < 4; ++row) {
    for (int column = 0; column < 4; ++column) {
      target[row * target_stride + column] = source[column * source_stride + row];
    }
  }
#endif
}

void transpose_panel_u32(const std::uint32_t* source, std::int64_t source_stride, std::uint32_t* target,
                         std::int64_t target_stride, std::int64_t rows, std::int64_t columns) {
  std::int64_t column = 0;
  for (; column + 4 <= columns; column += 4) {
    const std::uint32_t* from = source + column * source_stride;
    std::int64_t row = 0;
    for (; row + 4 <= rows; row += 4) {
      transpose_4x4(from + row, source_stride, target + row * target_stride + column, target_stride);
    }
    for (; row < rows; ++row) {
      for (std::int64_t i = 0; i < 4; ++i) target[row * target_stride + column + i] = from[i * source_stride + row];
    }
  }
  for (; column < columns; ++column) {
    for (std::int64_t row = 0; row < rows; ++row) {
      target[row * target_stride + column] = source[column * source_stride + row];
    }
  }
}

// target[3 row + column] = source[column * source_stride + row]: interleaves the three channels of an image.
template <typename T>
void interleave_3(const T* source, std::int64_t source_stride, T* target, std::int64_t rows) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t row = 0;
  for (; row + lanes <= rows; row += lanes) {
    hn::StoreInterleaved3(hn::LoadU(d, source + row), hn::LoadU(d, source + source_stride + row),
                          hn::LoadU(d, source + 2 * source_stride + row), d, target + 3 * row);
  }
  for (; row < rows; ++row) {
    for (std::int64_t column = 0; column < 3; ++column) target[3 * row + column] = source[column * source_stride + row];
  }
}
void interleave_3_u8(const std::uint8_t* source, std::int64_t stride, std::uint8_t* target, std::int64_t rows) {
  interleave_3(source, stride, target, rows);
}
void interleave_3_u32(const std::uint32_t* source, std::int64_t stride, std::uint32_t* target, std::int64_t rows) {
  interleave_3(source, stride, target, rows);
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(transpose_panel_u32);
HWY_EXPORT(interleave_3_u8);
HWY_EXPORT(interleave_3_u32);

// Rows per panel of a transposition: a cache line of 4-byte elements, so that each line of the source is read once; and
// more if only a few columns are contiguous.
constexpr std::int64_t kPanelRows = 16, kLongPanelRows = 1024, kFewColumns = 4;
// Bytes per chunk of a parallel loop.
constexpr std::int64_t kGrainBytes = 128 * 1024;
// Twice the highest rank of a tensor: Tile doubles it.
constexpr std::size_t kMaxAxes = 128;

struct Bytes16 {
  std::uint64_t low, high;
};

template <typename T>
void copy_contiguous(const std::byte* source, std::byte* target, std::int64_t count, std::int64_t) {
  std::memcpy(target, source, static_cast<std::size_t>(count) * sizeof(T));
}

template <typename T>
void copy_line(const std::byte* source, std::byte* target, std::int64_t count, std::int64_t stride) {
  const T* from = reinterpret_cast<const T*>(source);
  T* to = reinterpret_cast<T*>(target);
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
}

template <typename T>
void repeat(const std::byte* source, std::byte* target, std::int64_t count, std::int64_t) {
  std::fill_n(reinterpret_cast<T*>(target), count, *reinterpret_cast<const T*>(source));
}

template <typename T>
void transpose_panel(const std::byte* source, std::int64_t source_stride, std::byte* target, std::int64_t target_stride,
                     std::int64_t rows, std::int64_t columns) {
  const T* from = reinterpret_cast<const T*>(source);
  T* to = reinterpret_cast<T*>(target);
  if (columns == 3 && target_stride == 3) {
    if constexpr (sizeof(T) == 1) return HWY_DYNAMIC_DISPATCH(interleave_3_u8)(from, source_stride, to, rows);
    if constexpr (sizeof(T) == 4) return HWY_DYNAMIC_DISPATCH(interleave_3_u32)(from, source_stride, to, rows);
  }
  if constexpr (sizeof(T) == 4) {
    HWY_DYNAMIC_DISPATCH(transpose_panel_u32)(from, source_stride, to, target_stride, rows, columns);
  } else {
    for (std::int64_t column = 0; column < columns; ++column) {
      for (std::int64_t row = 0; row < rows; ++row)
        to[row * target_stride + column] = from[column * source_stride + row];
    }
  }
}

}  // namespace

bool moves_as_bytes(DType type) {
  return bits_of(type) >= 8;
}

template <typename T>
void StridedCopy::choose_functions(bool transposes) {
  // Elements up to which a loop is faster than a call of memcpy.
  constexpr std::int64_t kShortLine = 32;
  if (transposes) transpose_panel_ = transpose_panel<T>;
  else if (line_.source == 1 && line_.count > kShortLine) copy_line_ = copy_contiguous<T>;
  else if (line_.source == 0) copy_line_ = repeat<T>;
  else copy_line_ = copy_line<T>;
}

StridedCopy::StridedCopy(DType type, const Shape& dims, const std::vector<std::int64_t>& strides, std::int64_t offset)
    : element_bytes_(bits_of(type) / 8), offset_(offset) {
  const std::int64_t elements = element_count(dims);
  if (elements == 0) return;
  // Innermost first; neighbouring axes that are contiguous in the source are merged.
  std::vector<Axis> axes;
  std::int64_t target = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == 1) continue;
    const bool merges = !axes.empty() && strides[i] == axes.back().source * axes.back().count;
    if (merges) axes.back().count *= dims[i];
    else axes.push_back({dims[i], strides[i], target});
    target *= dims[i];
  }
  if (axes.empty()) axes.push_back({1, 1, 1});
  line_ = axes.front();
  axes.erase(axes.begin());
  const auto unit = std::find_if(axes.begin(), axes.end(), [](const Axis& axis) { return axis.source == 1; });
  const bool transposes = line_.source != 1 && line_.source != 0 && unit != axes.end();
  if (transposes) {
    rows_ = *unit;
    axes.erase(unit);
  }
  outer_.assign(axes.rbegin(), axes.rend());
  block_ = !transposes ? kGrainBytes / element_bytes_ : line_.count <= kFewColumns ? kLongPanelRows : kPanelRows;
  blocks_ = base::ceil_divide(transposes ? rows_.count : line_.count, block_);
  items_ = blocks_;
  for (const Axis& axis : outer_) items_ *= axis.count;
  grain_ = std::max<std::int64_t>(1, kGrainBytes / std::max<std::int64_t>(1, elements / items_ * element_bytes_));
  if (element_bytes_ == 1) choose_functions<std::uint8_t>(transposes);
  else if (element_bytes_ == 2) choose_functions<std::uint16_t>(transposes);
  else if (element_bytes_ == 4) choose_functions<std::uint32_t>(transposes);
  else if (element_bytes_ == 8) choose_functions<std::uint64_t>(transposes);
  else choose_functions<Bytes16>(transposes);
}

void StridedCopy::run(const void* source, void* target, const KernelContext& context) const {
  const std::byte* from = static_cast<const std::byte*>(source) + offset_ * element_bytes_;
  auto* to = static_cast<std::byte*>(target);
  if (items_ == 1 && copy_line_ != nullptr) return copy_line_(from, to, line_.count, line_.source);
  context.parallel_for(items_, grain_, [&](std::int64_t begin, std::int64_t end) { run_items(from, to, begin, end); });
}

void StridedCopy::run_items(const std::byte* source, std::byte* target, std::int64_t begin, std::int64_t end) const {
  std::array<std::int64_t, kMaxAxes> index;  // only the entries of outer_ are used
  std::int64_t from = 0, to = 0, rest = begin / blocks_;
  for (std::size_t i = outer_.size(); i-- > 0;) {
    index[i] = rest % outer_[i].count;
    rest /= outer_[i].count;
    from += index[i] * outer_[i].source;
    to += index[i] * outer_[i].target;
  }
  std::int64_t block = begin % blocks_;
  for (std::int64_t item = begin; item < end; ++item) {
    const std::int64_t first = block * block_;
    const Axis& blocked = transpose_panel_ != nullptr ? rows_ : line_;
    const std::byte* block_source = source + (from + first * blocked.source) * element_bytes_;
    std::byte* block_target = target + (to + first * blocked.target) * element_bytes_;
    const std::int64_t count = std::min(block_, blocked.count - first);
    if (transpose_panel_ != nullptr) {
      transpose_panel_(block_source, line_.source, block_target, rows_.target, count, line_.count);
    } else {
      copy_line_(block_source, block_target, count, line_.source);
    }
    if (++block < blocks_) continue;
    block = 0;
    for (std::size_t i = outer_.size(); i-- > 0;) {
      from += outer_[i].source;
      to += outer_[i].target;
      if (++index[i] < outer_[i].count) break;
      index[i] = 0;
      from -= outer_[i].source * outer_[i].count;
      to -= outer_[i].target * outer_[i].count;
    }
  }
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
