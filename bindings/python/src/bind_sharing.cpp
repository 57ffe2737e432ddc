// tessera._core.Arbiter and Job.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>

#include "arrays.h"
#include "base/error.h"
#include "bindings.h"
#include "gil.h"
#include "tessera/share.h"
#include "values.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tessera::python {
namespace {

nb::list run(Job& job, PySession& session, nb::dict feeds, nb::handle names) {
  const NamedValues inputs = session.inputs_from(std::move(feeds));
  const std::vector<OutputRequest> requests = names.is_none() ? session.all_outputs() : session.requests_from(names);
  const std::vector<Value> results = interruptible([&](const Cancellation* cancellation) {
    RunOptions options;
    options.cancellation = cancellation;
    return job.run(session.session(), inputs, requests, options);
  });
  pass_messages();
  nb::list list;
  for (const Value& result : results) list.append(python_from_value(result));
  return list;
}

nb::object call(Job& job, const std::string& name, nb::callable work) {
  nb::object result;
  {
    const WithoutGil released;
    job.run(name, [&] {
      const WithGil lock;
      result = work();
    });
  }
  return result;
}

nb::dict report_dict(const Job& job) {
  const JobReport report = job.report();
  nb::dict result;
  result["name"] = python_text(report.name);
  result["runs"] = report.runs;
  result["failed_runs"] = report.failed_runs;
  result["device_ns"] = report.device_ns;
  result["waited_ns"] = report.waited_ns;
  result["p50_ns"] = report.p50_ns;
  result["p99_ns"] = report.p99_ns;
  result["goal_misses"] = report.goal_misses;
  result["memory_bytes"] = report.memory_bytes;
  result["peak_memory_bytes"] = report.peak_memory_bytes;
  result["spills"] = report.spills;
  result["spilled_bytes"] = report.spilled_bytes;
  result["prediction_error"] = report.prediction_error;
  return result;
}

Priority priority_of(int number) {
  require(number >= 0 && number < kPriorities, ErrorKind::invalid_argument, "there is no priority {}", number);
  return static_cast<Priority>(number);
}

}  // namespace

void bind_sharing(nb::module_& module) {
  nb::class_<Job>(module, "Job")
      .def("run", &run, "session"_a, "feeds"_a, "outputs"_a.none() = nb::none())
      .def("call", &call, "name"_a, "work"_a)
      .def("charge", &Job::charge, "nbytes"_a, "what"_a)
      .def("release", &Job::release, "nbytes"_a)
      .def("report", &report_dict);
  nb::class_<Arbiter>(module, "Arbiter")
      .def(
          "__init__",
          [](Arbiter* self, const std::string& policy, std::int64_t memory_bytes, const std::string& device) {
            new (self) Arbiter(ArbiterOptions{policy, memory_bytes, device});
          },
          "policy"_a, "memory_bytes"_a, "device"_a)
      .def_prop_ro("policy", &Arbiter::policy)
      .def(
          "add_job",
          [](Arbiter& self, const std::string& name, int priority, double weight, double goal_s,
             std::int64_t guarantee_bytes, std::int64_t limit_bytes) {
            JobOptions options;
            options.name = name;
            options.priority = priority_of(priority);
            options.weight = weight;
            options.goal_ns = static_cast<std::int64_t>(goal_s * 1e9);
            options.guarantee_bytes = guarantee_bytes;
            options.limit_bytes = limit_bytes;
            return self.add_job(options);
          },
          "name"_a, "priority"_a, "weight"_a, "goal_s"_a, "guarantee_bytes"_a, "limit_bytes"_a);
}

}  // namespace tessera::python
