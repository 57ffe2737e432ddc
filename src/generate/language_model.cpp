#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "generate/generate_loop.h"
#include "generate/language_source.h"
#include "generate/language_step.h"
#include "generate/language_text.h"
#include "tessera/generate.h"
#include "text/template/encode_chat.h"

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

Parts parts_of(const std::filesystem::path& path) {
  const generate::LanguageFiles files = generate::open_language_files(path);
  return {generate::source_of(files), generate::text_of(files)};
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
    step.package = parts.source.package;
    if (!options.chat_template.empty()) parts.text.chat_template = options.chat_template;
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

GeneratedAnswer LanguageModel::chat(std::span<const ChatMessage> messages, const GenerateOptions& options,
                                    GenerationStats* stats) const {
  const std::vector<std::int64_t> tokens = encode_chat(messages);
  return generate_tokens({&tokens, 1}, options, stats)[0];
}

// The variables are those that transformers gives to templates.
std::vector<std::int64_t> LanguageModel::encode_chat(std::span<const ChatMessage> messages) const {
  const LanguageText& text = impl_->text;
  require(!text.chat_template.empty(), ErrorKind::unsupported,
          "the model has no chat template, which says how it reads conversations; expected one in its files, or given "
          "when it is loaded");
  nlohmann::ordered_json variables = {{"messages", nlohmann::ordered_json::array()},
                                      {"tools", nullptr},
                                      {"documents", nullptr},
                                      {"add_generation_prompt", true}};
  for (const ChatMessage& message : messages)
    variables["messages"].push_back({{"role", message.role}, {"content", message.content}});
  if (!text.bos_text.empty()) variables["bos_token"] = text.bos_text;
  if (!text.eos_text.empty()) variables["eos_token"] = text.eos_text;
  return text::encode_chat(text.tokenizer, text::ChatTemplate(text.chat_template), variables);
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

struct LanguageSession::Impl {
  explicit Impl(LanguageModel given) : model(std::move(given)) {
    const std::lock_guard lock(model.impl_->turn);
    kept = std::make_unique<generate::KeptSequence>(*model.impl_->step);
  }
  ~Impl() {
    const std::lock_guard lock(model.impl_->turn);
    kept.reset();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  LanguageModel model;
  std::unique_ptr<generate::KeptSequence> kept;
};

LanguageSession::LanguageSession(const LanguageModel& model) : impl_(std::make_unique<Impl>(model)) {}
LanguageSession::~LanguageSession() = default;
LanguageSession::LanguageSession(LanguageSession&&) noexcept = default;
LanguageSession& LanguageSession::operator=(LanguageSession&&) noexcept = default;

GeneratedAnswer LanguageSession::generate_tokens(std::span<const std::int64_t> prompt, const GenerateOptions& options,
                                                 GenerationStats* stats) {
  const LanguageModel::Impl& model = *impl_->model.impl_;
  const std::vector<std::int64_t> prompts[] = {{prompt.begin(), prompt.end()}};
  const std::lock_guard lock(impl_->model.impl_->turn);
  return generate::generate_answers(*model.step, model.text.tokenizer, model.text.end_tokens, prompts,
                                    LanguageStep::kMostRows, options, stats, impl_->kept.get())[0];
}

GeneratedAnswer LanguageSession::chat(std::span<const ChatMessage> messages, const GenerateOptions& options,
                                      GenerationStats* stats) {
  return generate_tokens(impl_->model.encode_chat(messages), options, stats);
}

}  // namespace tessera
