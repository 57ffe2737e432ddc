#include <algorithm>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "generate/generate_loop.h"
#include "generate/language_source.h"
#include "generate/language_step.h"
#include "generate/language_text.h"
#include "io/model_format.h"
#include "tessera/generate.h"

namespace tessera {

using generate::LanguageSource;
using generate::LanguageStep;
using generate::LanguageText;

struct LanguageModel::Impl {
  Impl(LanguageText text, const LanguageSource& source, const generate::LanguageStepOptions& options)
      : text(std::move(text)),
        architecture(source.values->architecture()),
        step(std::make_unique<LanguageStep>(*source.values, *source.weights, options)) {}

  LanguageText text;
  std::string architecture;
  std::unique_ptr<LanguageStep> step;
  std::mutex turn;  // a step is used by one call at a time
};

namespace {

struct Parts {
  LanguageSource source;
  LanguageText text;
};

Parts parts_of(const std::filesystem::path& given) {
  const std::filesystem::path path = io::language_model_at(given);
  if (io::is_gguf_file(path)) {
    const io::GgufFile file = io::GgufFile::open(path);
    return {generate::source_of_gguf(file), generate::text_of_gguf(file)};
  }
  require(io::is_language_model(path), ErrorKind::invalid_argument,
          "'{}' is no language model; expected a .gguf file, or a folder with config.json, tokenizer.json and "
          ".safetensors files",
          path.string());
  const std::filesystem::path folder = io::is_folder(path)      ? path
                                       : path.has_parent_path() ? path.parent_path()
                                                                : std::filesystem::path(".");
  return {generate::source_of_folder(folder), generate::text_of_folder(folder)};
}

DType cache_type(const std::string& name) {
  require(name == "f16" || name == "int8", ErrorKind::invalid_argument, "the cache is '{}', expected f16 or int8",
          name);
  return name == "f16" ? DType::f16 : DType::i8;
}

}  // namespace

std::string_view to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    default:
      return "cancelled";
  }
}

LanguageModel LanguageModel::load(const std::filesystem::path& path, const LanguageModelOptions& options) {
  require(options.context >= 0, ErrorKind::invalid_argument, "the context is {}, expected 0 or more", options.context);
  generate::LanguageStepOptions step;
  step.context = options.context;
  step.cache_tokens = options.cache_tokens;
  step.cache_type = cache_type(options.cache);
  step.exact = options.exact;
  step.threads = options.threads;
  step.memory_limit_bytes = options.memory_limit_bytes;
  try {
    Parts parts = parts_of(path);
    return LanguageModel(std::make_shared<Impl>(std::move(parts.text), parts.source, step));
  } catch (Error& error) {
    if (error.context().empty()) error.add_context("file " + path.string());
    throw;
  }
}

std::vector<GeneratedAnswer> LanguageModel::generate_tokens(std::span<const std::vector<std::int64_t>> prompts,
                                                            const GenerateOptions& options,
                                                            GenerationStats* stats) const {
  const std::lock_guard lock(impl_->turn);
  return generate::generate_answers(*impl_->step, impl_->text.tokenizer, impl_->text.end_tokens, prompts,
                                    LanguageStep::kMostRows, options, stats);
}

GeneratedAnswer LanguageModel::generate(std::string_view prompt, const GenerateOptions& options) const {
  const std::vector<std::int64_t> tokens = encode(prompt);
  return generate_tokens({&tokens, 1}, options)[0];
}

std::vector<std::int64_t> LanguageModel::encode(std::string_view prompt) const {
  return impl_->text.tokenizer.encode_ids(prompt);
}

std::vector<float> LanguageModel::logits(std::span<const std::int64_t> prompt) const {
  require(!prompt.empty(), ErrorKind::invalid_argument, "the prompt has no tokens");
  const std::lock_guard lock(impl_->turn);
  LanguageStep& step = *impl_->step;
  const std::int64_t sequence = step.open();
  try {
    std::span<const float> logits;
    for (std::size_t begin = 0; begin < prompt.size();) {
      const std::size_t count = std::min<std::size_t>(LanguageStep::kMostRows, prompt.size() - begin);
      std::vector<generate::StepRow> rows;
      for (std::size_t i = 0; i < count; ++i) rows.push_back({prompt[begin + i], sequence});
      const auto last = static_cast<std::int64_t>(count) - 1;
      logits = step.run(rows, {&last, 1}, {});
      begin += count;
    }
    std::vector<float> result(logits.begin(), logits.end());
    step.close(sequence);
    return result;
  } catch (...) {
    step.close(sequence);
    throw;
  }
}

const Tokenizer& LanguageModel::tokenizer() const {
  return impl_->text.tokenizer;
}
const std::string& LanguageModel::architecture() const {
  return impl_->architecture;
}
const std::string& LanguageModel::chat_template() const {
  return impl_->text.chat_template;
}
std::int64_t LanguageModel::vocabulary_size() const {
  return impl_->step->vocabulary();
}
std::int64_t LanguageModel::context() const {
  return impl_->step->context();
}

}  // namespace tessera
