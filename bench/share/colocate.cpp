// What bench/share/colocate.py drives: a model that answers requests, a training that goes on meanwhile, or
// both in one process as jobs of an arbiter.
//
//   bench_colocate serve MODEL [--dim NAME=N]… | train NET | both MODEL NET [--policy NAME] [--batch N]
//
// MODEL is an .onnx or .tsr file or a net of `tessera new`; NET is a net of `tessera new` that takes pictures of 32×32.
// It reads commands from standard input, a line each, and answers each with a line of JSON:
//   time                  {"run_ms"}: the median of 50 runs alone
//   serve LOAD            requests, served in order, by one of the loads of load.h, as `serve poisson 1000 50`;
//                         {"latencies_ms", "seconds", "processor_s"}: each from the moment at which it was due
//   go, pause, steps      {"steps", "processor_s"}: of the training so far, and of the whole process
//   train COUNT WAIT_MS   COUNT steps of the training, with a pause after each as if it waited for data; {"seconds"}
//   report                {"jobs": […]}: what the arbiter knows of each
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/numbers/philox.h"
#include "runtime/session/random_inputs.h"
#include "share/load.h"
#include "share/model_of.h"
#include "tessera/error.h"
#include "tessera/share.h"
#include "tessera/train.h"

namespace {

using SteadyClock = std::chrono::steady_clock;
using tessera::Job;

double seconds_since(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A training that goes on until this is destroyed, except while it is paused. It begins paused.
class Training {
 public:
  Training(const std::string& net, std::int64_t batch, Job* job) {
    tessera::TrainingConfig config;
    config.model.builder = net;
    config.data.batch = batch;
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
    hooks_.progress = [this](std::int64_t, std::int64_t) {
      if (++steps_ == last_) set(false);
      std::this_thread::sleep_for(data_wait_.load());
      std::unique_lock lock(mutex_);
      goes_.wait(lock, [&] { return go_; });
    };
    if (job != nullptr) {
      hooks_.run = [job](tessera::Session& session, const tessera::NamedValues& inputs,
                         const std::vector<tessera::OutputRequest>& outputs,
                         const tessera::RunOptions& how) { return job->run(session, inputs, outputs, how); };
    }
    thread_ = std::thread([this] { trainer_->run(hooks_); });
    while (steps_ < 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~Training() {
    stop_.cancel();
    set(true);
    thread_.join();
  }
  void set(bool go) {
    const std::lock_guard lock(mutex_);
    go_ = go;
    goes_.notify_all();
  }
  std::int64_t steps() const { return steps_; }

  // From a pause to the end of the last of `count` steps, without the wait after it.
  double seconds_of(std::int64_t count, std::chrono::duration<double, std::milli> data_wait) {
    data_wait_ = std::chrono::duration_cast<std::chrono::nanoseconds>(data_wait);
    last_ = steps_ + count;
    const SteadyClock::time_point begin = SteadyClock::now();
    set(true);
    std::unique_lock lock(mutex_);
    goes_.wait(lock, [&] { return !go_; });
    data_wait_ = std::chrono::nanoseconds(0);
    return seconds_since(begin);
  }

 private:
  std::optional<tessera::Trainer> trainer_;
  tessera::Cancellation stop_;
  tessera::TrainingHooks hooks_;
  std::atomic<std::int64_t> steps_{0}, last_{0};
  std::atomic<std::chrono::nanoseconds> data_wait_{std::chrono::nanoseconds(0)};
  std::mutex mutex_;
  std::condition_variable goes_;
  bool go_ = false;
  std::thread thread_;
};

// A model that answers requests, as the job if there is one.
class Service {
 public:
  Service(const tessera::Model& model, tessera::Arbiter* arbiter)
      : session_(model), inputs_(tessera::runtime::random_inputs(model, 1)), arbiter_(arbiter) {}

  nlohmann::json time() {
    std::vector<double> times;
    for (int i = 0; i < 60; ++i) {
      const SteadyClock::time_point begin = SteadyClock::now();
      session_.run(inputs_);
      if (i >= 10) times.push_back(1e3 * seconds_since(begin));
    }
    std::ranges::nth_element(times, times.begin() + 25);
    if (arbiter_ != nullptr && !job_)
      job_.emplace(arbiter_->add_job({.name = "realtime",
                                      .priority = tessera::Priority::realtime,
                                      .goal_ns = static_cast<std::int64_t>(2e6 * times[25])}));
    return {{"run_ms", times[25]}};
  }

  nlohmann::json serve(const tessera::bench::Load& load) {
    const double processor = processor_seconds();
    const tessera::bench::LoadResult result = tessera::bench::run_load(load, 1, [this] {
      return [this] {
        if (job_) job_->run(session_, inputs_);
        else session_.run(inputs_);
        return 0;
      };
    });
    std::vector<double> latencies_ms;
    for (const double us : result.latencies_us) latencies_ms.push_back(1e-3 * us);
    return {
        {"latencies_ms", latencies_ms}, {"seconds", result.seconds}, {"processor_s", processor_seconds() - processor}};
  }

  // Null before time(), and where there is no arbiter.
  const Job* job() const { return job_ ? &*job_ : nullptr; }

 private:
  tessera::Session session_;
  const tessera::NamedValues inputs_;
  tessera::Arbiter* const arbiter_;
  std::optional<Job> job_;
};

nlohmann::json as_json(const tessera::JobReport& report) {
  return {{"name", report.name},
          {"runs", report.runs},
          {"device_s", 1e-9 * static_cast<double>(report.device_ns)},
          {"waited_s", 1e-9 * static_cast<double>(report.waited_ns)},
          {"goal_misses", report.goal_misses},
          {"prediction_error", report.prediction_error}};
}

nlohmann::json answer(const std::string& line, std::optional<Service>& service, std::optional<Training>& training,
                      const std::optional<Job>& background) {
  std::istringstream words(line);
  const std::vector<std::string> all{std::istream_iterator<std::string>(words), {}};
  const std::string command = all.empty() ? "" : all[0];
  if (training && (command == "go" || command == "pause")) training->set(command == "go");
  if (training && (command == "go" || command == "pause" || command == "steps"))
    return {{"steps", training->steps()}, {"processor_s", processor_seconds()}};
  if (double wait_ms = 0; training && command == "train") {
    std::int64_t steps = 0;
    std::istringstream numbers(line.substr(command.size()));
    if (numbers >> steps >> wait_ms && steps > 0)
      return {{"seconds", training->seconds_of(steps, std::chrono::duration<double, std::milli>(wait_ms))}};
  }
  if (background && command == "report") {
    nlohmann::json jobs = {as_json(background->report())};
    if (const Job* const job = service->job()) jobs.push_back(as_json(job->report()));
    return {{"jobs", jobs}};
  }
  if (service && command == "time") return service->time();
  if (service && command == "serve" && all.size() > 1)
    return service->serve(tessera::bench::parse_load({all.begin() + 1, all.end()}));
  tessera::fail(tessera::ErrorKind::invalid_argument, "no command for this process: '{}'", line);
}

void work(const std::vector<std::string>& words, const std::string& policy, std::int64_t batch,
          const std::map<std::string, std::int64_t>& dims) {
  const std::string role = words.empty() ? "" : words[0];
  const bool serves = role == "serve" || role == "both", trains = role == "train" || role == "both";
  tessera::require((serves || trains) && words.size() == std::size_t{1} + serves + trains,
                   tessera::ErrorKind::invalid_argument, "expected serve MODEL, train NET or both MODEL NET");
  std::optional<tessera::Arbiter> arbiter;
  std::optional<Job> background;
  if (serves && trains) {
    arbiter.emplace(tessera::ArbiterOptions{.policy = policy});
    background.emplace(arbiter->add_job({.name = "training", .priority = tessera::Priority::background}));
  }
  std::optional<Service> service;
  std::optional<Training> training;
  if (serves) service.emplace(tessera::bench::model_of(words[1], dims), arbiter ? &*arbiter : nullptr);
  if (trains) training.emplace(words.back(), batch, background ? &*background : nullptr);
  std::string line;
  while (std::getline(std::cin, line)) std::cout << answer(line, service, training, background).dump() << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words;
  std::map<std::string, std::int64_t> dims;
  std::string policy = "fill";
  std::int64_t batch = 32;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i], next = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--policy") policy = argv[++i];
    else if (word == "--batch") batch = std::atoll(argv[++i]);
    else if (word == "--dim") dims[next.substr(0, next.find('='))] = std::atoll(argv[++i] + next.find('=') + 1);
    else words.push_back(word);
  }
  try {
    work(words, policy, batch, dims);
  } catch (const tessera::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return tessera::exit_code(error.kind());
  }
  return 0;
}
