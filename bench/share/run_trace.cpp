// Runs a trace for real: what `tessera share simulate` says of it in virtual time, measured on this machine. Run by
// bench/share/reproduce.py.
//
//   bench_run_trace TRACE.toml --job NAME=MODEL… [--policy NAME]
//
// Every job of the trace is one of an arbiter of this process, with its class, goal, weight and arrivals (the same
// moments as in the simulation); its runs are those of MODEL (an .onnx or .tsr file or a net of `tessera new`),
// whatever steps the trace has. Prints a JSON object with the keys of `tessera share simulate --json` for each job.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "cost/profile.h"
#include "io/file.h"
#include "runtime/session/random_inputs.h"
#include "share/load.h"
#include "share/model_of.h"
#include "share/trace.h"
#include "tessera/error.h"
#include "tessera/session.h"
#include "tessera/share.h"

namespace {

using namespace tessera;

// Requests of one job in flight at once.
constexpr int kClients = 4;
constexpr int kWarmUp = 5;

struct RunningJob {
  RunningJob(const share::SimulatedJob& given, const std::string& name, Arbiter& arbiter)
      : traced(given),
        model(bench::model_of(name, {})),
        session(model),
        inputs(runtime::random_inputs(model, 1)),
        job(arbiter.add_job(given.options)) {
    for (int i = 0; i < kWarmUp; ++i) job.run(session, inputs);
  }

  void run(const bench::Load& load) {
    const std::int64_t wait_ns = load.is_closed ? traced.arrivals.wait_ns : 0;
    result = bench::run_load(load, load.is_closed ? 1 : kClients, [this, wait_ns] {
      return [this, wait_ns, first = true]() mutable {
        if (!first && wait_ns > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(wait_ns));
        first = false;
        job.run(session, inputs);
        return 0;
      };
    });
  }

  const share::SimulatedJob& traced;
  const Model model;
  Session session;
  const NamedValues inputs;
  Job job;
  bench::LoadResult result;
};

share::Trace read_trace(const std::string& path) {
  const std::vector<std::byte> bytes = io::read_file(path, std::int64_t{64} << 20);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  // Recorded steps, and all arrivals, are the same for every device.
  return share::parse_trace(text, path, cost::load_profile("a100-80-sxm"));
}

nlohmann::json run(const std::string& path, const std::string& policy, std::map<std::string, std::string> models) {
  const share::Trace trace = read_trace(path);
  Arbiter arbiter({.policy = policy});
  std::vector<std::unique_ptr<RunningJob>> jobs;
  std::vector<bench::Load> loads;
  for (std::size_t i = 0; i < trace.jobs.size(); ++i) {
    const share::SimulatedJob& job = trace.jobs[i];
    require(models.contains(job.options.name), ErrorKind::invalid_argument, "job '{}' has no --job NAME=MODEL",
            job.options.name);
    jobs.push_back(std::make_unique<RunningJob>(job, models[job.options.name], arbiter));
    loads.push_back({.is_closed = true, .count = job.arrivals.requests, .due_ns = {}});
    if (job.arrivals.kind == share::Arrivals::Kind::closed) continue;
    loads.back().is_closed = false;
    loads.back().due_ns = share::arrival_times(job.arrivals, trace.seed, i);
    loads.back().count = static_cast<std::int64_t>(loads.back().due_ns.size());
  }
  std::atomic<bool> go{false};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    threads.emplace_back([&, i] {
      go.wait(false);
      jobs[i]->run(loads[i]);
    });
  }
  go = true;
  go.notify_all();
  for (std::thread& thread : threads) thread.join();
  nlohmann::json list = nlohmann::json::array();
  for (const auto& each : jobs) {
    const nlohmann::json latency = bench::summary(each->result.latencies_us);
    list.push_back({{"name", each->traced.options.name},
                    {"runs", each->result.latencies_us.size()},
                    {"completion_ms", 1e3 * each->result.seconds},
                    {"p50_ms", 1e-3 * latency["p50_us"].get<double>()},
                    {"p99_ms", 1e-3 * latency["p99_us"].get<double>()}});
  }
  return {{"policy", policy}, {"jobs", list}};
}

}  // namespace

int main(int argc, char** argv) {
  std::string trace, policy = "fill";
  std::map<std::string, std::string> models;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i], next = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--policy") policy = next, ++i;
    else if (word == "--job") models[next.substr(0, next.find('='))] = next.substr(next.find('=') + 1), ++i;
    else trace = word;
  }
  try {
    fmt::print("{}\n", run(trace, policy, models).dump());
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "bench_run_trace: {}\n", error.what());
    return exit_code(error.kind());
  }
}
