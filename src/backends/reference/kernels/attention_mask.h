// Which keys the queries of attention may look at, for the reference kernels.
#pragma once

#include <cmath>
#include <vector>

#include "backends/backend.h"
#include "backends/host/numeric.h"
#include "ops/attention.h"

namespace tessera::backends::reference {

// What is added to the score of (batch, head, query, key): the mask's value, -infinity where it forbids.
class AttentionMask {
 public:
  // The mask is input 3 where there is one; `valid`: i64 [batch], how many keys count, or null.
  AttentionMask(const KernelContext& context, const ops::AttentionSizes& sizes, const Tensor* valid)
      : causal_(context.integer("is_causal") != 0), past_(sizes.past_length) {
    if (valid != nullptr) valid_ = host::read<std::int64_t>(*valid);
    if (!context.has_input(3)) return;
    const Tensor& mask = context.input(3);
    values_ = host::read<double>(mask);
    if (mask.dtype() == DType::boolean) {
      for (double& value : values_) value = value != 0 ? 0 : -INFINITY;
    }
    length_ = mask.shape().back();
    Shape shape(4 - mask.shape().size(), 1);
    shape.insert(shape.end(), mask.shape().begin(), mask.shape().end());
    strides_ = host::strides_of(shape);
    for (std::size_t i = 0; i < 3; ++i) strides_[i] = shape[i] == 1 ? 0 : strides_[i];
    given_ = true;
  }

  double operator()(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const {
    if (causal_ && k - past_ > q) return -INFINITY;
    if (!valid_.empty() && k >= valid_[static_cast<std::size_t>(b)]) return -INFINITY;
    if (!given_) return 0;
    // A mask shorter than the keys forbids the rest.
    if (k >= length_) return -INFINITY;
    return values_[static_cast<std::size_t>(b * strides_[0] + h * strides_[1] + q * strides_[2] + k)];
  }

 private:
  bool causal_, given_ = false;
  std::int64_t past_, length_ = 0;
  std::vector<double> values_;
  std::vector<std::int64_t> strides_, valid_;
};

}  // namespace tessera::backends::reference
