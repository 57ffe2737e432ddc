// A realtime model beside a training that fills the machine: what the one loses of its latency, and the other of what
// the first leaves.
//
//   build/release/bench/bench_colocate [--policy NAME] [--requests N] [--rounds N] [--load SHARE] [--train NET] [MODEL]
//
// MODEL and NET are nets of `tessera new` (mobilenet_v3_small beside resnet18_cifar unless given). Requests arrive as a
// Poisson process at that share (0.3) of what the model could answer, whether or not it has answered those before;
// latency counts from the moment at which a request was due. Phases (realtime alone, training alone, both) take turns,
// with the same arrivals. One JSON object on standard output:
//   p99_alone_ms, p99_colocated_ms, p99_ratio, p50_ratio    of the realtime model
//   background_alone, background_colocated                  steps of training a second
//   background_share_of_leftover                            colocated / (alone · (1 − u)), u = the cores that the
//   realtime
//                                                           model alone kept busy, as a share of all
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "base/thread_pool.h"
#include "models/models.h"
#include "runtime/random_inputs.h"
#include "tessera/error.h"
#include "tessera/share.h"
#include "tessera/train.h"

namespace {

using SteadyClock = std::chrono::steady_clock;
using tessera::Job;

struct Options {
  std::string policy = "fill", model = "mobilenet_v3_small", net = "resnet18_cifar";
  int requests = 1000, rounds = 2;
  double load = 0.3;
};

double seconds_since(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double percentile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

tessera::Model model_of(const std::string& name, std::int64_t batch) {
  return tessera::Model(
      std::make_shared<const tessera::ir::Graph>(tessera::models::build_model(name, {.dims = {{"batch", batch}}})));
}

// A training that goes on until this is destroyed.
class Training {
 public:
  Training(const std::string& net, Job& job) {
    tessera::TrainingConfig config;
    config.model.builder = net;
    config.data.batch = 32;
    config.data.workers = 0;
    config.steps = 1'000'000'000;
    config.optimiser.learning_rate = 1e-4;
    tessera::Tensor x(tessera::DType::f32, {64, 3, 32, 32}), y(tessera::DType::i64, {64});
    tessera::base::Philox numbers(7, 0);
    for (float& value : x.mutable_values<float>()) value = static_cast<float>(numbers.next_u32() >> 8) * 0x1p-24f;
    for (std::int64_t& value : y.mutable_values<std::int64_t>()) value = numbers.next_u32() % 10;
    config.data.train_arrays = {{"input", x}, {"y", y}};
    trainer_.emplace(config);
    hooks_.cancellation = &stop_;
    hooks_.progress = [this](std::int64_t, std::int64_t) { ++steps_; };
    hooks_.run = [&job](tessera::Session& session, const tessera::NamedValues& inputs,
                        const std::vector<tessera::OutputRequest>& outputs,
                        const tessera::RunOptions& how) { return job.run(session, inputs, outputs, how); };
    thread_ = std::thread([this] { trainer_->run(hooks_); });
    while (steps_ < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~Training() {
    stop_.cancel();
    thread_.join();
  }
  std::int64_t steps() const { return steps_; }

 private:
  std::optional<tessera::Trainer> trainer_;
  tessera::Cancellation stop_;
  tessera::TrainingHooks hooks_;
  std::atomic<std::int64_t> steps_{0};
  std::thread thread_;
};

struct Phase {
  std::vector<double> latencies;
  double seconds = 0, busy_cores = 0;
};

// Requests at the moments of a Poisson process of this rate.
Phase serve(Job& job, tessera::Session& session, const tessera::NamedValues& inputs, int requests, double rate) {
  Phase phase;
  tessera::base::Philox numbers(11, 0);
  const double cpu = cpu_seconds();
  const SteadyClock::time_point begin = SteadyClock::now();
  double due = 0;
  for (int i = 0; i < requests; ++i) {
    due -= std::log((static_cast<double>(numbers.next_u32()) + 1) * 0x1p-32) / rate;
    const auto at = begin + std::chrono::duration_cast<SteadyClock::duration>(std::chrono::duration<double>(due));
    std::this_thread::sleep_until(at);
    job.run(session, inputs);
    phase.latencies.push_back(1e3 * (seconds_since(begin) - due));
  }
  phase.seconds = seconds_since(begin);
  phase.busy_cores = (cpu_seconds() - cpu) / phase.seconds;
  return phase;
}

nlohmann::json measure(const Options& options) {
  tessera::Arbiter arbiter({.policy = options.policy});
  const tessera::Model model = model_of(options.model, 1);
  tessera::Session session(model);
  const tessera::NamedValues inputs = tessera::runtime::random_inputs(model, 1);
  for (int i = 0; i < 10; ++i) session.run(inputs);
  std::vector<double> alone_ms;
  for (int i = 0; i < 50; ++i) {
    const SteadyClock::time_point begin = SteadyClock::now();
    session.run(inputs);
    alone_ms.push_back(1e3 * seconds_since(begin));
  }
  const double run_ms = percentile(alone_ms, 0.5), rate = 1e3 * options.load / run_ms;
  Job realtime = arbiter.add_job({.name = "realtime",
                                  .priority = tessera::Priority::realtime,
                                  .goal_ns = static_cast<std::int64_t>(2e6 * run_ms)});
  Job background = arbiter.add_job({.name = "training", .priority = tessera::Priority::background});
  std::vector<double> alone, colocated;
  double busy = 0, alone_steps = 0, alone_seconds = 0, beside_steps = 0, beside_seconds = 0;
  for (int round = 0; round < options.rounds; ++round) {
    const Phase quiet = serve(realtime, session, inputs, options.requests, rate);
    alone.insert(alone.end(), quiet.latencies.begin(), quiet.latencies.end());
    busy += quiet.busy_cores / options.rounds;
    const Training training(options.net, background);
    const std::int64_t first = training.steps();
    const SteadyClock::time_point begin = SteadyClock::now();
    std::this_thread::sleep_for(std::chrono::duration<double>(std::max(2.0, quiet.seconds)));
    alone_steps += static_cast<double>(training.steps() - first);
    alone_seconds += seconds_since(begin);
    const std::int64_t second = training.steps();
    const Phase both = serve(realtime, session, inputs, options.requests, rate);
    beside_steps += static_cast<double>(training.steps() - second);
    beside_seconds += both.seconds;
    colocated.insert(colocated.end(), both.latencies.begin(), both.latencies.end());
  }
  const double cores = tessera::base::ThreadPool::process().cores();
  const double left = alone_steps / alone_seconds * (1 - busy / cores);
  return {{"policy", options.policy},
          {"model", options.model},
          {"train", options.net},
          {"run_ms", run_ms},
          {"p50_alone_ms", percentile(alone, 0.5)},
          {"p50_colocated_ms", percentile(colocated, 0.5)},
          {"p99_alone_ms", percentile(alone, 0.99)},
          {"p99_colocated_ms", percentile(colocated, 0.99)},
          {"p99_ratio", percentile(colocated, 0.99) / percentile(alone, 0.99)},
          {"p50_ratio", percentile(colocated, 0.5) / percentile(alone, 0.5)},
          {"background_alone", alone_steps / alone_seconds},
          {"background_colocated", beside_steps / beside_seconds},
          {"background_share_of_leftover", beside_steps / beside_seconds / left}};
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("--")) options.model = word;
    else if (i + 1 == argc) tessera::fail(tessera::ErrorKind::invalid_argument, "{} needs a value", word);
    else if (word == "--policy") options.policy = argv[++i];
    else if (word == "--requests") options.requests = std::atoi(argv[++i]);
    else if (word == "--rounds") options.rounds = std::atoi(argv[++i]);
    else if (word == "--load") options.load = std::atof(argv[++i]);
    else if (word == "--train") options.net = argv[++i];
    else tessera::fail(tessera::ErrorKind::invalid_argument, "unknown option {}", word);
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    fmt::print("{}\n", measure(parse(argc, argv)).dump(2));
  } catch (const tessera::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return tessera::exit_code(error.kind());
  }
  return 0;
}
