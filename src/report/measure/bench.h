// Measures the time of a model's runs.
#pragma once

#include <string>

#include "tessera/session.h"

namespace tessera::report {

struct BenchOptions {
  int runs = 20;       // least number of timed runs; at least one is made
  double seconds = 0;  // least time for which timed runs are made
  int warmup = 3;
  SessionOptions session;
  RunOptions run;
};

// Times in milliseconds: load (reading the file and fixing dimensions), the first run (planning, packing and running),
// and `runs` warm runs.
struct BenchResult {
  double load_ms = 0, first_ms = 0, median_ms = 0, min_ms = 0, p90_ms = 0, p99_ms = 0;
  int runs = 0;
  bool interrupted = false;  // whether the run was cancelled before all runs were timed
  int threads = 0;
  std::string precision;  // in which float layers multiplied
  std::int64_t peak_rss_bytes = 0, arena_bytes = 0, weights_bytes = 0;
  // In the memory of a device that has its own; without one, zeros.
  std::int64_t device_arena_bytes = 0, device_weights_bytes = 0;
  std::map<std::string, std::string> shapes;  // input name → type and shape as run
};

// If it is cancelled after at least one timed run, returns the results so far. Throws as Session does, including
// Error(cancelled).
BenchResult bench_model(const Model& model, double load_ms, const NamedValues& inputs, const BenchOptions& options);

// A JSON object with the members "model", "precision", "threads", "shapes", "load_ms", "first_ms", "median_ms",
// "min_ms", "p90_ms", "p99_ms", "runs", "interrupted", "peak_rss_bytes", "arena_bytes", "weights_bytes",
// "device_arena_bytes" and "device_weights_bytes".
std::string bench_json(const std::string& model, const BenchResult& result);

}  // namespace tessera::report
