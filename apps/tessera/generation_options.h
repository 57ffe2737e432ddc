// Options that the verbs of language models share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tessera/generate.h"

namespace tessera::apps {

struct GenerationOptions {
  std::string model;
  LanguageModelOptions load;
  GenerateOptions generate;
  std::int64_t memory_limit_mib = 0;
  std::vector<std::string> biases;  // each TOKEN=BIAS
  bool stats = false;
};

// MODEL and how it runs: --threads, --exact, --cache, --context, --memory-limit.
void add_language_model_options(CLI::App& verb, GenerationOptions& options);
// --max-tokens, with the default that `options` has; negative: the model decides.
void add_answer_length_option(CLI::App& verb, GenerationOptions& options);
// The drawing of tokens and the end of an answer: --seed, --temperature, … --stop.
void add_sampling_options(CLI::App& verb, GenerationOptions& options);

LanguageModel load_language_model(const GenerationOptions& options);
// The options of a call, once the command line was parsed. Throws Error(invalid_argument) for a bias of another form.
GenerateOptions generate_options(const GenerationOptions& options);

// Prints a piece of an answer on standard output at once. On a terminal, control characters other than line breaks and
// tabs are shown as escapes.
void print_answer(std::string_view text);
// Prints what a call took, in one line on standard error.
void print_stats(const GenerationStats& stats);
// Tokens per second, or 0.
double rate(std::int64_t tokens, std::int64_t ns);

}  // namespace tessera::apps
