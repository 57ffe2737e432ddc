// Generates text with language models, read from GGUF or safetensors files as they are shipped.
//
//   LanguageModel model = LanguageModel::load("SmolLM2-135M-Instruct.Q4_1.gguf");
//   GenerateOptions options;
//   options.on_text = [](const GeneratedText& piece) { std::cout << piece.text << std::flush; return true; };
//   model.generate("The capital of France is", options);
//
// A token's logits are the same bits whatever runs beside them: other sequences, chunks of the prompt, threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/session.h"
#include "tessera/tokenizer.h"

namespace tessera {

// How the next token is drawn from the model's logits. The parts are applied in the order in which they stand here.
// The defaults suit small models; temperature 0 always takes the most probable token.
struct SamplingOptions {
  std::map<std::int64_t, float> logit_bias;  // token → what is added to its logit
  // Logits of the tokens in the last `repetition_window` tokens of prompt and answer are divided by this where they are
  // positive, else multiplied; 1: off. A negative window means all tokens.
  double repetition_penalty = 1;
  std::int64_t repetition_window = 64;
  // Subtracted from the logit of a token that is in the answer already: once, and per occurrence; 0: off.
  double presence_penalty = 0;
  double frequency_penalty = 0;
  double temperature = 0.8;  // 0: the most probable token, of several the one with the lowest number
  std::int64_t top_k = 40;   // only so many of the most probable tokens; 0: all
  // Only the tokens whose information is closest to the distribution's entropy, until they have this probability
  // together ("Locally Typical Sampling", arXiv:2202.00666); 1: all.
  double typical_p = 1;
  double top_p = 0.95;  // only the most probable tokens, until they have this probability together; 1: all
  double min_p = 0.05;  // only tokens with at least this share of the most probable one's probability; 0: all
  // Mirostat 2 (arXiv:2007.14966) in place of top_k, typical_p, top_p and min_p: keeps the surprise of the tokens, in
  // bits, near tau.
  bool mirostat = false;
  double mirostat_tau = 5;
  double mirostat_eta = 0.1;  // how fast it adapts
  // A token is drawn by (seed, choice, its position in the answer) alone, so that a seed repeats an answer whatever
  // runs beside it. `choice` tells several answers to one prompt apart.
  std::uint64_t seed = 1;
  std::uint64_t choice = 0;
};

// The natural logarithm of a token's probability, from the model's own logits: before bias, penalties and temperature.
struct TokenLogprob {
  std::int64_t token = 0;
  double logprob = 0;
};

// A token of an answer, with the most probable tokens in its place where they were asked for.
struct GeneratedToken {
  std::int64_t token = 0;
  double logprob = 0;             // 0 unless GenerateOptions::logprobs asks for it
  std::vector<TokenLogprob> top;  // the most probable first
};

// A piece of an answer as it is generated.
struct GeneratedText {
  std::size_t answer = 0;  // which of the prompts it answers
  std::string_view text;   // whole UTF-8 characters; all pieces joined are GeneratedAnswer::text
};

enum class FinishReason {
  stop,       // the model ended its answer, or a stop string came
  length,     // max_tokens, or the end of the context
  cancelled,  // the caller asked for it
};
// "stop", "length", "cancelled"
std::string_view to_string(FinishReason reason);

struct GenerateOptions {
  SamplingOptions sampling;
  std::int64_t max_tokens = -1;   // of an answer; negative: until the model ends it or the context is full
  std::int64_t min_tokens = 0;    // the model does not end its answer before
  bool ignore_eos = false;        // the model never ends its answer
  std::vector<std::string> stop;  // strings that end an answer; neither they nor their beginnings are shown
  std::int64_t logprobs = -1;     // the number of most probable tokens to list with each token, 0 to 20; negative: none
  // Called with each piece of text from the thread that generates. The answer ends as cancelled when it returns false.
  std::function<bool(const GeneratedText& piece)> on_text;
  // Called while the prompts are computed, with their tokens that are done and all of them.
  std::function<void(std::int64_t done, std::int64_t total)> on_prompt;
  const Cancellation* cancellation = nullptr;  // ends all answers between two steps; must outlive the call
};

struct GeneratedAnswer {
  std::string text;
  std::vector<GeneratedToken> tokens;  // with the token that ended the answer, whose text is not shown
  FinishReason finish = FinishReason::stop;
  std::int64_t prompt_tokens = 0;
};

// The work of one call, and how long it took.
struct GenerationStats {
  std::int64_t prompt_tokens = 0, generated_tokens = 0;
  std::int64_t prompt_ns = 0;    // until the first token of an answer was known
  std::int64_t generate_ns = 0;  // from then on
  // Those of prompt_tokens that a LanguageSession had in the cache, so that they were not computed.
  std::int64_t cached_tokens = 0;
};

// A message of a conversation. Most chat templates know the roles "system" (first, if at all), "user" and "assistant",
// the latter two in turn.
struct ChatMessage {
  std::string role, content;
};

struct LanguageModelOptions {
  int threads = 0;            // cores to use at most; 0: all that the process may use
  bool exact = false;         // activations stay float32 where they would be rounded to 8 bits for weights in blocks
  std::string cache = "f16";  // how keys and values are kept: "f16", or "int8" with a scale per row and head
  std::int64_t context = 0;   // the most tokens of a sequence; 0: as many as the model was made for, up to 8192
  std::int64_t cache_tokens = 0;        // tokens of all sequences that the cache has room for; 0: the context
  std::int64_t memory_limit_bytes = 0;  // as in SessionOptions
  std::string chat_template;            // in Jinja, in place of the model's own; "": the model's own
};

// The package that optimise_language_model wrote.
struct LanguagePackageReport {
  std::int64_t file_bytes = 0;
  std::int64_t weights = 0, weight_bytes = 0;
  std::int64_t packings = 0, packed_bytes = 0;  // weights stored in the kernels' own layout too
};

// Writes a language model, from whatever LanguageModel::load takes, as a package (.tsr) for this machine: its answers
// have the same bits, and its weights need no packing when it is loaded. A package made from a protected one is
// protected for the same keys. An existing file is either replaced completely or stays as it was. Throws Error:
// invalid_argument for another ending, and as LanguageModel::load does.
TESSERA_API LanguagePackageReport optimise_language_model(const std::filesystem::path& model,
                                                          const std::filesystem::path& to);

// A language model that is ready to generate. Thread-safe: calls take turns. Copies share the model and its cache.
class TESSERA_API LanguageModel {
 public:
  // A GGUF file (of several, any one), a safetensors file with config.json and tokenizer.json beside it, a folder with
  // either, or a package (.tsr) of one, which default_model_key() opens if it is protected. Throws Error: not_found,
  // io, invalid_model, over_budget; unsupported names the architecture, the tensor type, the scaling of positions or
  // the splitting of text that Tessera does not have.
  static LanguageModel load(const std::filesystem::path& path, const LanguageModelOptions& options = {});

  // Continues a prompt. Special tokens in it are recognised. Throws Error: invalid_argument for options out of their
  // ranges and for a prompt that leaves no room in the context; over_budget where the cache has no room.
  GeneratedAnswer generate(std::string_view prompt, const GenerateOptions& options = {}) const;
  // Continues several prompts of tokens at once, each as if it were alone; prompt i draws with choice + i.
  std::vector<GeneratedAnswer> generate_tokens(std::span<const std::vector<std::int64_t>> prompts,
                                               const GenerateOptions& options = {},
                                               GenerationStats* stats = nullptr) const;

  // Answers the last message of a conversation, as generate_tokens continues encode_chat. LanguageSession::chat is
  // faster where a conversation goes on.
  GeneratedAnswer chat(std::span<const ChatMessage> messages, const GenerateOptions& options = {},
                       GenerationStats* stats = nullptr) const;

  // The tokens of a prompt.
  std::vector<std::int64_t> encode(std::string_view prompt) const;
  // The tokens of a conversation as the chat template writes it, up to where the answer begins. The messages are text
  // and nothing else: a special token that they spell out is not recognised. Throws Error: unsupported where the model
  // has no chat template or it uses what Tessera does not know; invalid_argument with the template's own message where
  // it refuses the messages; otherwise as text::ChatTemplate does.
  std::vector<std::int64_t> encode_chat(std::span<const ChatMessage> messages) const;
  // The logits of the token that follows the prompt.
  std::vector<float> logits(std::span<const std::int64_t> prompt) const;

  const Tokenizer& tokenizer() const;
  const std::string& architecture() const;
  const std::string& chat_template() const;  // its source, or "" when there is none
  std::int64_t vocabulary_size() const;
  std::int64_t context() const;  // the most tokens of a sequence

 private:
  friend class LanguageSession;
  struct Impl;
  explicit LanguageModel(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

// Answers prompts one after the other, and leaves the last one with its answer in the model's cache: of a prompt that
// begins with the same tokens, such as the next turn of a conversation, only the others are computed. The answers are
// the same, bit by bit. Where another call finds no room in the cache, it takes that of sessions that are not at work;
// what they lost is computed when it is needed. Not thread-safe, but several sessions may share a model.
class TESSERA_API LanguageSession {
 public:
  explicit LanguageSession(const LanguageModel& model);
  ~LanguageSession();
  LanguageSession(LanguageSession&&) noexcept;
  LanguageSession& operator=(LanguageSession&&) noexcept;

  // These do what the functions of LanguageModel do.
  GeneratedAnswer generate_tokens(std::span<const std::int64_t> prompt, const GenerateOptions& options = {},
                                  GenerationStats* stats = nullptr);
  GeneratedAnswer chat(std::span<const ChatMessage> messages, const GenerateOptions& options = {},
                       GenerationStats* stats = nullptr);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera
