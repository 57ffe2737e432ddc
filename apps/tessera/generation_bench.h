// The benchmark of language models, a part of the verb bench.
#pragma once

#include <CLI/CLI.hpp>

#include "generate/generation_bench.h"
#include "generation_options.h"

namespace tessera::apps {

struct GenerationBenchVerb {
  generate::GenerationBenchOptions bench;
  GenerationOptions generation;
};

// --prompt-tokens --answer-tokens --depth --batch --repetitions --exact --cache
void add_generation_bench_options(CLI::App& verb, GenerationBenchVerb& options);
void run_generation_bench(GenerationBenchVerb& options, const std::string& model, int threads, bool json);

}  // namespace tessera::apps
