#include <cmath>

#include "base/error.h"
#include "serve/core/steps/step.h"

namespace tessera::serve {
namespace {

// Whether a token counts: the mask of the texts, where there is one.
class Mask {
 public:
  explicit Mask(const NamedValues& values) {
    for (const char* name : {"attention_mask", "input_mask"}) {
      if (const auto found = values.find(name); found != values.end()) mask_ = found->second.tensor();
    }
  }
  bool at(std::int64_t index) const {
    const auto i = static_cast<std::size_t>(index);
    switch (mask_.dtype()) {
      case DType::i64:
        return mask_.values<std::int64_t>()[i] != 0;
      case DType::i32:
        return mask_.values<std::int32_t>()[i] != 0;
      case DType::f32:
        return mask_.values<float>()[i] != 0;
      default:
        return true;
    }
  }
  bool fits(std::int64_t elements) const { return !mask_.has_value() || mask_.elements() == elements; }

 private:
  Tensor mask_;
};

class EmbeddingStep final : public PipelineStep {
 public:
  explicit EmbeddingStep(StepSource source)
      : output_(output_of(source, "output", DType::f32)),
        mean_(source.settings.choice("pooling", {"mean", "first"}) == "mean"),
        normalise_(source.settings.boolean("normalise", true)) {
    source.settings.check_all_read();
    require(!output_.rank_known || output_.dims.size() == 3, ErrorKind::invalid_argument,
            "the output '{}' is {}, expected three dimensions: texts, tokens and the width of the vectors",
            output_.name, output_.type);
  }

  std::vector<TensorInfo> inputs() const override { return {{output_.name, DType::f32, {-1, -1, -1}}}; }
  std::vector<TensorInfo> outputs() const override {
    return {{"embedding", DType::f32, {-1, output_.rank_known ? output_.dims[2] : -1}}};
  }

  NamedValues run(Job&, const NamedValues& values, const Cancellation&) override {
    const Tensor& states = values.find(output_.name)->second.tensor();
    require_rank(states, output_.name, 3);
    const std::int64_t texts = states.shape()[0], tokens = states.shape()[1], width = states.shape()[2];
    const Mask mask(values);
    if (!mask.fits(texts * tokens)) throw Failure(Reason::internal, "the mask of the tokens has another shape");
    Tensor pooled(DType::f32, {texts, width});
    for (std::int64_t text = 0; text < texts; ++text) {
      std::vector<double> sum(static_cast<std::size_t>(width), 0.0);
      std::int64_t count = 0;
      for (std::int64_t token = 0; token < (mean_ ? tokens : std::min<std::int64_t>(tokens, 1)); ++token) {
        if (mean_ && !mask.at(text * tokens + token)) continue;
        ++count;
        const float* const state = states.data<float>() + (text * tokens + token) * width;
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(state[i]);
      }
      finish(sum, count, pooled.mutable_data<float>() + text * width);
    }
    NamedValues made;
    made.emplace("embedding", std::move(pooled));
    return made;
  }

 private:
  void finish(const std::vector<double>& sum, std::int64_t count, float* out) const {
    double divisor = static_cast<double>(std::max<std::int64_t>(count, 1));
    if (normalise_) {
      double squares = 0;
      for (const double value : sum) squares += value * value;
      divisor = squares > 0 ? std::sqrt(squares) : 1;
    }
    for (const double value : sum) *out++ = static_cast<float>(value / divisor);
  }

  const ValueDescription output_;
  const bool mean_, normalise_;
};

}  // namespace

std::unique_ptr<PipelineStep> make_embedding_step(StepSource source) {
  return std::make_unique<EmbeddingStep>(std::move(source));
}

}  // namespace tessera::serve
