// Measures how fast a language model reads prompts and generates answers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/generate.h"

namespace tessera::generate {

struct GenerationBenchOptions {
  std::vector<std::int64_t> prompts{512};  // tokens of prompts to read, a test each; none: no such test
  std::vector<std::int64_t> answers{128};  // tokens of answers to generate, a test each
  std::vector<std::int64_t> depths{0};     // tokens that are in the cache before; each test runs at each depth
  std::vector<std::int64_t> batches{1};    // sequences at once; each test of answers runs with each
  int repetitions = 5;                     // timed, after one that is not
  const Cancellation* cancellation = nullptr;
};

struct GenerationBenchResult {
  std::string test;  // "pp512", "tg128"
  std::int64_t depth = 0, batch = 1;
  // The rates of all sequences together, one per repetition: by time that passed, and by the time that this process's
  // threads ran on processors, which other programs disturb less.
  std::vector<double> tokens_per_second, tokens_per_cpu_second;
};

// Tokens are random by a fixed seed. Throws Error(invalid_argument) for a test that does not fit into the context. Ends
// early, with the tests that are whole, when it is cancelled.
std::vector<GenerationBenchResult> bench_generation(const LanguageModel& model, const GenerationBenchOptions& options);

double median(std::vector<double> values);

}  // namespace tessera::generate
