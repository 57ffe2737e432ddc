// tessera._core.Session: running a model on Python's arrays.
#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "arrays.h"
#include "base/error.h"
#include "bindings.h"
#include "gil.h"
#include "ir/graph.h"
#include "numpy_arrays.h"
#include "passes/pipeline.h"
#include "report/measure/trace.h"
#include "runtime/session/overridable.h"
#include "values.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tessera::python {

PySession::PySession(const Model& model, const SessionOptions& options)
    : model_(model), options_(options), session_(std::make_unique<Session>(model, options)) {
  const ir::Graph& graph = model_.graph();
  for (const ir::ValueId id : graph.inputs()) input_types_.emplace(graph.value(id).name, &graph.value(id).type);
  for (const ValueDescription& each : runtime::overridable_inputs(model_))
    overridable_types_.emplace(each.name, ir::ValueType::tensor(each.dtype));
  for (const ir::ValueId id : graph.outputs()) all_outputs_.emplace_back(graph.value(id).name);
}

const ir::ValueType* PySession::type_of_input(const std::string& name) const {
  if (const auto found = input_types_.find(name); found != input_types_.end()) return found->second;
  const auto found = overridable_types_.find(name);
  return found != overridable_types_.end() ? &found->second : nullptr;
}

NamedValues PySession::inputs_from(nb::dict feeds) const {
  NamedValues inputs;
  for (const auto& [key, item] : feeds) {
    std::string name = name_from_python(key, "the name of an input");
    const ir::ValueType* const type = type_of_input(name);
    if (type == nullptr) {
      inputs.emplace(std::move(name), Value());  // the session reports the unknown name and lists the inputs
      continue;
    }
    // In the usual case, no text for a message is made.
    Tensor tensor = type->is_tensor() ? tensor_from_numpy(item) : Tensor();
    Value value =
        tensor.has_value() ? Value(std::move(tensor)) : value_from_python(item, *type, "input '" + name + "'");
    inputs.emplace(std::move(name), std::move(value));
  }
  return inputs;
}

std::vector<OutputRequest> PySession::requests_from(nb::handle names) const {
  std::vector<OutputRequest> requests;
  for (const nb::handle name : names) {
    requests.emplace_back(name_from_python(name, "the name of an output"));
  }
  return requests;
}

namespace {

RunOptions run_options(const PyRunOptions* given, const Cancellation* cancellation) {
  RunOptions options = given != nullptr ? given->options : RunOptions();
  options.cancellation = cancellation;
  return options;
}

Cancellation* cancellation_of(const PyRunOptions* given) {
  return given != nullptr ? given->cancellation.get() : nullptr;
}

nb::list run(PySession& self, nb::dict feeds, nb::handle names, const PyRunOptions* given) {
  const NamedValues inputs = self.inputs_from(std::move(feeds));
  std::vector<OutputRequest> chosen;
  if (!names.is_none()) chosen = self.requests_from(names);
  const std::vector<OutputRequest>& requests = names.is_none() ? self.all_outputs() : chosen;
  const std::vector<Value> results = interruptible(
      [&](const Cancellation* cancellation) {
        return self.session().run(inputs, requests, run_options(given, cancellation));
      },
      cancellation_of(given));
  pass_messages();
  nb::list list;
  for (const Value& result : results) list.append(python_from_value(result));
  return list;
}

// Writes the outputs into the caller's arrays.
void run_into(PySession& self, nb::dict feeds, nb::dict into, const PyRunOptions* given) {
  const NamedValues inputs = self.inputs_from(std::move(feeds));
  std::vector<OutputRequest> requests;
  for (const auto& [name, array] : into) {
    const std::string text = name_from_python(name, "the name of an output");
    const Tensor memory = writable_from_python(array, "the array for output '" + text + "'");
    requests.emplace_back(text, memory);
  }
  interruptible(
      [&](const Cancellation* cancellation) {
        return self.session().run(inputs, requests, run_options(given, cancellation));
      },
      cancellation_of(given));
  pass_messages();
}

// The results, and the times of the steps.
std::pair<nb::list, nb::list> timed_run(PySession& self, nb::dict feeds, nb::handle names, const PyRunOptions* given) {
  PyRunOptions timed = given != nullptr ? *given : PyRunOptions();
  std::vector<StepTiming> timings;
  timed.options.timings = &timings;
  nb::list results = run(self, std::move(feeds), names, &timed);
  nb::list steps;
  for (const StepTiming& step : timings) {
    nb::dict entry;
    entry["name"] = python_text(step.name);
    entry["op"] = python_text(step.op);
    entry["kernel"] = python_text(step.kernel);
    entry["shapes"] = python_text(step.shapes);
    entry["start_ns"] = step.start_ns;
    entry["duration_ns"] = step.duration_ns;
    entry["operations"] = step.operations;
    entry["bytes"] = step.bytes;
    entry["depth"] = step.depth;
    steps.append(entry);
  }
  return {results, steps};
}

// The trace of one run, for Perfetto.
std::string trace(PySession& self, nb::dict feeds, const std::string& name) {
  const NamedValues inputs = self.inputs_from(std::move(feeds));
  return interruptible([&](const Cancellation* cancellation) {
    report::RunTrace recorded;
    RunOptions options;
    options.cancellation = cancellation;
    report::traced_run(self.session(), inputs, options, recorded);
    return report::trace_json(recorded, name);
  });
}

nb::dict memory_dict(const PySession& self) {
  const MemoryUse use = const_cast<PySession&>(self).session().memory();
  nb::dict result;
  result["weights_bytes"] = use.weights_bytes;
  result["packed_weights_bytes"] = use.packed_weights_bytes;
  result["variables_bytes"] = use.variables_bytes;
  result["plans_bytes"] = use.plans_bytes;
  result["arena_bytes"] = use.arena_bytes;
  result["results_bytes"] = use.results_bytes;
  result["staging_bytes"] = use.staging_bytes;
  nb::dict device;
  device["weights_bytes"] = use.device.weights_bytes;
  device["packed_weights_bytes"] = use.device.packed_weights_bytes;
  device["variables_bytes"] = use.device.variables_bytes;
  device["arena_bytes"] = use.device.arena_bytes;
  device["limit_bytes"] = use.device.limit_bytes;
  result["device"] = device;
  return result;
}

PySession* make_session(const Model& model, const SessionOptions& options) {
  PySession* const made = without_gil([&] { return new PySession(model, options); });
  pass_messages();
  return made;
}

DType parse_precision(const std::string& name) {
  if (name.empty()) return DType::undefined;
  const std::optional<DType> dtype = dtype_from_name(name);
  require(dtype.has_value(), ErrorKind::invalid_argument, "there is no precision '{}'; use 'f32' or 'bf16'", name);
  return *dtype;
}

// The passes that are left out when optimisation is off: all but those without which some nodes cannot run.
std::vector<std::string> optional_passes() {
  std::vector<std::string> names;
  for (const passes::Pass& pass : passes::all_passes()) {
    if (pass.name != "differentiate" && pass.name != "decompose_composites") names.emplace_back(pass.name);
  }
  return names;
}

void bind_session_options(nb::module_& module) {
  nb::class_<SessionOptions>(module, "SessionOptions")
      .def(nb::init<>())
      .def_rw("device", &SessionOptions::device)
      .def_prop_rw(
          "threads", [](const SessionOptions& self) { return self.threads; },
          [](SessionOptions& self, int threads) {
            require(threads >= 0, ErrorKind::invalid_argument,
                    "a session cannot have {} threads; 0 means all cores that this process may use", threads);
            self.threads = threads;
          })
      .def_rw("max_cached_plans", &SessionOptions::max_cached_plans)
      .def_rw("max_plan_bytes", &SessionOptions::max_plan_bytes)
      .def_prop_rw(
          "precision",
          [](const SessionOptions& self) {
            return self.precision == DType::undefined ? std::string() : std::string(name_of(self.precision));
          },
          [](SessionOptions& self, const std::string& name) { self.precision = parse_precision(name); })
      .def_rw("memory_limit_bytes", &SessionOptions::memory_limit_bytes)
      .def_rw("device_memory_limit_bytes", &SessionOptions::device_memory_limit_bytes)
      .def_rw("seed", &SessionOptions::seed, nb::for_setter(nb::arg("value").none()))
      .def_rw("max_growing_bytes", &SessionOptions::max_growing_bytes)
      .def_rw("without_passes", &SessionOptions::without_passes)
      .def_rw("tune", &SessionOptions::tune)
      .def_rw("tuning_file", &SessionOptions::tuning_file);
}

Priority parse_priority(const std::string& name) {
  if (name == "background") return Priority::background;
  if (name == "realtime") return Priority::realtime;
  require(name == "standard", ErrorKind::invalid_argument,
          "there is no priority '{}'; use 'background', 'standard' or 'realtime'", name);
  return Priority::standard;
}

const char* name_of_priority(Priority priority) {
  return priority == Priority::background ? "background" : priority == Priority::realtime ? "realtime" : "standard";
}

std::int64_t time_limit_from(double seconds) {
  require(seconds >= 0 && seconds < 9e9, ErrorKind::invalid_argument, "a time limit of {} s has no meaning", seconds);
  return static_cast<std::int64_t>(seconds * 1e9);
}

void bind_run_options(nb::module_& module) {
  nb::class_<Cancellation>(module, "Cancellation", "Stops a run from another thread: see RunOptions.cancellation.")
      .def("__init__", [](Cancellation* self) { new (self) Cancellation(); })
      .def("cancel", &Cancellation::cancel)
      .def("__repr__",
           [](const Cancellation& self) {
             return self.flag().load() ? "<tessera.Cancellation: cancelled>" : "<tessera.Cancellation>";
           })
      .def_prop_ro("is_cancelled", [](const Cancellation& self) { return self.flag().load(); });
  nb::class_<PyRunOptions>(
      module, "RunOptions",
      "How one run is made. `seed` decides what random operators draw; without one the session's seed does. "
      "`time_limit_s`: after that long the run raises OverBudget; 0 is no limit. `priority`: "
      "'background', 'standard' or 'realtime', which goes first where cores are short. "
      "`cancellation`: stops the run from another thread.")
      .def(
          "__init__",
          [](PyRunOptions* self, std::optional<std::uint64_t> seed, double time_limit_s, const std::string& priority,
             std::shared_ptr<Cancellation> cancellation) {
            PyRunOptions made;
            made.options.seed = seed;
            made.options.time_limit_ns = time_limit_from(time_limit_s);
            made.options.priority = parse_priority(priority);
            made.cancellation = std::move(cancellation);
            new (self) PyRunOptions(std::move(made));
          },
          nb::kw_only(), "seed"_a.none() = nb::none(), "time_limit_s"_a = 0.0, "priority"_a = "standard",
          "cancellation"_a.none() = nb::none())
      .def("__repr__",
           [](const PyRunOptions& self) {
             return fmt::format("tessera.RunOptions(seed={}, time_limit_s={}, priority='{}'{})",
                                self.options.seed ? std::to_string(*self.options.seed) : "None",
                                static_cast<double>(self.options.time_limit_ns) * 1e-9,
                                name_of_priority(self.options.priority),
                                self.cancellation != nullptr ? ", cancellation=…" : "");
           })
      .def_prop_rw(
          "seed", [](const PyRunOptions& self) { return self.options.seed; },
          [](PyRunOptions& self, std::optional<std::uint64_t> seed) { self.options.seed = seed; },
          nb::for_setter(nb::arg("value").none()))
      .def_prop_rw(
          "time_limit_s",
          [](const PyRunOptions& self) { return static_cast<double>(self.options.time_limit_ns) * 1e-9; },
          [](PyRunOptions& self, double seconds) { self.options.time_limit_ns = time_limit_from(seconds); })
      .def_prop_rw(
          "priority", [](const PyRunOptions& self) { return static_cast<int>(self.options.priority); },
          [](PyRunOptions& self, const std::string& name) { self.options.priority = parse_priority(name); })
      .def_prop_rw(
          "cancellation", [](const PyRunOptions& self) { return self.cancellation; },
          [](PyRunOptions& self, std::shared_ptr<Cancellation> given) { self.cancellation = std::move(given); },
          nb::for_setter(nb::arg("value").none()));
}

}  // namespace

void bind_session(nb::module_& module) {
  bind_session_options(module);
  bind_run_options(module);
  module.def("optional_passes", &optional_passes);
  nb::class_<PySession>(module, "Session")
      .def(nb::new_(&make_session), "model"_a, "options"_a)
      .def_prop_ro("model", [](const PySession& self) { return self.model(); })
      .def("run", &run, "feeds"_a, "outputs"_a.none() = nb::none(), "options"_a.none() = nb::none())
      .def("run_into", &run_into, "feeds"_a, "into"_a, "options"_a.none() = nb::none())
      .def("timed_run", &timed_run, "feeds"_a, "outputs"_a.none() = nb::none(), "options"_a.none() = nb::none())
      .def("trace", &trace, "feeds"_a, "name"_a)
      .def("memory", &memory_dict)
      .def_prop_ro("draws_random_numbers", [](PySession& self) { return self.session().draws_random_numbers(); })
      .def(
          "set_seed", [](PySession& self, std::uint64_t seed) { self.session().set_seed(seed); }, "seed"_a)
      .def("trim", [](PySession& self) { self.session().trim(); })
      .def(
          "describe_plan",
          [](PySession& self, nb::dict feeds, bool reasons) {
            return self.session().describe_plan(self.inputs_from(std::move(feeds)), reasons);
          },
          "feeds"_a, "reasons"_a = false)
      .def("variable_names", [](PySession& self) { return self.session().variables()->names(); })
      .def(
          "variable",
          [](PySession& self, const std::string& name) { return numpy_from_tensor(self.session().variable(name)); },
          "name"_a)
      .def(
          "set_variable",
          [](PySession& self, const std::string& name, nb::object value) {
            const Tensor tensor = tensor_from_python(value, DType::undefined, "variable '" + name + "'");
            const WithoutGil released;
            self.session().set_variable(name, tensor);
          },
          "name"_a, "value"_a);
}

}  // namespace tessera::python
