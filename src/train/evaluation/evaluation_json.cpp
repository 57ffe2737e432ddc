#include "train/evaluation/evaluation_json.h"

#include <cmath>

namespace tessera::train {
namespace {

using nlohmann::ordered_json;

ordered_json number_or_null(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}
ordered_json number_or_null(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

}  // namespace

void add_evaluation(ordered_json& json, const EvaluationReport& report) {
  json[report.data + "_" + report.metric] = number_or_null(report.value);
  for (const auto& [name, value] : report.metrics) json[report.data + "_" + name] = number_or_null(value);
  json[report.data + "_loss"] = number_or_null(report.loss);
  json["samples"] = report.samples;
  json["skipped_samples"] = report.skipped_samples;
}

void add_classes(ordered_json& json, const EvaluationReport& report, std::size_t most) {
  if (!report.classes || report.classes->classes.size() > most) return;
  const std::size_t count = report.classes->classes.size();
  json["classes"] = ordered_json::array();
  json["confusion"] = ordered_json::array();
  for (std::size_t i = 0; i < count; ++i) {
    const ClassReport::Figures& each = report.classes->classes[i];
    json["classes"].push_back({{"name", each.name},
                               {"precision", number_or_null(each.precision)},
                               {"recall", number_or_null(each.recall)},
                               {"f1", number_or_null(each.f1)},
                               {"support", each.support}});
    const auto row = report.classes->confusion.begin() + static_cast<std::ptrdiff_t>(i * count);
    json["confusion"].push_back(std::vector<std::int64_t>(row, row + static_cast<std::ptrdiff_t>(count)));
  }
}

std::string class_names_text(const std::vector<std::string>& names) {
  return ordered_json(names).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace tessera::train
