// Does memory grow? Runs a model with changing shapes, then loads and unloads it, and prints resident memory on the
// way.
//
//   build/release/bench/bench_memory_growth MODEL.onnx [--runs 20000] [--loads 2000] [NAME=LOW..HIGH ...]
//
// Symbolic dimension NAME takes a random size between LOW and HIGH in each run. The first tenth of either part is
// warm-up. Exit status 1 when memory grew by more than 2% or 4 MiB after it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "base/numbers/philox.h"
#include "base/numbers/units.h"
#include "runtime/session/random_inputs.h"
#include "support/resident_memory.h"
#include "tessera/error.h"
#include "tessera/session.h"

namespace {

struct Range {
  std::int64_t low = 1, high = 1;
};
using Ranges = std::map<std::string, Range>;

// Repeats `body` and watches the resident bytes; true when they stayed.
bool watch(const char* what, int count, const std::function<void()>& body) {
  const int warm = std::max(1, count / 10);
  std::int64_t start = 0, now = 0;
  for (int i = 1; i <= count; ++i) {
    body();
    if (i % warm != 0 && i != count) continue;
    now = tessera::test::resident_bytes();
    if (i == warm) start = now;
    fmt::print("{} {:>6}  resident {}\n", what, i, tessera::base::format_bytes(now));
  }
  fmt::print("{} after warm-up: {} KiB, {:+.2f}%\n", what, (now - start) / 1024,
             100.0 * static_cast<double>(now - start) / static_cast<double>(start));
  return now - start <= std::max(start / 50, std::int64_t{4} << 20);
}

tessera::Model with_random_dims(const tessera::Model& model, const Ranges& ranges, tessera::base::Philox& random) {
  std::map<std::string, std::int64_t> dims;
  for (const auto& [name, range] : ranges)
    dims[name] = range.low + static_cast<std::int64_t>(random.next_u32()) % (range.high - range.low + 1);
  return dims.empty() ? model : model.with_dims(dims);
}

int measure(int argc, char** argv) {
  int runs = 20'000, loads = 2'000;
  std::string path;
  Ranges ranges;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    char name[128];
    long long low = 0, high = 0;
    if (argument == "--runs" && i + 1 < argc) runs = std::atoi(argv[++i]);
    else if (argument == "--loads" && i + 1 < argc) loads = std::atoi(argv[++i]);
    else if (std::sscanf(argv[i], "%127[^=]=%lld..%lld", name, &low, &high) == 3 && low >= 0 && low <= high)
      ranges[name] = {low, high};
    else path = argument;
  }
  if (path.empty()) {
    fmt::print(stderr, "usage: bench_memory_growth MODEL.onnx [--runs N] [--loads N] [NAME=LOW..HIGH ...]\n");
    return 2;
  }
  tessera::base::Philox random(1, 0);
  bool flat = true;
  {
    const tessera::Model model = tessera::Model::load(path);
    tessera::Session session(model);
    flat = watch("runs ", runs,
                 [&] { session.run(tessera::runtime::random_inputs(with_random_dims(model, ranges, random), 1)); }) &&
           flat;
  }
  flat =
      watch("loads", loads,
            [&] {
              const tessera::Model model = tessera::Model::load(path);
              tessera::Session(model).run(tessera::runtime::random_inputs(with_random_dims(model, ranges, random), 1));
            }) &&
      flat;
  return flat ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return measure(argc, argv);
  } catch (const tessera::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
