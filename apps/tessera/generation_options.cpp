#include "generation_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>

#include "base/environment.h"
#include "base/error.h"
#include "base/text.h"
#include "common.h"
#include "option_values.h"

namespace tessera::apps {
namespace {

template <typename Number>
bool parse_whole(std::string_view text, Number& value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size();
}

}  // namespace

void add_language_model_options(CLI::App& verb, GenerationOptions& options) {
  verb.add_option("MODEL", options.model,
                  "The language model: a .gguf file (of several, any one), a folder with config.json, "
                  "tokenizer.json and .safetensors files, or a .tsr that 'tessera optimize' made of either")
      ->required();
  verb.add_option("--threads", options.load.threads, "Most threads to use; 0: all cores this process may use")
      ->capture_default_str()
      ->check(whole_number(0, base::kMostThreads));
  verb.add_flag("--exact", options.load.exact,
                "Keep activations in float32, where they are rounded to 8 bits to multiply weights in blocks: slower, "
                "and exact");
  verb.add_option("--cache", options.load.cache,
                  "What keys and values are kept in: f16, or int8, which takes half the memory")
      ->capture_default_str()
      ->check(CLI::IsMember({"f16", "int8"}));
  verb.add_option("--context", options.load.context,
                  "Most tokens of prompt and answer; 0: as many as the model was made for, up to 8192")
      ->capture_default_str()
      ->check(whole_number(0, 1 << 24));
  verb.add_option("--memory-limit", options.memory_limit_mib,
                  "Most memory that the model may use, in MiB; 0: nine tenths of what this process may use")
      ->capture_default_str()
      ->check(whole_number(0, 1 << 30));
}

void add_answer_length_option(CLI::App& verb, GenerationOptions& options) {
  std::int64_t& most = options.generate.max_tokens;
  CLI::Option* option = verb.add_option(
      "-n,--max-tokens", most,
      most < 0 ? "Most tokens of an answer; without it the model decides" : "Most tokens of the answer");
  option->check(whole_number(0, 1 << 30));
  if (most >= 0) option->capture_default_str();
}

void add_sampling_options(CLI::App& verb, GenerationOptions& options) {
  SamplingOptions& sampling = options.generate.sampling;
  verb.add_option("--seed", sampling.seed, "Seed of the drawing of tokens: the same seed gives the same answer")
      ->capture_default_str()
      ->check(whole_number(0, kMostSeed));
  verb.add_option("--temperature", sampling.temperature,
                  "How far from the most probable token answers may go; 0: always the most probable one")
      ->capture_default_str()
      ->check(number(0, 100));
  verb.add_option("--top-k", sampling.top_k, "Draw from so many of the most probable tokens; 0: from all")
      ->capture_default_str()
      ->check(whole_number(0, 1 << 30));
  verb.add_option("--top-p", sampling.top_p, "Draw from the most probable tokens that have this probability together")
      ->capture_default_str()
      ->check(number(0, 1));
  verb.add_option("--min-p", sampling.min_p, "Draw from tokens with this share of the most probable one's probability")
      ->capture_default_str()
      ->check(number(0, 1));
  verb.add_option("--typical-p", sampling.typical_p,
                  "Draw from the tokens of the most usual information that have this probability together; 1: from all")
      ->capture_default_str()
      ->check(number(0, 1));
  verb.add_option("--repetition-penalty", sampling.repetition_penalty,
                  "Divide the logits of tokens of the last --repetition-window ones by this; 1: off")
      ->capture_default_str()
      ->check(number(1e-6, 100));
  verb.add_option("--repetition-window", sampling.repetition_window, "Tokens that --repetition-penalty looks back")
      ->capture_default_str()
      ->check(whole_number(0, 1 << 30));
  verb.add_option("--presence-penalty", sampling.presence_penalty,
                  "Subtract this from the logits of tokens that are in the answer")
      ->capture_default_str()
      ->check(number(-100, 100));
  verb.add_option("--frequency-penalty", sampling.frequency_penalty,
                  "Subtract this once per occurrence of a token in the answer")
      ->capture_default_str()
      ->check(number(-100, 100));
  verb.add_flag("--mirostat", sampling.mirostat,
                "Mirostat 2 in place of the four options that begin with Draw: keep the surprise of tokens near "
                "--mirostat-tau bits");
  verb.add_option("--mirostat-tau", sampling.mirostat_tau, "The surprise that --mirostat aims at, in bits")
      ->capture_default_str()
      ->check(number(0, 100));
  verb.add_option("--mirostat-eta", sampling.mirostat_eta, "How fast --mirostat adapts")
      ->capture_default_str()
      ->check(number(0, 1));
  verb.add_option("--bias", options.biases,
                  "Add a number to a token's logit, as TOKEN=BIAS with the token's number; may be repeated");
  verb.add_option("--stop", options.generate.stop, "A text that ends the answer and is not shown; may be repeated");
  verb.add_flag("--ignore-eos", options.generate.ignore_eos, "Never let the model end its answer");
  verb.add_option("--min-tokens", options.generate.min_tokens,
                  "The model does not end its answer before so many tokens")
      ->capture_default_str()
      ->check(whole_number(0, 1 << 30));
  verb.add_flag("--stats", options.stats, "Print tokens and speed on standard error");
}

LanguageModel load_language_model(const GenerationOptions& options) {
  LanguageModelOptions load = options.load;
  load.memory_limit_bytes = options.memory_limit_mib << 20;
  return LanguageModel::load(options.model, load);
}

GenerateOptions generate_options(const GenerationOptions& options) {
  GenerateOptions result = options.generate;
  for (const std::string& given : options.biases) {
    const std::size_t equals = std::min(given.find('='), given.size());
    std::int64_t token = -1;
    float bias = 0;
    require(equals < given.size() && parse_whole(std::string_view(given).substr(0, equals), token) &&
                parse_whole(std::string_view(given).substr(equals + 1), bias),
            ErrorKind::invalid_argument, "--bias expects TOKEN=BIAS, such as 2=-100, got '{}'", given);
    result.sampling.logit_bias[token] = bias;
  }
  return result;
}

void print_answer(std::string_view text) {
  static const bool terminal = isatty(STDOUT_FILENO) != 0;
  std::string shown;
  while (terminal && !text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\n\t"), text.size());
    shown += base::printable(text.substr(0, end));
    if (end < text.size()) shown += text[end];
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  shown += text;
  std::fwrite(shown.data(), 1, shown.size(), stdout);
  std::fflush(stdout);
}

double rate(std::int64_t tokens, std::int64_t ns) {
  return ns > 0 ? 1e9 * static_cast<double>(tokens) / static_cast<double>(ns) : 0;
}

void print_stats(const GenerationStats& stats) {
  // The first token of an answer comes with the prompt's last step.
  const std::int64_t later = std::max<std::int64_t>(0, stats.generated_tokens - 1);
  const std::int64_t computed = stats.prompt_tokens - stats.cached_tokens;
  const std::string cached = stats.cached_tokens > 0 ? fmt::format(" and {} from the cache", stats.cached_tokens) : "";
  fmt::print(stderr,
             "prompt: {} tokens in {:.2f} s, {:.1f} tokens/s{}; answer: {} tokens in {:.2f} s, {:.1f} tokens/s\n",
             computed, static_cast<double>(stats.prompt_ns) * 1e-9, rate(computed, stats.prompt_ns), cached,
             stats.generated_tokens, static_cast<double>(stats.generate_ns) * 1e-9, rate(later, stats.generate_ns));
}

}  // namespace tessera::apps
