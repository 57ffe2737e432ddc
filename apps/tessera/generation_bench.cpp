#include "generation_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/numbers/units.h"
#include "option_values.h"
#include "report/inspect/language_file.h"
#include "report/values/json_text.h"
#include "signals.h"

namespace tessera::apps {

void add_generation_bench_options(CLI::App& verb, GenerationBenchVerb& options) {
  constexpr const char* kGroup = "Of language models";
  const auto list = [&](const char* name, std::vector<std::int64_t>& values, const char* text, std::uint64_t least) {
    verb.add_option(name, values, text)
        ->delimiter(',')
        ->capture_default_str()
        ->check(whole_number(least, 1 << 24))
        ->group(kGroup);
  };
  list("--prompt-tokens", options.bench.prompts, "Read prompts of so many tokens, a test each (pp)", 1);
  list("--answer-tokens", options.bench.answers, "Generate so many tokens, a test each (tg)", 1);
  list("--depth", options.bench.depths, "Tokens before those that are timed; each test runs at each depth", 0);
  list("--batch", options.bench.batches, "Sequences at once; each tg test runs with each", 1);
  verb.add_option("--repetitions", options.bench.repetitions, "Timed repetitions of each test, after one that is not")
      ->capture_default_str()
      ->check(whole_number(1, 10000))
      ->group(kGroup);
  verb.add_flag("--exact", options.generation.load.exact, "Keep activations in float32")->group(kGroup);
  verb.add_option("--cache", options.generation.load.cache, "What keys and values are kept in: f16 or int8")
      ->capture_default_str()
      ->check(CLI::IsMember({"f16", "int8"}))
      ->group(kGroup);
}

void run_generation_bench(GenerationBenchVerb& options, const std::string& model, int threads, bool json) {
  options.generation.model = model;
  options.generation.load.threads = threads;
  const std::int64_t deepest = *std::ranges::max_element(options.bench.depths);
  const std::int64_t longest =
      std::max(*std::ranges::max_element(options.bench.prompts), *std::ranges::max_element(options.bench.answers));
  options.generation.load.context = deepest + longest + 2;
  options.generation.load.cache_tokens =
      (options.generation.load.context + 32) * *std::ranges::max_element(options.bench.batches);
  const report::LanguageFileInfo info = report::describe_language_file(model);
  const LanguageModel loaded = load_language_model(options.generation);
  const GracefulStop stop;  // an interrupted benchmark prints the tests that are whole
  options.bench.cancellation = &stop.cancellation();
  const std::vector<generate::GenerationBenchResult> results = generate::bench_generation(loaded, options.bench);
  if (json) {
    nlohmann::json list = nlohmann::json::array();
    for (const generate::GenerationBenchResult& result : results)
      list.push_back({{"test", result.test},
                      {"depth", result.depth},
                      {"batch", result.batch},
                      {"tokens_per_second", generate::median(result.tokens_per_second)},
                      {"tokens_per_cpu_second", generate::median(result.tokens_per_cpu_second)},
                      {"repetitions", result.tokens_per_second}});
    fmt::print("{}\n", report::json_text({{"model", model},
                                          {"architecture", info.architecture},
                                          {"bytes", info.bytes},
                                          {"parameters", info.parameters},
                                          {"tests", std::move(list)}},
                                         2));
    return;
  }
  fmt::print("{}, {} parameters, {}\n", info.architecture, base::format_count(static_cast<double>(info.parameters)),
             base::format_bytes(info.bytes));
  fmt::print("{:>8} {:>8} {:>6} {:>12} {:>21}\n", "test", "depth", "batch", "tokens/s", "lowest … highest");
  for (const generate::GenerationBenchResult& result : results) {
    const auto [low, high] = std::ranges::minmax(result.tokens_per_second);
    fmt::print("{:>8} {:>8} {:>6} {:>12.2f} {:>9.2f} … {:>9.2f}\n", result.test, result.depth, result.batch,
               generate::median(result.tokens_per_second), low, high);
  }
}

}  // namespace tessera::apps
