// tessera._core.QuantiseOptions and quantise.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "arrays.h"
#include "bindings.h"
#include "compress/quantise/quantisation_report.h"
#include "compress/quantise/quantise_file.h"
#include "gil.h"
#include "tessera/quantise.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tessera::python {
namespace {

// The quantised model, and the report as JSON, text and page.
nb::tuple quantise_model(const Model& model, const std::string& name, QuantiseOptions how, nb::object path, bool times,
                         nb::object progress, std::int64_t file_bytes) {
  const std::string output = path_from_python(path);
  // Quantising cannot be cancelled otherwise: an exception raised by the progress report ends it.
  how.progress = [&](std::string_view what, double done) {
    const WithGil lock;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!progress.is_none()) progress(python_text(what), done);
  };
  const QuantisedModel made =
      without_gil([&] { return compress::quantise_to_file(model, how, output, times, file_bytes); });
  pass_messages();
  const compress::QuantisationFiles files{name, output};
  return nb::make_tuple(made.model, python_text(compress::quantisation_json(made.report, files)),
                        python_text(compress::quantisation_text(made.report, files, made.report.layers.size())),
                        python_text(compress::quantisation_html(made.report, files)));
}

}  // namespace

void bind_compression(nb::module_& module) {
  nb::class_<QuantiseOptions>(module, "QuantiseOptions")
      .def(nb::init<>())
      .def_rw("weights", &QuantiseOptions::weights)
      .def_rw("full", &QuantiseOptions::full)
      .def_rw("group", &QuantiseOptions::group)
      .def_rw("percentile", &QuantiseOptions::percentile)
      .def_rw("correct_bias", &QuantiseOptions::correct_bias)
      .def_rw("equalise", &QuantiseOptions::equalise)
      .def_rw("adaptive_rounding", &QuantiseOptions::adaptive_rounding)
      .def_rw("rounding_steps", &QuantiseOptions::rounding_steps)
      .def_rw("exclude", &QuantiseOptions::exclude)
      .def_rw("diagnose", &QuantiseOptions::diagnose)
      .def_rw("max_drop", &QuantiseOptions::max_drop, nb::for_setter(nb::arg("value").none()))
      .def_rw("metric", &QuantiseOptions::metric)
      .def_rw("session", &QuantiseOptions::session)
      .def_prop_rw(
          "estimator", [](const QuantiseOptions& self) { return std::string(name_of(self.estimator)); },
          [](QuantiseOptions& self, const std::string& name) { self.estimator = parse_range_estimator(name); })
      .def_prop_rw(
          "data", [](const QuantiseOptions& self) { return python_text(self.data.path); },
          [](QuantiseOptions& self, nb::object path) { self.data.path = path_from_python(path); })
      .def_prop_rw(
          "normalise", [](const QuantiseOptions& self) { return self.data.normalise; },
          [](QuantiseOptions& self, const std::string& how) { self.data.normalise = how; })
      .def_prop_rw(
          "labels", [](const QuantiseOptions& self) { return self.data.labels; },
          [](QuantiseOptions& self, const std::string& name) { self.data.labels = name; })
      .def_prop_rw(
          "batch", [](const QuantiseOptions& self) { return self.data.batch; },
          [](QuantiseOptions& self, std::int64_t samples) { self.data.batch = samples; })
      .def_prop_rw(
          "samples", [](const QuantiseOptions& self) { return self.data.most_samples; },
          [](QuantiseOptions& self, std::int64_t most) { self.data.most_samples = most; });
  module.def("quantise", &quantise_model, "model"_a, "name"_a, "options"_a, "path"_a, "times"_a,
             "progress"_a.none() = nb::none(), "file_bytes"_a = 0);
}

}  // namespace tessera::python
