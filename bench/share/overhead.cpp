// What being a job costs a run that nobody disturbs. Driven by bench/share/overhead.py.
//
//   bench_overhead MODEL [--dim NAME=N]…
//
// MODEL is an .onnx or .tsr file or a net of `tessera new`. Reads commands from standard input, a line each, and
// answers each with a line of JSON, {"us"}: the median time of a run.
//   session COUNT      runs of a session; attached where `tessera share run` started this process
//   both COUNT         the same in turn with runs of it as the only job of an arbiter of this process, whose median is
//                      "job_us"
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/session/random_inputs.h"
#include "share/model_of.h"
#include "tessera/error.h"
#include "tessera/session.h"
#include "tessera/share.h"

namespace {

using namespace tessera;

double timed_us(const auto& run) {
  const std::int64_t begin_ns = Clock::steady().now_ns();
  run();
  return 1e-3 * static_cast<double>(Clock::steady().now_ns() - begin_ns);
}

double median(std::vector<double>& times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

void answer_all(const Model& model) {
  Session session(model);
  const NamedValues inputs = runtime::random_inputs(model, 1);
  Arbiter arbiter;
  Job job = arbiter.add_job({.name = "alone"});
  std::string command;
  int count = 0;
  while (std::cin >> command >> count) {
    require((command == "session" || command == "both") && count > 0, ErrorKind::invalid_argument,
            "expected session COUNT or both COUNT");
    std::vector<double> alone, as_job;
    for (int i = 0; i < count; ++i) {
      alone.push_back(timed_us([&] { session.run(inputs); }));
      if (command == "both") as_job.push_back(timed_us([&] { job.run(session, inputs); }));
    }
    std::string text = fmt::format("{{\"us\": {:.3f}", median(alone));
    if (!as_job.empty()) text += fmt::format(", \"job_us\": {:.3f}", median(as_job));
    std::cout << text << "}" << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::string name = "lenet5";
    std::map<std::string, std::int64_t> dims;
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i], next = i + 1 < argc ? argv[i + 1] : "";
      if (word == "--dim") dims[next.substr(0, next.find('='))] = std::atoll(argv[++i] + next.find('=') + 1);
      else name = word;
    }
    answer_all(bench::model_of(name, dims));
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "bench_overhead: {}\n", error.what());
    return exit_code(error.kind());
  }
}
