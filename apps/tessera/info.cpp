// tessera info: what a model is, and how it would run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "common.h"
#include "io/package.h"
#include "report/model_info.h"
#include "tessera/optimise.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

struct Options {
  ModelOptions model;
  bool json = false, plan = false;
};

constexpr std::size_t kMostListBytes = 1000;

// A name from the file.
std::string printed(const std::string& name) { return base::printable(base::shown(name)); }

void print_values(const char* title, const std::vector<ValueDescription>& values) {
  for (const ValueDescription& value : values) fmt::print("{:<10} {}: {}\n", title, printed(value.name), base::printable(base::shortened(value.type, kMostListBytes)));
}

void print_info(const Model& model, const report::ModelInfo& info) {
  print_values("input", model.inputs());
  print_values("output", model.outputs());
  if (!info.symbols.empty()) fmt::print("{:<10} {} (fix them with --dim NAME=N; figures below count each as 1)\n", "symbols", base::printable(base::shortened(fmt::format("{}", fmt::join(info.symbols, ", ")), kMostListBytes)));
  for (const auto& [field, count] : info.ignored) fmt::print("{:<10} {} ({})\n", "ignored", field, count);
  fmt::print("{:<10} {}, constants {}\n", "parameters", base::format_count(static_cast<double>(info.parameters)), base::format_bytes(info.constant_bytes));
  if (!info.why_no_work.empty()) fmt::print("{:<10} not known: it does not run with symbols of 1 (fix them with --dim): {}\n", "one run", base::printable(info.why_no_work));
  else fmt::print("{:<10} {} operations, {} read and written (after folding constants)\n", "one run", base::format_count(info.operations), base::format_bytes(static_cast<std::int64_t>(info.bytes)));
  if (info.nodes_without_cost > 0) fmt::print("{:<10} {} nodes have shapes that depend on data, or subgraphs, and are not counted\n", "", info.nodes_without_cost);
  fmt::print("{:<10} {} nodes\n", "operators", info.nodes);
  std::vector<std::pair<std::string, std::int64_t>> counts(info.operator_counts.begin(), info.operator_counts.end());
  std::stable_sort(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [op, count] : counts) fmt::print("{:>12} x {}\n", count, printed(op));
}

void print_package(const io::PackageOrigin& package) {
  const io::PackageInfo& info = package.info;
  fmt::print("{:<10} by Tessera {}, for {} with {}, precision {}, {}\n", "package", printed(info.tessera_version), printed(info.device), printed(info.instruction_set), printed(info.precision),
             info.ready ? "shapes fixed" : "for any shapes");
  for (const io::Section& section : package.sections) fmt::print("{:>12} {}\n", printed(section.name), base::format_bytes(static_cast<std::int64_t>(section.stored_bytes)));
  fmt::print("{:<10} {} packed for kernels, {}; all checksums agree\n", "weights", package.packings->size(), base::format_bytes(package.packings->bytes()));
  if (!info.without.empty()) fmt::print("{:<10} {}\n", "without", base::printable(base::shortened(fmt::format("{}", fmt::join(info.without, ", ")), kMostListBytes)));
}

void run(const Options& options) {
  const Model model = load_model(options.model);
  if (model.package() != nullptr) verify_package(options.model.model);
  if (model.package() != nullptr && !options.json) print_package(*model.package());
  if (options.json) fmt::print("{}\n", report::model_info_json(model, report::describe_model(model), options.model.model));
  else print_info(model, report::describe_model(model));
  if (!options.plan) return;
  Session session(model, session_options(options.model));
  const std::string plan = session.describe_plan(read_inputs(model, "", {}, options.model), true);
  if (options.json) fmt::print(stderr, "{}", plan);
  else fmt::print("\nplan for device {}:\n{}", options.model.device, plan);
}

}  // namespace

void add_info(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("info", "Describe a model: signature, operators, size, work, plan; of a .tsr file also its sections, after checking all checksums");
  add_model_options(*verb, options->model);
  verb->add_flag("--json", options->json, "Print as JSON (with --plan, the plan goes to standard error)");
  verb->add_flag("--plan", options->plan, "Print each step with its kernel, why others were passed over, and the memory plan");
  add_run_options(*verb, options->model);
  verb->footer("Examples:\n  tessera info model.onnx\n  tessera info model.onnx --plan --dim batch=4");
  verb->callback([options] { run(*options); });
}

}  // namespace tessera::apps
