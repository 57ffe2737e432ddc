#include "generation_explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/numbers/units.h"
#include "base/text.h"
#include "generate/language_source.h"
#include "report/explain/explain_words.h"
#include "report/values/json_text.h"

namespace tessera::apps {
namespace {

std::vector<OperatorSum> kinds_of(const cost::Evaluation& evaluation) {
  struct Sum {
    OperatorSum kind;
    std::map<cost::Bound, double> seconds;
  };
  std::map<std::string, Sum> sums;
  for (const cost::Layer& layer : evaluation.layers) {
    const cost::Estimate& estimate = layer.estimate;
    if (estimate.bound == cost::Bound::none) continue;
    Sum& sum = sums[layer.work.op];
    sum.kind.op = layer.work.op;
    ++sum.kind.count;
    sum.kind.operations += estimate.operations;
    sum.kind.bytes += estimate.bytes;
    sum.kind.seconds += estimate.seconds;
    sum.seconds[estimate.bound] += estimate.seconds;
  }
  std::vector<OperatorSum> kinds;
  for (auto& [op, sum] : sums) {
    const auto by_seconds = [](const auto& entry) { return entry.second; };
    sum.kind.bound = std::ranges::max_element(sum.seconds, {}, by_seconds)->first;
    kinds.push_back(std::move(sum.kind));
  }
  std::ranges::sort(kinds, std::greater<>(), &OperatorSum::seconds);
  return kinds;
}

StepExplanation explain_step(const std::string& name, const generate::LanguageSource& source, std::int64_t rows,
                             const GenerationExplainOptions& options) {
  generate::LanguageStepOptions sizes = options.step;
  sizes.context = sizes.cache_tokens = options.depth + rows;
  sizes.package = source.package;
  StepExplanation step;
  step.name = name;
  step.rows = rows;
  step.depth = options.depth;
  step.explanation =
      report::explain(generate::step_model(*source.values, *source.weights, sizes, rows), name, options.explain);
  const cost::Evaluation& evaluation = step.explanation.devices[0].evaluation;
  step.kinds = kinds_of(evaluation);
  step.bytes = evaluation.total.bytes;
  step.memory_seconds = step.bytes / evaluation.device.bandwidth;
  return step;
}

std::string step_text(const StepExplanation& step) {
  const double seconds = step.seconds();
  std::string text = fmt::format(
      "{}: {} token{} after {}\n"
      "  memory    {} a step, {} a token; {} at the bandwidth of the memory: at most {:.1f} tokens/s\n"
      "  predicted {}: {:.1f} tokens/s, {} of memory's speed\n",
      step.name, step.rows, step.rows == 1 ? "" : "s", step.depth, report::bytes_text(step.bytes),
      report::bytes_text(step.bytes / static_cast<double>(step.rows)), report::time_text(step.memory_seconds),
      step.most_tokens_per_second(), report::time_text(seconds), step.tokens_per_second(),
      report::percent(step.memory_seconds / seconds));
  text += fmt::format("  {:>10} {:>6} {:<10} {:>9} {:>12} {:>7}  {}\n", "predicted", "share", "bound by", "ops/byte",
                      "bytes", "layers", "operator");
  for (const OperatorSum& kind : step.kinds)
    text += fmt::format("  {:>10} {:>6} {:<10} {:>9.2f} {:>12} {:>7}  {}\n", report::time_text(kind.seconds),
                        report::percent(kind.seconds / seconds), cost::name_of(kind.bound),
                        kind.bytes > 0 ? kind.operations / kind.bytes : 0, report::bytes_text(kind.bytes), kind.count,
                        base::printable(base::shown(kind.op)));
  return text;
}

nlohmann::json step_json(const StepExplanation& step) {
  nlohmann::json kinds = nlohmann::json::array();
  for (const OperatorSum& kind : step.kinds)
    kinds.push_back({{"operator", kind.op},
                     {"layers", kind.count},
                     {"seconds", kind.seconds},
                     {"operations", kind.operations},
                     {"bytes", kind.bytes},
                     {"bound", cost::name_of(kind.bound)}});
  const cost::Total& total = step.explanation.devices[0].evaluation.total;
  return {{"step", step.name},
          {"rows", step.rows},
          {"depth", step.depth},
          {"bytes", step.bytes},
          {"bytes_per_token", step.bytes / static_cast<double>(step.rows)},
          {"operations", total.operations},
          {"memory_seconds", step.memory_seconds},
          {"predicted_seconds", step.seconds()},
          {"most_tokens_per_second", step.most_tokens_per_second()},
          {"predicted_tokens_per_second", step.tokens_per_second()},
          {"bound", cost::name_of(total.bound)},
          {"operators", std::move(kinds)}};
}

}  // namespace

GenerationExplanation explain_generation(const std::filesystem::path& path, const std::string& name,
                                         const GenerationExplainOptions& options) {
  require(
      options.depth >= 0 && options.prompt_tokens >= 1 && options.prompt_tokens <= generate::LanguageStep::kMostRows,
      ErrorKind::invalid_argument, "a prompt of {} tokens after {}, expected 1 to {} after 0 or more",
      options.prompt_tokens, options.depth, generate::LanguageStep::kMostRows);
  const generate::LanguageSource source = generate::source_of(generate::open_language_files(path));
  try {
    return {
        name,
        source.values->architecture(),
        {explain_step("decoding", source, 1, options), explain_step("prompt", source, options.prompt_tokens, options)}};
  } catch (Error& error) {
    if (error.context().empty()) error.add_context("file " + path.string());
    throw;
  }
}

std::string generation_text(const GenerationExplanation& explanation) {
  const report::Explanation& first = explanation.steps[0].explanation;
  const cost::DeviceProfile& device = first.devices[0].evaluation.device;
  std::string text = fmt::format(
      "model     {}, {}\ndevice    {}: memory {}, arithmetic {}\n", base::printable(base::shown(explanation.model)),
      base::printable(base::shown(explanation.architecture)), device.title, report::count_text(device.bandwidth, "B/s"),
      report::rate_text(device.peak(report::counted_precision(first.devices[0].evaluation), true)));
  if (device.kind == cost::DeviceKind::cpu && !first.cpu_measured)
    text += "          These figures of the CPU are rough: run `tessera calibrate` once to measure it.\n";
  for (const StepExplanation& step : explanation.steps) text += '\n' + step_text(step);
  return text;
}

std::string generation_json(const GenerationExplanation& explanation) {
  const report::Explanation& first = explanation.steps[0].explanation;
  const cost::DeviceProfile& device = first.devices[0].evaluation.device;
  nlohmann::json steps = nlohmann::json::array();
  for (const StepExplanation& step : explanation.steps) steps.push_back(step_json(step));
  return report::json_text({{"model", explanation.model},
                            {"architecture", explanation.architecture},
                            {"device",
                             {{"name", device.name},
                              {"title", device.title},
                              {"bandwidth", device.bandwidth},
                              {"measured", first.cpu_measured}}},
                            {"steps", std::move(steps)}},
                           2);
}

}  // namespace tessera::apps
