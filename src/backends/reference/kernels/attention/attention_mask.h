// The masks between product and softmax of attention, for the reference kernels.
#pragma once

#include <array>
#include <cmath>
#include <vector>

#include "backends/backend.h"
#include "backends/host/numeric.h"
#include "ops/attention/attention.h"

namespace tessera::backends::reference {

// Applies the masks to the scores of (batch, head, query, key). Scores and sums are rounded to float32 (unless operands
// are float64): the rounding of a score plus a large finite mask is part of the result.
class AttentionMask {
 public:
  // Indices of the node's inputs, if it has them; `valid`: i64 [batch], the number of keys that count.
  struct Inputs {
    std::size_t mask, replacement, second_mask;
    const Tensor* valid = nullptr;
  };

  AttentionMask(const KernelContext& context, const ops::AttentionSizes& sizes, const Inputs& inputs)
      : causal_(context.integer("is_causal") != 0),
        rounds_(context.input(0).dtype() != DType::f64),
        past_(sizes.past_length) {
    if (inputs.valid != nullptr) valid_ = host::read<std::int64_t>(*inputs.valid);
    if (context.has_input(inputs.mask)) mask_ = Numbers(context.input(inputs.mask));
    if (context.has_input(inputs.replacement)) replacement_ = Numbers(context.input(inputs.replacement));
    if (context.has_input(inputs.second_mask)) second_ = Numbers(context.input(inputs.second_mask));
  }

  double rounded(double score) const { return rounds_ ? static_cast<double>(static_cast<float>(score)) : score; }

  double operator()(double score, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const {
    if (causal_ && k - past_ > q) return -INFINITY;
    if (!valid_.empty() && k >= valid_[static_cast<std::size_t>(b)]) return -INFINITY;
    // If the mask is shorter than the keys, the other keys are masked.
    if (mask_.given && k >= mask_.length) return -INFINITY;
    if (replaces(b, h, q, k)) return replacement_.at(b, h, q, k);
    if (mask_.given) score = rounded(score + mask_.at(b, h, q, k));
    return second_.given ? rounded(score + second_.at(b, h, q, k)) : score;
  }

  bool replaces(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const {
    return replacement_.given && !std::isnan(replacement_.at(b, h, q, k));
  }

 private:
  // A tensor that broadcasts to [batch, heads, queries, keys], with an element for each key; false becomes -infinity.
  struct Numbers {
    bool given = false;
    std::int64_t length = 0;
    std::vector<double> values;
    std::array<std::int64_t, 3> strides{};

    Numbers() = default;
    explicit Numbers(const Tensor& tensor)
        : given(true), length(tensor.shape().back()), values(host::read<double>(tensor)) {
      if (tensor.dtype() == DType::boolean) {
        for (double& value : values) value = value != 0 ? 0 : -INFINITY;
      }
      Shape shape(4 - tensor.shape().size(), 1);
      shape.insert(shape.end(), tensor.shape().begin(), tensor.shape().end());
      const std::vector<std::int64_t> all = host::strides_of(shape);
      for (std::size_t i = 0; i < 3; ++i) strides[i] = shape[i] == 1 ? 0 : all[i];
    }
    double at(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const {
      return values[static_cast<std::size_t>(b * strides[0] + h * strides[1] + q * strides[2] + k)];
    }
  };

  bool causal_, rounds_;
  std::int64_t past_;
  std::vector<std::int64_t> valid_;
  Numbers mask_, replacement_, second_;
};

}  // namespace tessera::backends::reference
