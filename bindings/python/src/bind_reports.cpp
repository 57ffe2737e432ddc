// explain, optimise, diff, info: the results of the command line's verbs of these names, as text and JSON.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>

#include "arrays.h"
#include "base/error.h"
#include "bindings.h"
#include "cost/precision.h"
#include "cost/profile.h"
#include "gil.h"
#include "report/explain/explain.h"
#include "report/explain/graph_cost.h"
#include "report/inspect/model_difference.h"
#include "report/inspect/model_info.h"
#include "report/inspect/optimisation.h"
#include "report/measure/calibration.h"
#include "report/measure/device_profile.h"
#include "runtime/session/assumed_dims.h"
#include "runtime/session/random_inputs.h"
#include "tessera/optimise.h"
#include "train/net/training_step.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tessera::python {
namespace {

cost::DeviceProfile profile_of(const std::string& device, int threads, report::ExplainOptions& how) {
  bool scaled = false;
  const report::NamedProfile found = report::load_device_profile(device);
  if (found.is_measured) how.cpu_measured = *found.is_measured;
  return found.profile.with_threads(threads, scaled);
}

report::Explanation explain(const Model& model, const std::string& name, const SessionOptions& session,
                            const std::vector<std::string>& devices, const std::string& precision, bool training,
                            bool measure) {
  const std::optional<cost::Precision> parsed = cost::parse_precision(precision);
  require(parsed.has_value(), ErrorKind::invalid_argument,
          "there is no precision '{}'; use 'f32', 'tf32', 'f16', 'bf16' or 'int8'", precision);
  return interruptible([&](const Cancellation* cancellation) {
    report::ExplainOptions how;
    for (const std::string& device : devices) how.devices.push_back(profile_of(device, session.threads, how));
    how.precision = *parsed;
    how.training = training;
    how.measure = measure;
    how.session = session;
    how.run.cancellation = cancellation;
    const Model sized = runtime::assume_dims(model).model;
    return report::explain(training ? train::usual_training_step(sized) : sized, name, how);
  });
}

std::string info_json(const Model& model, const std::string& name) {
  const WithoutGil released;
  return report::model_info_json(model, report::describe_model(model), name);
}

// The report as JSON, text and page.
nb::tuple optimise_model(const Model& model, const std::string& name, const SessionOptions& session, nb::object path,
                         std::optional<std::int64_t> opset, nb::object progress) {
  const std::string output = path_from_python(path);
  report::Optimisation result{.model = name, .output = output};
  result.report = without_gil([&] {
    const report::CpuProfile cpu = report::load_cpu_profile();
    OptimiseOptions how;
    how.session = session;
    how.opset = opset;
    how.measure = report::graph_measure(cpu.profile, session.device, runtime::assume_dims(model).dims);
    if (!progress.is_none())
      how.progress = [&](std::string_view what, double done) {
        const WithGil lock;
        progress(python_text(what), done);
      };
    result.device = cpu.profile.title;
    result.measured = cpu.measured;
    return optimise(model, output, how);
  });
  pass_messages();
  return nb::make_tuple(python_text(report::optimisation_json(result)), python_text(report::optimisation_text(result)),
                        python_text(report::optimisation_html(result)));
}

struct Differences {
  report::ModelDifference difference;
};

Differences diff_models(PySession& a, PySession& b, nb::object feeds, double relative, double absolute,
                        bool outputs_only, std::uint64_t seed) {
  NamedValues inputs;
  if (!feeds.is_none()) inputs = a.inputs_from(nb::cast<nb::dict>(feeds));
  Differences result = interruptible([&](const Cancellation* cancellation) {
    report::ModelDifferenceOptions how{a.options(), b.options(), {}, {relative, absolute}, outputs_only};
    how.run.cancellation = cancellation;
    if (feeds.is_none()) inputs = runtime::random_inputs(a.model(), seed);
    return Differences{report::compare_models(a.model(), b.model(), inputs, how)};
  });
  pass_messages();
  return result;
}

nb::dict random_feeds(const Model& model, std::uint64_t seed) {
  nb::dict feeds;
  for (const auto& [name, value] : runtime::random_inputs(model, seed))
    feeds[python_text(name)] = numpy_from_tensor(value.tensor());
  return feeds;
}

}  // namespace

void bind_reports(nb::module_& module) {
  nb::class_<report::Explanation>(module, "Explanation")
      .def(
          "text", [](const report::Explanation& self, bool all) { return python_text(explanation_text(self, all)); },
          "all_operators"_a = false)
      .def("json", [](const report::Explanation& self) { return python_text(explanation_json(self)); })
      .def("html", [](const report::Explanation& self) { return python_text(explanation_html(self)); })
      .def_prop_ro("headline", [](const report::Explanation& self) { return python_text(report::headline(self)); });
  nb::class_<Differences>(module, "Differences")
      .def("same", [](const Differences& self) { return self.difference.same(); })
      .def(
          "text",
          [](const Differences& self, std::size_t most) {
            return python_text(report::model_difference_text(self.difference, most));
          },
          "most"_a = 10)
      .def("json", [](const Differences& self) { return python_text(report::model_difference_json(self.difference)); });
  module.def("explain", &explain, "model"_a, "name"_a, "options"_a, "devices"_a, "precision"_a, "training"_a,
             "measure"_a);
  module.def("info_json", &info_json, "model"_a, "name"_a);
  module.def("optimise", &optimise_model, "model"_a, "name"_a, "options"_a, "path"_a, "opset"_a.none() = nb::none(),
             "progress"_a.none() = nb::none());
  module.def("diff", &diff_models, "a"_a, "b"_a, "feeds"_a.none(), "relative"_a, "absolute"_a, "outputs_only"_a,
             "seed"_a);
  module.def("random_feeds", &random_feeds, "model"_a, "seed"_a = 0);
  module.def(
      "assume_dims",
      [](const Model& model) {
        runtime::AssumedDims assumed = runtime::assume_dims(model);
        return std::pair(assumed.model, assumed.dims);
      },
      "model"_a);
}

}  // namespace tessera::python
