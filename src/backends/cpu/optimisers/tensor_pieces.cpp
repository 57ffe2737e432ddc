#include "backends/cpu/optimisers/tensor_pieces.h"

#include <algorithm>

namespace tessera::backends::cpu {
namespace {

// Elements of a piece, and the least of a group: 64 KiB of each operand.
constexpr std::int64_t kPieceElements = 16384;

}  // namespace

TensorPieces::TensorPieces(std::span<const std::int64_t> counts) : tensors_(counts.size()), groups_{0} {
  std::int64_t group = 0;
  for (std::size_t tensor = 0; tensor < counts.size(); ++tensor) {
    for (std::int64_t begin = 0; begin < counts[tensor]; begin += kPieceElements) {
      const std::int64_t end = std::min(counts[tensor], begin + kPieceElements);
      pieces_.push_back({tensor, begin, end});
      group += end - begin;
      if (group < kPieceElements) continue;
      groups_.push_back(pieces_.size());
      group = 0;
    }
  }
  if (group > 0) groups_.push_back(pieces_.size());
}

std::vector<double> TensorPieces::sum_by_tensor(std::span<const double> of_pieces) const {
  std::vector<double> sums(tensors_, 0.0);
  for (std::size_t i = 0; i < pieces_.size(); ++i) sums[pieces_[i].tensor] += of_pieces[i];
  return sums;
}

}  // namespace tessera::backends::cpu
