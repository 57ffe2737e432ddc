// tessera._core.Trainer.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "arrays.h"
#include "base/error.h"
#include "bindings.h"
#include "gil.h"
#include "report/html/training_page.h"
#include "tessera/train.h"
#include "train/run/run_log.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tessera::python {
namespace {

nb::dict step_dict(const StepReport& report) {
  nb::dict result;
  result["step"] = report.step;
  result["steps"] = report.steps;
  result["epoch"] = report.epoch;
  result["loss"] = report.loss;
  result["learning_rate"] = report.learning_rate;
  result["gradient_norm"] = report.gradient_norm;
  result["samples_per_s"] = report.samples_per_s;
  result["data_wait_share"] = report.data_wait_share;
  result["seconds"] = report.seconds;
  result["skipped"] = report.skipped;
  return result;
}

nb::dict evaluation_dict(const EvaluationReport& report) {
  nb::dict result;
  result["step"] = report.step;
  result["metric"] = python_text(report.metric);
  result["value"] = report.value;
  result["loss"] = report.loss;
  result["samples"] = report.samples;
  result["best"] = report.best;
  result["skipped_samples"] = report.skipped_samples;
  result["data"] = report.data;
  result["of_best"] = report.of_best;
  nb::dict metrics;
  for (const auto& [name, value] : report.metrics) metrics[python_text(name)] = value;
  result["metrics"] = metrics;
  if (!report.classes) return result;
  nb::list classes, confusion;
  const std::size_t count = report.classes->classes.size();
  for (std::size_t i = 0; i < count; ++i) {
    const ClassReport::Figures& each = report.classes->classes[i];
    nb::dict figures;
    figures["name"] = python_text(each.name);
    figures["precision"] = each.precision;
    figures["recall"] = each.recall;
    figures["f1"] = each.f1;
    figures["support"] = each.support;
    classes.append(figures);
    const auto row = report.classes->confusion.begin() + static_cast<std::ptrdiff_t>(i * count);
    confusion.append(std::vector<std::int64_t>(row, row + static_cast<std::ptrdiff_t>(count)));
  }
  result["classes"] = classes;
  result["confusion"] = confusion;
  return result;
}

nb::dict data_dict(const DataSummary& data) {
  nb::dict result;
  result["samples"] = data.samples;
  result["unreadable"] = data.unreadable;
  result["left_over"] = data.left_over;
  nb::list columns;
  for (const EncodedColumn& each : data.columns) {
    nb::dict column;
    column["name"] = python_text(each.name);
    column["encoding"] = python_text(each.encoding);
    column["numbers"] = each.numbers;
    column["missing"] = each.missing;
    column["description"] = python_text(each.description);
    columns.append(column);
  }
  result["columns"] = columns;
  nb::list classes;
  for (const std::string& name : data.classes) classes.append(python_text(name));
  result["classes"] = classes;
  return result;
}

nb::object optional_evaluation(const std::optional<EvaluationReport>& report) {
  return report ? nb::object(evaluation_dict(*report)) : nb::none();
}

nb::dict result_dict(const TrainingResult& training) {
  nb::dict result;
  result["steps"] = training.steps;
  result["samples"] = training.samples;
  result["loss"] = training.loss;
  result["evaluation"] = optional_evaluation(training.evaluation);
  result["best"] = optional_evaluation(training.best);
  result["test"] = optional_evaluation(training.test);
  result["best_test"] = optional_evaluation(training.best_test);
  result["seconds"] = training.seconds;
  result["peak_rss_bytes"] = training.peak_rss_bytes;
  result["skipped_steps"] = training.skipped_steps;
  result["skipped_samples"] = training.skipped_samples;
  result["interrupted"] = training.interrupted;
  result["stopped_early"] = training.stopped_early;
  return result;
}

std::map<std::string, Tensor> arrays_from(nb::handle given) {
  std::map<std::string, Tensor> arrays;
  if (given.is_none()) return arrays;
  for (const auto& [name, array] : nb::cast<nb::dict>(given)) {
    const std::string text = name_from_python(name, "the name of a field");
    arrays.emplace(text, tensor_from_python(array, DType::undefined, "field '" + text + "'"));
  }
  return arrays;
}

Trainer* make_trainer(nb::object model, const std::string& toml, const std::string& where,
                      const std::vector<std::string>& settings, nb::object train_arrays, nb::object test_arrays,
                      nb::object validation_arrays, bool overwrite) {
  TrainingConfig config = parse_training_config(toml, where, settings);
  config.overwrite = overwrite;
  if (!train_arrays.is_none()) config.data.train_arrays = arrays_from(train_arrays);
  if (!test_arrays.is_none()) config.data.test_arrays = arrays_from(test_arrays);
  if (!validation_arrays.is_none()) config.data.validation_arrays = arrays_from(validation_arrays);
  std::optional<Model> given;
  if (!model.is_none()) given = nb::cast<Model>(model);
  Trainer* made = nullptr;
  {
    const WithoutGil released;
    made = given ? new Trainer(*given, std::move(config)) : new Trainer(std::move(config));
  }
  pass_messages();
  return made;
}

// Calls a Python function with a training's report, in the thread that trains.
template <typename Report, typename Convert>
std::function<void(const Report&)> hook(const nb::object& function, Convert convert) {
  if (function.is_none()) return {};
  return [&function, convert](const Report& report) {
    const WithGil lock;
    function(convert(report));
  };
}

nb::dict run_training(Trainer& trainer, nb::object on_step, nb::object on_evaluation, nb::object on_checkpoint,
                      nb::object on_progress) {
  TrainingResult result;
  SignalScope scope;
  {
    TrainingHooks hooks;
    const auto tell_step = hook<StepReport>(on_step, step_dict);
    const auto tell_evaluation = hook<EvaluationReport>(on_evaluation, evaluation_dict);
    hooks.checkpoint = hook<std::string>(on_checkpoint, [](const std::string& path) { return python_text(path); });
    if (!on_progress.is_none())
      hooks.progress = [&](std::int64_t step, std::int64_t steps) {
        const WithGil lock;
        on_progress(step, steps);
      };
    hooks.cancellation = scope.cancellation();
    std::optional<report::TrainingPageFile> page;
    if (const std::filesystem::path output(trainer.config().output); !output.empty()) {
      train::LoggedReports logged = train::read_log(output / "log.jsonl", trainer.step());
      report::TrainingRecord record;
      record.title = output.filename().string();
      record.net = report::name_of_net(trainer.config().model, "a model of Python's");
      record.config = trainer.config();
      record.steps = std::move(logged.steps);
      record.evaluations = std::move(logged.evaluations);
      page.emplace((output / "report.html").string(), std::move(record));
      hooks.timings = &page->record().timings;
    }
    hooks.step = [&](const StepReport& line) {
      if (page) page->add(line);
      if (tell_step) tell_step(line);
    };
    hooks.evaluation = [&](const EvaluationReport& line) {
      if (page) page->add(line);
      if (tell_evaluation) tell_evaluation(line);
    };
    try {
      result = without_gil([&] {
        TrainingResult made = trainer.run(hooks);
        if (page) page->finish(made);
        return made;
      });
    } catch (const Error&) {
      scope.raise_pending();
      throw;
    }
  }
  pass_messages();
  scope.raise_pending();
  return result_dict(result);
}

}  // namespace

void bind_training(nb::module_& module) {
  nb::class_<Trainer>(module, "Trainer")
      .def(nb::new_(&make_trainer), "model"_a.none(), "toml"_a, "where"_a, "settings"_a, "train"_a.none(),
           "test"_a.none(), "validation"_a.none(), "overwrite"_a)
      .def(
          "resume",
          [](Trainer& self, nb::object path) {
            const std::string file = path_from_python(path);
            const WithoutGil released;
            self.resume(file);
          },
          "path"_a)
      .def("run", &run_training, "on_step"_a.none() = nb::none(), "on_evaluation"_a.none() = nb::none(),
           "on_checkpoint"_a.none() = nb::none(), "on_progress"_a.none() = nb::none())
      .def(
          "evaluate",
          [](Trainer& self, const std::string& data) {
            return evaluation_dict(interruptible([&](const Cancellation*) { return self.evaluate(data); }));
          },
          "data"_a = "test")
      .def("data", [](const Trainer& self) { return data_dict(self.data()); })
      .def("model", &Trainer::model)
      .def("notes", [](const Trainer& self) { return self.weights().notes; })
      .def("step_model", [](const Trainer& self) { return self.step_model(); })
      .def("save", [](const Trainer& self, nb::object path) { self.save(path_from_python(path)); }, "path"_a);
}

}  // namespace tessera::python
