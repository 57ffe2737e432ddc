// Cuts lists of tensors into pieces, so that operators over all parameters of a model can be parallelised.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// Elements [begin, end) of one tensor of the list.
struct TensorPiece {
  std::size_t tensor;
  std::int64_t begin, end;
};

// The pieces of all tensors in order. They depend only on the tensors' sizes, so that sums over pieces are the same
// with any number of threads.
class TensorPieces {
 public:
  // `counts`: the number of elements of each tensor.
  explicit TensorPieces(std::span<const std::int64_t> counts);

  std::size_t size() const { return pieces_.size(); }
  const TensorPiece& operator[](std::size_t piece) const { return pieces_[piece]; }

  // Calls body(piece number) for each piece, with all threads of the run. Neighbouring small pieces are handed out
  // together.
  template <typename Body>
  void for_each(KernelContext& context, const Body& body) const {
    context.parallel_for(static_cast<std::int64_t>(groups_.size()) - 1, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::size_t i = groups_[static_cast<std::size_t>(begin)]; i < groups_[static_cast<std::size_t>(end)]; ++i)
        body(i);
    });
  }

  // For each tensor, the sum of the values of its pieces, in order.
  std::vector<double> sum_by_tensor(std::span<const double> of_pieces) const;

 private:
  std::size_t tensors_;
  std::vector<TensorPiece> pieces_;
  std::vector<std::size_t> groups_;  // where each group of pieces begins, and the end
};

}  // namespace tessera::backends::cpu
