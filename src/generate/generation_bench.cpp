#include "generate/generation_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <optional>

#include "base/error.h"
#include "base/numbers/philox.h"

namespace tessera::generate {
namespace {

std::vector<std::int64_t> random_tokens(std::int64_t count, std::int64_t vocabulary, std::uint64_t stream) {
  base::Philox random(46, stream);
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < count; ++i) tokens.push_back(random.next_integer(0, vocabulary - 1));
  return tokens;
}

bool is_cancelled(const GenerationBenchOptions& options) {
  return options.cancellation != nullptr && options.cancellation->flag().load();
}

// Seconds for which the threads of this process have run so far.
double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Rates {
  double per_second, per_cpu_second;
};

// The rates of one repetition, or none when it was cancelled.
std::optional<Rates> time_once(const LanguageModel& model, const GenerationBenchOptions& options, std::int64_t prompt,
                               std::int64_t answer, std::int64_t depth, std::int64_t batch) {
  using Clock = std::chrono::steady_clock;
  const bool reads = prompt > 0;
  // An answer begins after one token at least.
  const std::int64_t before = reads ? depth + prompt : std::max<std::int64_t>(depth, 1);
  std::vector<std::vector<std::int64_t>> prompts;
  for (std::int64_t i = 0; i < batch; ++i)
    prompts.push_back(random_tokens(before, model.vocabulary_size(), static_cast<std::uint64_t>(i)));
  GenerateOptions generate;
  generate.sampling.temperature = 0;
  generate.max_tokens = reads ? 1 : answer + 1;
  generate.ignore_eos = true;
  generate.cancellation = options.cancellation;
  const Clock::time_point begin = Clock::now();
  Clock::time_point at_depth = begin, read = begin;
  double cpu_at_depth = cpu_seconds(), cpu_read = cpu_at_depth;
  std::int64_t done_at_depth = 0;
  generate.on_prompt = [&](std::int64_t done, std::int64_t) {
    read = Clock::now();
    cpu_read = cpu_seconds();
    if (done > depth) return;
    at_depth = read;
    cpu_at_depth = cpu_read;
    done_at_depth = done;
  };
  GenerationStats stats;
  model.generate_tokens(prompts, generate, &stats);
  const double cpu_end = cpu_seconds();
  if (is_cancelled(options)) return std::nullopt;
  if (!reads) {
    const auto tokens = static_cast<double>(batch * answer);
    return Rates{1e9 * tokens / static_cast<double>(stats.generate_ns), tokens / (cpu_end - cpu_read)};
  }
  const auto tokens = static_cast<double>(before - done_at_depth);
  return Rates{tokens / std::chrono::duration<double>(read - at_depth).count(), tokens / (cpu_read - cpu_at_depth)};
}

}  // namespace

std::vector<GenerationBenchResult> bench_generation(const LanguageModel& model, const GenerationBenchOptions& options) {
  struct Test {
    std::int64_t prompt, answer, depth, batch;
  };
  std::vector<Test> tests;
  for (const std::int64_t depth : options.depths) {
    for (const std::int64_t prompt : options.prompts) tests.push_back({prompt, 0, depth, 1});
    for (const std::int64_t batch : options.batches)
      for (const std::int64_t answer : options.answers) tests.push_back({0, answer, depth, batch});
  }
  for (const auto& [prompt, answer, depth, batch] : tests)
    require(depth + prompt + answer + 1 < model.context(), ErrorKind::invalid_argument,
            "{} tokens after {} do not fit into the context of {}", prompt + answer, depth, model.context());
  std::vector<GenerationBenchResult> results;
  for (const auto& [prompt, answer, depth, batch] : tests) {
    GenerationBenchResult result{
        prompt > 0 ? fmt::format("pp{}", prompt) : fmt::format("tg{}", answer), depth, batch, {}, {}};
    for (int i = 0; i <= options.repetitions; ++i) {
      const std::optional<Rates> rates = time_once(model, options, prompt, answer, depth, batch);
      if (!rates) return results;
      if (i == 0) continue;
      result.tokens_per_second.push_back(rates->per_second);
      result.tokens_per_cpu_second.push_back(rates->per_cpu_second);
    }
    results.push_back(std::move(result));
  }
  return results;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.empty() ? 0 : values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace tessera::generate
