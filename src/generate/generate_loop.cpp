#include "generate/generate_loop.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/error.h"
#include "generate/answer.h"

namespace tessera::generate {
namespace {

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

// The sequence of an answer: a new one that is closed with its owner, or a kept one that becomes idle with it.
class OpenSequence {
 public:
  explicit OpenSequence(ModelStep& step) : step_(&step), number_(step.open()) {}
  // After KeptSequence::begin.
  explicit OpenSequence(KeptSequence& kept) : kept_(&kept), number_(kept.number()) {}
  ~OpenSequence() {
    if (kept_ != nullptr) kept_->end();
    else step_->close(number_);
  }
  OpenSequence(const OpenSequence&) = delete;
  OpenSequence& operator=(const OpenSequence&) = delete;
  std::int64_t number() const { return number_; }
  // Says that a step has appended the token.
  void append(std::int64_t token) {
    if (kept_ != nullptr) kept_->append(token);
  }

 private:
  ModelStep* step_ = nullptr;
  KeptSequence* kept_ = nullptr;
  std::int64_t number_;
};

// A prompt on its way to an answer.
struct Request {
  std::span<const std::int64_t> prompt;
  Answer answer;
  std::unique_ptr<OpenSequence> sequence;  // none before its first row and after its end
  std::size_t computed = 0;                // tokens of the prompt, those of a kept sequence included

  bool is_waiting() const { return !answer.is_over() && computed < prompt.size(); }
  bool is_decoding() const { return !answer.is_over() && computed == prompt.size(); }
};

class Loop {
 public:
  Loop(ModelStep& step, const GenerateOptions& options, std::int64_t chunk)
      : step_(step), options_(options), most_rows_(std::min(chunk, step.most_rows())) {}

  void add(Request request) {
    prompt_tokens_ += static_cast<std::int64_t>(request.prompt.size());
    cached_tokens_ += static_cast<std::int64_t>(request.computed);
    computed_tokens_ = cached_tokens_;
    requests_.push_back(std::move(request));
  }

  void run(GenerationStats* stats);
  std::vector<GeneratedAnswer> results();

 private:
  bool is_cancelled() const {
    return options_.cancellation != nullptr && options_.cancellation->flag().load(std::memory_order_relaxed);
  }
  void collect_rows();
  void append(Request& request, std::size_t index, std::span<const std::int64_t> tokens, bool wants_logits);
  void show(std::size_t index, const std::string& text);
  void end_all();

  ModelStep& step_;
  const GenerateOptions& options_;
  std::int64_t most_rows_;
  std::vector<Request> requests_;
  std::int64_t prompt_tokens_ = 0, cached_tokens_ = 0, computed_tokens_ = 0, generated_tokens_ = 0;
  // Rows of the step under way, those whose logits are wanted, and the answers that want them.
  std::vector<StepRow> rows_;
  std::vector<std::int64_t> wanted_;
  std::vector<std::size_t> wanted_by_;
};

void Loop::append(Request& request, std::size_t index, std::span<const std::int64_t> tokens, bool wants_logits) {
  if (request.sequence == nullptr) request.sequence = std::make_unique<OpenSequence>(step_);
  for (const std::int64_t token : tokens) rows_.push_back({token, request.sequence->number()});
  if (!wants_logits) return;
  wanted_.push_back(static_cast<std::int64_t>(rows_.size()) - 1);
  wanted_by_.push_back(index);
}

void Loop::collect_rows() {
  rows_.clear(), wanted_.clear(), wanted_by_.clear();
  const auto room = [&] { return static_cast<std::size_t>(most_rows_) - rows_.size(); };
  for (std::size_t i = 0; i < requests_.size() && room() > 0; ++i) {
    if (!requests_[i].is_decoding()) continue;
    const std::int64_t token = requests_[i].answer.last_token();
    append(requests_[i], i, {&token, 1}, true);
  }
  for (std::size_t i = 0; i < requests_.size() && room() > 0; ++i) {
    Request& request = requests_[i];
    if (!request.is_waiting()) continue;
    const std::size_t count = std::min(room(), request.prompt.size() - request.computed);
    append(request, i, request.prompt.subspan(request.computed, count),
           request.computed + count == request.prompt.size());
    request.computed += count;
    computed_tokens_ += static_cast<std::int64_t>(count);
  }
}

void Loop::show(std::size_t index, const std::string& text) {
  Request& request = requests_[index];
  if (text.empty() || !options_.on_text) return;
  const bool goes_on = options_.on_text({index, text});
  if (goes_on || request.answer.is_over()) return;
  request.answer.end(FinishReason::cancelled);
}

void Loop::end_all() {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (!requests_[i].answer.is_over()) show(i, requests_[i].answer.end(FinishReason::cancelled));
    requests_[i].sequence.reset();
  }
}

void Loop::run(GenerationStats* stats) {
  const std::int64_t begin = now_ns();
  std::int64_t first_token = begin;
  while (true) {
    if (is_cancelled()) break;
    const std::int64_t before = computed_tokens_;
    collect_rows();
    if (rows_.empty()) break;
    RunOptions run_options;
    run_options.cancellation = options_.cancellation;
    std::span<const float> logits;
    try {
      logits = step_.run(rows_, wanted_, run_options);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::cancelled || !is_cancelled()) throw;
      break;
    }
    if (requests_.size() == 1)
      for (const StepRow& row : rows_) requests_[0].sequence->append(row.token);
    if (computed_tokens_ > before) {
      if (options_.on_prompt) options_.on_prompt(computed_tokens_, prompt_tokens_);
      first_token = now_ns();
    }
    const auto vocabulary = static_cast<std::size_t>(step_.vocabulary());
    for (std::size_t i = 0; i < wanted_by_.size(); ++i) {
      Request& request = requests_[wanted_by_[i]];
      const std::string text = request.answer.take(logits.subspan(i * vocabulary, vocabulary));
      ++generated_tokens_;
      show(wanted_by_[i], text);
      if (request.answer.is_over()) request.sequence.reset();
    }
  }
  end_all();
  if (stats != nullptr)
    *stats = {prompt_tokens_, generated_tokens_, first_token - begin, now_ns() - first_token, cached_tokens_};
}

std::vector<GeneratedAnswer> Loop::results() {
  std::vector<GeneratedAnswer> results;
  for (Request& request : requests_) results.push_back(std::move(request.answer.result()));
  return results;
}

}  // namespace

std::vector<GeneratedAnswer> generate_answers(ModelStep& step, const Tokenizer& tokenizer,
                                              std::span<const std::int64_t> end_tokens,
                                              std::span<const std::vector<std::int64_t>> prompts, std::int64_t chunk,
                                              const GenerateOptions& options, GenerationStats* stats,
                                              KeptSequence* kept) {
  require(kept == nullptr || prompts.size() == 1, ErrorKind::invalid_argument,
          "a kept sequence goes on with one prompt, not {}", prompts.size());
  require(chunk > 0, ErrorKind::invalid_argument, "the chunk is {}, expected 1 or more", chunk);
  Loop loop(step, options, chunk);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    GenerateOptions own = options;
    own.sampling.choice += i;
    Answer answer(prompts[i], own, tokenizer, end_tokens, step.vocabulary(), step.context());
    const std::size_t computed = kept == nullptr ? 0 : kept->begin(prompts[i]);
    loop.add(
        {prompts[i], std::move(answer), kept == nullptr ? nullptr : std::make_unique<OpenSequence>(*kept), computed});
  }
  loop.run(stats);
  return loop.results();
}

}  // namespace tessera::generate
