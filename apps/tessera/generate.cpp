// tessera generate: continues a text with a language model.
#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "common.h"
#include "generation_options.h"
#include "io/file.h"
#include "option_values.h"
#include "report/values/json_text.h"
#include "signals.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

constexpr std::int64_t kMostPromptBytes = std::int64_t{64} << 20;

struct GenerateVerb {
  GenerationOptions generation;
  std::optional<std::string> prompt;
  std::string file;
  bool json = false;
};

std::string text_of_file(const std::string& path) {
  const std::vector<std::byte> bytes = io::read_file(path, kMostPromptBytes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The prompt from -p, --file or standard input.
std::string prompt_of(const GenerateVerb& verb) {
  require(!verb.prompt || verb.file.empty(), ErrorKind::invalid_argument,
          "both --prompt and --file are given, expected one prompt");
  if (verb.prompt) return *verb.prompt;
  if (!verb.file.empty() && verb.file != "-") return text_of_file(verb.file);
  require(verb.file == "-" || isatty(STDIN_FILENO) == 0, ErrorKind::invalid_argument,
          "there is no prompt: give one by -p TEXT, --file FILE or on standard input");
  if (std::cin.peek() == std::char_traits<char>::eof())
    fail(ErrorKind::invalid_argument, "the prompt is empty: there is nothing on standard input");
  return text_of_file(model_path("-"));
}

nlohmann::json json_of(const std::vector<TokenLogprob>& tokens, const Tokenizer& tokenizer) {
  nlohmann::json list = nlohmann::json::array();
  for (const TokenLogprob& token : tokens)
    list.push_back({{"id", token.token}, {"token", tokenizer.token_of(token.token)}, {"logprob", token.logprob}});
  return list;
}

void print_json(const GenerateVerb& verb, const std::string& prompt, const LanguageModel& model,
                const GeneratedAnswer& answer, const GenerationStats& stats) {
  nlohmann::json tokens = nlohmann::json::array();
  for (const GeneratedToken& token : answer.tokens) {
    nlohmann::json entry = {{"id", token.token}, {"token", model.tokenizer().token_of(token.token)}};
    if (verb.generation.generate.logprobs >= 0) {
      entry["logprob"] = token.logprob;
      entry["top_logprobs"] = json_of(token.top, model.tokenizer());
    }
    tokens.push_back(std::move(entry));
  }
  const nlohmann::json result = {{"model", verb.generation.model},
                                 {"prompt", prompt},
                                 {"text", answer.text},
                                 {"finish_reason", to_string(answer.finish)},
                                 {"tokens", std::move(tokens)},
                                 {"prompt_tokens", answer.prompt_tokens},
                                 {"prompt_seconds", static_cast<double>(stats.prompt_ns) * 1e-9},
                                 {"answer_seconds", static_cast<double>(stats.generate_ns) * 1e-9}};
  fmt::print("{}\n", report::json_text(result, 2));
}

void run_generate(const GenerateVerb& verb) {
  const std::string prompt = prompt_of(verb);
  const LanguageModel model = load_language_model(verb.generation);
  GenerateOptions options = generate_options(verb.generation);
  const GracefulStop stop;  // an interrupted answer is shown as far as it came
  options.cancellation = &stop.cancellation();
  char last = '\n';
  if (!verb.json)
    options.on_text = [&](const GeneratedText& piece) {
      print_answer(piece.text);
      last = piece.text.back();
      return std::ferror(stdout) == 0;  // nobody reads the rest
    };
  options.on_prompt = [](std::int64_t done, std::int64_t total) {
    show_progress("reading the prompt", static_cast<double>(done) / static_cast<double>(total));
  };
  GenerationStats stats;
  const std::vector<std::int64_t> tokens = model.encode(prompt);
  const GeneratedAnswer answer = model.generate_tokens({&tokens, 1}, options, &stats)[0];
  if (verb.json) print_json(verb, prompt, model, answer, stats);
  else if (last != '\n') fmt::print("\n");
  if (verb.generation.stats) print_stats(stats);
}

}  // namespace

void add_generate(CLI::App& app) {
  auto options = std::make_shared<GenerateVerb>();
  options->generation.generate.max_tokens = 512;
  CLI::App* verb = app.add_subcommand("generate", "Continue a text with a language model");
  add_language_model_options(*verb, options->generation);
  verb->add_option("-p,--prompt", options->prompt, "The text to continue");
  verb->add_option("--file", options->file, "A file with the text to continue, or - for standard input");
  add_answer_length_option(*verb, options->generation);
  add_sampling_options(*verb, options->generation);
  verb->add_option("--logprobs", options->generation.generate.logprobs,
                   "With --json: list so many of the most probable tokens in each place, 0 to 20")
      ->check(whole_number(0, 20));
  verb->add_flag("--json", options->json, "Print the answer, its tokens and its times as JSON, when it is whole");
  verb->footer(
      "The answer is the same for a seed, whatever else the machine does and however many threads it runs on; another\n"
      "instruction set (TESSERA_ISA) may give another one.\n"
      "\nExamples:\n"
      "  tessera generate model.gguf -p 'The capital of France is' --seed 1\n"
      "  tessera generate model.gguf --file letter.txt --temperature 0 --stats\n"
      "  git diff | tessera generate model.gguf -n 100 --json");
  verb->callback([options] { run_generate(*options); });
}

}  // namespace tessera::apps
