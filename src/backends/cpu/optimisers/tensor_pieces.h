// Lists of tensors cut into pieces, over which operators on all parameters of a model at once are spread.
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

// The pieces of all tensors in their order. They depend on the tensors' sizes alone, so that sums of pieces are the
// same for any number of threads.
class TensorPieces {
 public:
  // `counts`: the number of elements of each tensor.
  explicit TensorPieces(std::span<const std::int64_t> counts);

  std::size_t size() const { return pieces_.size(); }
  const TensorPiece& operator[](std::size_t piece) const { return pieces_[piece]; }

  // Calls body(piece number) for each piece, on all threads of the run. Neighbouring small pieces go together.
  template <typename Body>
  void for_each(KernelContext& context, const Body& body) const {
    context.parallel_for(static_cast<std::int64_t>(groups_.size()) - 1, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::size_t i = groups_[static_cast<std::size_t>(begin)]; i < groups_[static_cast<std::size_t>(end)]; ++i)
        body(i);
    });
  }

  // For each tensor the sum of what its pieces gave, in their order.
  std::vector<double> sum_by_tensor(std::span<const double> of_pieces) const;

 private:
  std::size_t tensors_;
  std::vector<TensorPiece> pieces_;
  std::vector<std::size_t> groups_;  // where each group of pieces begins, and the end
};

}  // namespace tessera::backends::cpu
