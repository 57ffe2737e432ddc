#include "train/data/text/token_transforms.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace tessera::train {
namespace {

class MaskTokens final : public SampleTransform {
 public:
  MaskTokens(double part, std::int64_t mask, std::int64_t vocabulary)
      : part_(part), mask_(mask), vocabulary_(vocabulary) {}

  bool for_training_only() const override { return false; }  // it makes the labels

  std::vector<Field> bind(const std::vector<Field>& input) override {
    require(input.size() == 1 && input[0].name == "x" && input[0].dtype == DType::i64, ErrorKind::invalid_argument,
            "mask_tokens is for data with one field, x i64 of token numbers");
    tokens_ = element_count(input[0].shape);
    return {input[0], {"y", DType::i64, input[0].shape}};
  }

  void apply(std::int64_t, std::span<const std::byte* const> in, std::span<std::byte* const> out,
             base::Philox& numbers) const override {
    const auto* from = reinterpret_cast<const std::int64_t*>(in[0]);
    auto* x = reinterpret_cast<std::int64_t*>(out[0]);
    auto* y = reinterpret_cast<std::int64_t*>(out[1]);
    for (std::int64_t i = 0; i < tokens_; ++i) {
      x[i] = from[i];
      y[i] = kIgnoredLabel;
      if (numbers.next_uniform() >= part_) continue;
      y[i] = from[i];
      const double fate = numbers.next_uniform();
      if (fate < 0.8) x[i] = mask_;
      else if (fate < 0.9) x[i] = numbers.next_integer(0, vocabulary_ - 1);
    }
  }

 private:
  double part_;
  std::int64_t mask_, vocabulary_, tokens_ = 0;
};

}  // namespace

std::unique_ptr<SampleTransform> make_mask_tokens(double part, std::int64_t mask, std::int64_t vocabulary) {
  return std::make_unique<MaskTokens>(part, mask, vocabulary);
}

}  // namespace tessera::train
