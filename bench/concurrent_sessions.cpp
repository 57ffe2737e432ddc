// Total throughput of many sessions that run at once against that of two, on the same machine and model.
//
//   build/release/bench/bench_concurrent_sessions MODEL.onnx [sessions] [seconds]
//
// Prints runs per second for 2 sessions and for `sessions` (10), in turn, three rounds, and the median ratio. With
// cores counted, not threads, the ratio stays near 1 however many sessions there are.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "runtime/random_inputs.h"
#include "tessera/session.h"

namespace {

double runs_per_second(const tessera::Model& model, int sessions, double seconds) {
  std::vector<tessera::Session> made;
  for (int i = 0; i < sessions; ++i) made.emplace_back(model);
  const tessera::NamedValues inputs = tessera::runtime::random_inputs(model, 1);
  for (tessera::Session& session : made) session.run(inputs);
  std::atomic<bool> stop{false};
  std::atomic<int> runs{0};
  std::vector<std::thread> threads;
  const auto start = std::chrono::steady_clock::now();
  for (tessera::Session& session : made) {
    threads.emplace_back([&] {
      while (!stop.load()) {
        session.run(inputs);
        ++runs;
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  return runs.load() / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: bench_concurrent_sessions MODEL.onnx [sessions] [seconds]\n");
    return 2;
  }
  const int sessions = argc > 2 ? std::atoi(argv[2]) : 10;
  const double seconds = argc > 3 ? std::atof(argv[3]) : 3;
  const tessera::Model model = tessera::Model::load(argv[1]);
  std::vector<double> ratios;
  for (int round = 0; round < 3; ++round) {
    const double two = runs_per_second(model, 2, seconds), many = runs_per_second(model, sessions, seconds);
    ratios.push_back(many / two);
    fmt::print("2 sessions {:.2f} runs/s, {} sessions {:.2f} runs/s, ratio {:.3f}\n", two, sessions, many,
               ratios.back());
  }
  std::sort(ratios.begin(), ratios.end());
  fmt::print("median ratio {:.3f}\n", ratios[1]);
}
