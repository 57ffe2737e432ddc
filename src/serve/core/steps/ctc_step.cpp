#include <algorithm>

#include "base/error.h"
#include "serve/core/requests/classification.h"
#include "serve/core/steps/step.h"

namespace tessera::serve {
namespace {

constexpr std::int64_t kBlank = 0;

std::vector<std::string> characters_of(StepSource& source) {
  const std::string file = source.settings.text("characters");
  if (!file.empty()) return lines_of(source, file);
  const auto& properties = source.model.metadata().properties;
  const auto found = properties.find("character");
  require(found != properties.end(), ErrorKind::invalid_argument,
          "the model has no property 'character': name a file with its characters, one a line, as 'characters'");
  return parse_labels(found->second);
}

class CtcStep final : public PipelineStep {
 public:
  explicit CtcStep(StepSource source)
      : output_(output_of(source, "output", DType::f32).name), characters_(characters_of(source)) {
    source.settings.check_all_read();
    const ValueDescription scores = output_of(source, "output", DType::f32);
    require(!scores.rank_known || scores.dims.size() == 3, ErrorKind::invalid_argument,
            "the output '{}' is {}, expected three dimensions: texts, positions and classes", output_, scores.type);
    if (scores.rank_known && scores.dims[2] >= 0) check_classes(scores.dims[2]);
  }

  std::vector<TensorInfo> inputs() const override { return {{output_, DType::f32, {-1, -1, -1}}}; }
  std::vector<TensorInfo> outputs() const override {
    return {{"text", DType::string, {-1}}, {"confidence", DType::f32, {-1}}};
  }

  NamedValues run(Job& job, const NamedValues& values, const Cancellation&) override {
    const Tensor& scores = values.find(output_)->second.tensor();
    require_rank(scores, output_, 3);
    check_classes(scores.shape()[2]);
    Tensor text(DType::string, {scores.shape()[0]}), confidence(DType::f32, {scores.shape()[0]});
    job.run("read text", [&] {
      for (std::int64_t i = 0; i < scores.shape()[0]; ++i)
        confidence.mutable_data<float>()[i] = decode(scores, i, text.mutable_data<std::string>()[i]);
    });
    NamedValues made;
    made.emplace("text", std::move(text));
    made.emplace("confidence", std::move(confidence));
    return made;
  }

 private:
  // The blank stands before the characters; a space may stand behind them.
  void check_classes(std::int64_t classes) const {
    const auto count = static_cast<std::int64_t>(characters_.size());
    require(classes == count + 1 || classes == count + 2, ErrorKind::invalid_argument,
            "the output '{}' has {} classes, expected {} or {} for a blank, {} characters and perhaps a space", output_,
            classes, count + 1, count + 2, count);
  }

  float decode(const Tensor& scores, std::int64_t index, std::string& text) const {
    const std::int64_t positions = scores.shape()[1], classes = scores.shape()[2];
    std::int64_t before = kBlank, read = 0;
    double sum = 0;
    for (std::int64_t position = 0; position < positions; ++position) {
      const float* const row = scores.data<float>() + (index * positions + position) * classes;
      const std::int64_t best = std::max_element(row, row + classes) - row;
      if (best != kBlank && best != before) {
        const auto at = static_cast<std::size_t>(best - 1);
        text += at < characters_.size() ? characters_[at] : " ";
        sum += static_cast<double>(row[best]);
        ++read;
      }
      before = best;
    }
    return read > 0 ? static_cast<float>(sum / static_cast<double>(read)) : 0.0f;
  }

  const std::string output_;
  const std::vector<std::string> characters_;
};

}  // namespace

std::unique_ptr<PipelineStep> make_ctc_step(StepSource source) {
  return std::make_unique<CtcStep>(std::move(source));
}

}  // namespace tessera::serve
