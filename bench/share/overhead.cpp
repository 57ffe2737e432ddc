// What being a job costs a run that nobody disturbs. Driven by bench/share/overhead.py.
//
//   bench_overhead MODEL [--dim NAME=N]…
//
// MODEL is an .onnx or .tsr file or a net of `tessera new`. Reads commands from standard input, a line each, and
// answers each with a line of JSON, {"us"}: the median time of a run.
//   session COUNT      runs of a session; attached where `tessera share run` started this process
//   job COUNT          the same as runs of the only job of an arbiter of this process
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/random_inputs.h"
#include "share/model_of.h"
#include "tessera/error.h"
#include "tessera/session.h"
#include "tessera/share.h"

namespace {

using namespace tessera;

double median_us(int count, const auto& run) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    const std::int64_t begin_ns = Clock::steady().now_ns();
    run();
    times.push_back(1e-3 * static_cast<double>(Clock::steady().now_ns() - begin_ns));
  }
  const auto middle = times.begin() + count / 2;
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
    require((command == "session" || command == "job") && count > 0, ErrorKind::invalid_argument,
            "expected session COUNT or job COUNT");
    const double us = command == "job" ? median_us(count, [&] { job.run(session, inputs); })
                                       : median_us(count, [&] { session.run(inputs); });
    std::cout << fmt::format("{{\"us\": {:.3f}}}", us) << std::endl;
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
