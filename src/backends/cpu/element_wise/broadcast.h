// Iterates over operands that broadcast to one dense output, line by line.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "base/numbers/checked.h"

namespace tessera::backends::cpu {

// The geometry of a broadcast. Axes along which all operands have matching strides are merged, so that equal shapes
// become one line. Immutable; several threads may use it at once.
class Broadcast {
 public:
  static constexpr std::size_t kMaxOperands = 8;

  // `output` must be the shape that the operands broadcast to.
  Broadcast(const Shape& output, std::span<const Shape* const> operands);
  Broadcast(const Shape& output, std::initializer_list<const Shape*> operands)
      : Broadcast(output, std::span(operands.begin(), operands.size())) {}

  // 1 if the operand advances along a line, 0 if it repeats one element.
  std::int64_t line_stride(std::size_t operand) const { return line_strides_[operand]; }

  // The number of elements of a line.
  std::int64_t line_length() const { return line_count_; }

  // Whether, in each operand that advances along lines, lines are contiguous or all the same.
  bool lines_repeat() const;
  // Whether all lines of the operand are the same; requires lines_repeat().
  bool repeats_line(std::size_t operand) const {
    return line_strides_[operand] != 0 && outer_.back().strides[operand] == 0;
  }
  std::int64_t lines() const { return outer_count_; }

  // Calls line(offsets of the operands, offset of the output, count), in elements, for pieces that cover the output, on
  // the threads of the run. `grain`: elements per chunk.
  template <typename Line>
  void walk(const KernelContext& context, std::int64_t grain, const Line& line) const;

  // For short lines that repeat: processes `together` of them at a time; an operand whose lines are all the same is
  // copied that many times. Calls line(pointers to the operands, offset of the output, count). `operands` and
  // `element_bytes` have one entry per operand of the constructor.
  template <typename Line>
  void walk_together(const KernelContext& context, std::int64_t grain, std::int64_t together,
                     std::span<const std::byte* const> operands, std::span<const std::int64_t> element_bytes,
                     const Line& line) const;

 private:
  using Strides = std::array<std::int64_t, kMaxOperands>;
  struct Axis {
    std::int64_t count = 1;
    Strides strides{};
  };
  struct Position {
    std::array<std::int64_t, 64> index;  // only the entries of outer_ are used
    Strides offsets{};
  };
  void seek(Position& position, std::int64_t outer) const;
  void advance(Position& position) const;

  std::size_t operands_ = 0;
  std::vector<Axis> outer_;  // outermost first
  std::int64_t line_count_ = 0, outer_count_ = 1;
  Strides line_strides_{};
};

template <typename Line>
void Broadcast::walk(const KernelContext& context, std::int64_t grain, const Line& line) const {
  if (line_count_ == 0 || outer_count_ == 0) return;
  if (outer_.empty()) {
    context.parallel_for(line_count_, grain, [&](std::int64_t begin, std::int64_t end) {
      Strides offsets{};
      for (std::size_t k = 0; k < operands_; ++k) offsets[k] = begin * line_strides_[k];
      line(offsets, begin, end - begin);
    });
    return;
  }
  // Long lines are cut into equal blocks; short ones are processed together.
  const std::int64_t blocks = (line_count_ + grain - 1) / grain;
  const std::int64_t block = (line_count_ + blocks - 1) / blocks;
  const std::int64_t items_a_chunk = std::max<std::int64_t>(1, grain / block);
  context.parallel_for(outer_count_ * blocks, items_a_chunk, [&](std::int64_t begin, std::int64_t end) {
    Position position;
    seek(position, begin / blocks);
    if (blocks == 1) {
      // Takes whole lines along the last axis in a row, without updating the indices of the other axes.
      const Axis& axis = outer_.back();
      std::int64_t& index = position.index[outer_.size() - 1];
      for (std::int64_t item = begin; item < end;) {
        const std::int64_t last = std::min(end, item + axis.count - index) - 1;
        index += last - item;
        for (; item < last; ++item) {
          line(position.offsets, item * line_count_, line_count_);
          for (std::size_t k = 0; k < operands_; ++k) position.offsets[k] += axis.strides[k];
        }
        line(position.offsets, item++ * line_count_, line_count_);
        advance(position);
      }
      return;
    }
    std::int64_t outer = begin / blocks, piece = begin % blocks;
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t first = piece * block;
      const std::int64_t count = std::min(block, line_count_ - first);
      Strides offsets = position.offsets;
      for (std::size_t k = 0; k < operands_; ++k) offsets[k] += first * line_strides_[k];
      if (count > 0) line(offsets, outer * line_count_ + first, count);
      if (++piece < blocks) continue;
      piece = 0;
      ++outer;
      advance(position);
    }
  });
}

template <typename Line>
void Broadcast::walk_together(const KernelContext& context, std::int64_t grain, std::int64_t together,
                              std::span<const std::byte* const> operands, std::span<const std::int64_t> element_bytes,
                              const Line& line) const {
  const std::int64_t chunk = base::round_up(std::max<std::int64_t>(1, grain / line_count_), together);
  context.parallel_for(outer_count_, chunk, [&](std::int64_t begin, std::int64_t end) {
    thread_local std::array<std::vector<std::byte>, kMaxOperands> repeated;
    std::array<const std::byte*, kMaxOperands> first, inputs;
    for (std::size_t k = 0; k < operands_; ++k) {
      first[k] = operands[k];
      if (!repeats_line(k)) continue;
      const std::int64_t bytes = line_count_ * element_bytes[k], times = std::min(together, end - begin);
      repeated[k].resize(static_cast<std::size_t>(bytes * times));
      for (std::int64_t i = 0; i < times; ++i)
        std::memcpy(repeated[k].data() + i * bytes, operands[k], static_cast<std::size_t>(bytes));
      first[k] = repeated[k].data();
    }
    for (std::int64_t i = begin; i < end; i += together) {
      for (std::size_t k = 0; k < operands_; ++k)
        inputs[k] = first[k] + (line_strides_[k] == 0 || repeats_line(k) ? 0 : i * line_count_ * element_bytes[k]);
      line(inputs, i * line_count_, std::min(together, end - i) * line_count_);
    }
  });
}

}  // namespace tessera::backends::cpu
