// Does the memory of a language model grow? Answers short prompts of many lengths one after the other.
//
//   build/release/bench/bench_language_memory MODEL.gguf [PROMPTS]
//
// Prints "cache BYTES", which is the size of the cache of keys and values, and then, after each tenth of the prompts,
// how many there were and the resident bytes. tests/tries/language_memory.py judges them.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/numbers/checked.h"
#include "base/numbers/philox.h"
#include "generate/language_source.h"
#include "models/language/language_model.h"
#include "support/resident_memory.h"
#include "tessera/error.h"
#include "tessera/generate.h"

namespace {

constexpr std::int64_t kContext = 1024, kLongestPrompt = 96, kLongestAnswer = 8;

// Keys and values of all layers in float16.
std::int64_t cache_bytes(const std::string& path) {
  const tessera::generate::LanguageSource source =
      tessera::generate::source_of(tessera::generate::open_language_files(path));
  const tessera::models::LanguageConfig config =
      tessera::models::read_language_config(*source.values, *source.weights, kContext);
  return kContext * static_cast<std::int64_t>(config.layers.size()) * config.kv_heads *
         (config.head_size + config.value_size) * 2;
}

void measure(const std::string& path, int prompts) {
  fmt::print("cache {}\n", cache_bytes(path));
  tessera::LanguageModelOptions load;
  load.context = kContext;
  const tessera::LanguageModel model = tessera::LanguageModel::load(path, load);
  tessera::base::Philox random(1, 0);
  const auto below = [&](std::int64_t most) { return static_cast<std::int64_t>(random.next_u32()) % most; };
  const int tenth = std::max(1, prompts / 10);
  for (int i = 1; i <= prompts; ++i) {
    std::vector<std::int64_t> prompt(static_cast<std::size_t>(1 + below(kLongestPrompt)));
    for (std::int64_t& token : prompt) token = below(model.vocabulary_size());
    tessera::GenerateOptions options;
    options.max_tokens = 1 + below(kLongestAnswer);
    options.sampling.seed = static_cast<std::uint64_t>(i);
    model.generate_tokens({&prompt, 1}, options);
    if (i % tenth != 0) continue;
    fmt::print("{} {}\n", i, tessera::test::resident_bytes());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: bench_language_memory MODEL.gguf [PROMPTS]\n");
    return 2;
  }
  try {
    measure(argv[1], argc > 2 ? std::atoi(argv[2]) : 2000);
    return 0;
  } catch (const tessera::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
