#include "base/error.h"
#include "io/file.h"
#include "serve/core/steps/step.h"
#include "text/text_input.h"

namespace tessera::serve {
namespace {

constexpr std::int64_t kMostTokenizerBytes = 64 << 20;
constexpr std::int64_t kMostTokens = 1 << 20;

class TextStep final : public PipelineStep {
 public:
  explicit TextStep(StepSource source)
      : model_(source.model),
        max_length_(source.settings.whole("max_length", 0, 0, kMostTokens)),
        tokenizer_(read(source)) {
    source.settings.check_all_read();
    const std::string example = "text";
    made_ =
        text::text_inputs(model_.inputs(), tokenizer_, std::span(&example, 1), max_length_);  // throws where it cannot
  }

  std::vector<TensorInfo> inputs() const override { return {{"text", DType::string, {-1}}}; }
  std::vector<TensorInfo> outputs() const override {
    std::vector<TensorInfo> infos;
    for (const auto& [name, value] : made_) infos.push_back({name, value.tensor().dtype(), {-1, -1}});
    return infos;
  }

  NamedValues run(Job& job, const NamedValues& values, const Cancellation&) override {
    const Tensor& texts = values.find("text")->second.tensor();
    if (texts.elements() == 0) throw Failure(Reason::bad_request, "the input 'text' is empty");
    NamedValues made;
    job.run("tokenise",
            [&] { made = text::text_inputs(model_.inputs(), tokenizer_, texts.values<std::string>(), max_length_); });
    return made;
  }

 private:
  static Tokenizer read(StepSource& source) {
    io::InputFile file = io::InputFile::open_below(source.folder, source.settings.text("tokenizer", "tokenizer.json"));
    require(file.bytes() <= kMostTokenizerBytes, ErrorKind::over_budget, "{} has {} bytes, at most {} are read",
            file.name(), file.bytes(), kMostTokenizerBytes);
    std::string json(static_cast<std::size_t>(file.bytes()), '\0');
    file.read(std::as_writable_bytes(std::span(json)));
    return Tokenizer::from_json(json);
  }

  const Model model_;
  const std::int64_t max_length_;
  const Tokenizer tokenizer_;
  NamedValues made_;  // of an example
};

}  // namespace

std::unique_ptr<PipelineStep> make_text_step(StepSource source) {
  return std::make_unique<TextStep>(std::move(source));
}

}  // namespace tessera::serve
