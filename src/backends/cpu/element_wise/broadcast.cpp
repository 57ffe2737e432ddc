#include "backends/cpu/element_wise/broadcast.h"

#include <algorithm>

namespace tessera::backends::cpu {

Broadcast::Broadcast(const Shape& output, std::span<const Shape* const> operands) : operands_(operands.size()) {
  if (element_count(output) == 0) return;
  std::vector<Axis> axes;  // innermost first
  Strides next{};          // stride of the operand's next axis, if it is not broadcast there
  next.fill(1);
  for (std::size_t i = 0; i < output.size(); ++i) {
    Axis axis{output[output.size() - 1 - i], {}};
    for (std::size_t k = 0; k < operands.size(); ++k) {
      const Shape& shape = *operands[k];
      const std::int64_t size = i < shape.size() ? shape[shape.size() - 1 - i] : 1;
      axis.strides[k] = size == 1 ? 0 : next[k];
      next[k] *= size;
    }
    if (axis.count == 1) continue;
    bool merges = !axes.empty();
    for (std::size_t k = 0; merges && k < operands.size(); ++k) {
      merges = axis.strides[k] == axes.back().strides[k] * axes.back().count;
    }
    if (merges) axes.back().count *= axis.count;
    else axes.push_back(axis);
  }
  line_count_ = 1;
  line_strides_.fill(1);  // of a single element: any
  if (axes.empty()) return;
  line_count_ = axes[0].count;
  line_strides_ = axes[0].strides;
  outer_.assign(axes.rbegin(), axes.rend() - 1);
  for (const Axis& axis : outer_) outer_count_ *= axis.count;
}

bool Broadcast::lines_repeat() const {
  if (outer_.size() != 1) return false;
  for (std::size_t k = 0; k < operands_; ++k) {
    const std::int64_t stride = outer_.back().strides[k];
    if (stride != 0 && (line_strides_[k] == 0 || stride != line_count_)) return false;
  }
  return true;
}

void Broadcast::seek(Position& position, std::int64_t outer) const {
  for (std::size_t i = outer_.size(); i-- > 0;) {
    position.index[i] = outer % outer_[i].count;
    outer /= outer_[i].count;
    for (std::size_t k = 0; k < operands_; ++k) position.offsets[k] += position.index[i] * outer_[i].strides[k];
  }
}

void Broadcast::advance(Position& position) const {
  for (std::size_t i = outer_.size(); i-- > 0;) {
    const Axis& axis = outer_[i];
    const bool wraps = ++position.index[i] == axis.count;
    const std::int64_t steps = wraps ? 1 - axis.count : 1;
    for (std::size_t k = 0; k < operands_; ++k) position.offsets[k] += steps * axis.strides[k];
    if (!wraps) return;
    position.index[i] = 0;
  }
}

}  // namespace tessera::backends::cpu
