// Load on a model in this process, which is a job where `tessera share run` starts it: see load.h for the loads.
//
//   bench_load MODEL [--dim NAME=N]… [--clients N] [--warm-up N] [--histogram] -- LOAD…
//   bench_load resnet18_cifar -- poisson 1000 50
//   bench_load search.onnx --trace trace.toml search      the arrivals of a job of a trace (docs/sharing.md)
//
// MODEL is an .onnx or .tsr file or a net of `tessera new`. Prints a JSON object: requests a second and the
// distributions of latency (from the moment at which a request was due) and of lateness (when it was sent after that).
#include <fmt/format.h>

#include <cstdlib>
#include <string>
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

namespace {

using namespace tessera;

struct Options {
  std::string model, trace, job;
  std::map<std::string, std::int64_t> dims;
  int clients = 1, warm_up = 10;
  bool histogram = false;
  std::vector<std::string> load;
};

Options parse(const std::vector<std::string>& words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto value = [&] {
      require(i + 1 < words.size(), ErrorKind::invalid_argument, "{} needs a value", words[i]);
      return words[++i];
    };
    if (words[i] == "--") {
      options.load.assign(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
      break;
    }
    if (words[i] == "--dim") {
      const std::string dim = value();
      options.dims[dim.substr(0, dim.find('='))] = std::atoll(dim.c_str() + dim.find('=') + 1);
    } else if (words[i] == "--clients") options.clients = std::atoi(value().c_str());
    else if (words[i] == "--warm-up") options.warm_up = std::atoi(value().c_str());
    else if (words[i] == "--histogram") options.histogram = true;
    else if (words[i] == "--trace") options.trace = value(), options.job = value();
    else options.model = words[i];
  }
  require(!options.model.empty() && options.clients > 0 && options.load.empty() != options.trace.empty(),
          ErrorKind::invalid_argument, "expected MODEL [options] -- LOAD, or MODEL --trace FILE JOB");
  return options;
}

bench::Load load_of(const Options& options) {
  if (options.trace.empty()) return bench::parse_load(options.load);
  const std::vector<std::byte> bytes = io::read_file(options.trace, std::int64_t{64} << 20);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  // Only the arrivals of the jobs count here, and they are the same for every device.
  const share::Trace trace = share::parse_trace(text, options.trace, cost::load_profile("a100-80-sxm"));
  for (std::size_t i = 0; i < trace.jobs.size(); ++i) {
    const share::SimulatedJob& job = trace.jobs[i];
    if (job.options.name != options.job) continue;
    if (job.arrivals.kind == share::Arrivals::Kind::closed) return {.is_closed = true, .count = job.arrivals.requests};
    bench::Load load{.due_ns = share::arrival_times(job.arrivals, trace.seed, i)};
    load.count = static_cast<std::int64_t>(load.due_ns.size());
    return load;
  }
  fail(ErrorKind::invalid_argument, "'{}' has no job '{}'", options.trace, options.job);
}

nlohmann::json run(const Options& options) {
  const bench::Load load = load_of(options);
  const Model model = bench::model_of(options.model, options.dims);
  Session session(model);
  const NamedValues inputs = runtime::random_inputs(model, 1);
  for (int i = 0; i < options.warm_up; ++i) session.run(inputs);
  const bench::LoadResult result = bench::run_load(load, options.clients, [&] {
    return [&] {
      session.run(inputs);
      return 0;
    };
  });
  nlohmann::json figures{{"seconds", result.seconds},
                         {"per_second", static_cast<double>(result.latencies_us.size()) / result.seconds},
                         {"latency", bench::summary(result.latencies_us)}};
  if (!load.is_closed) figures["lateness"] = bench::summary(result.lateness_us);
  if (options.histogram) figures["latency"]["histogram"] = bench::histogram(result.latencies_us);
  return figures;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    fmt::print("{}\n", run(parse({argv + 1, argv + argc})).dump());
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "bench_load: {}\n", error.what());
    return exit_code(error.kind());
  }
}
