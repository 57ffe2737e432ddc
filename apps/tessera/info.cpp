// tessera info: describes a model, and how it would run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/numbers/units.h"
#include "base/text.h"
#include "common.h"
#include "io/model_format.h"
#include "io/package.h"
#include "report/inspect/devices.h"
#include "report/inspect/language_file.h"
#include "report/inspect/model_info.h"
#include "report/inspect/model_outline.h"
#include "report/values/json_text.h"
#include "tessera/device.h"
#include "tessera/optimise.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

struct InfoOptions {
  ModelOptions model;
  std::string node;
  bool json = false, plan = false, nodes = false, weights = false, metadata = false, devices = false;
};

constexpr std::size_t kMostListBytes = 1000;

// A name from the file, safe to print.
std::string printed(const std::string& name) {
  return base::printable(base::shown(name));
}

void print_values(const char* title, const std::vector<ValueDescription>& values) {
  for (const ValueDescription& value : values)
    fmt::print("{:<10} {}: {}\n", title, printed(value.name),
               base::printable(base::shortened(value.type, kMostListBytes)));
}

void print_field(const char* title, const std::string& text) {
  if (!text.empty()) fmt::print("{:<10} {}\n", title, base::printable(base::shortened(text, 100)));
}

// Prints a property: shortened to one line, or with all of its lines if `whole`.
void print_property(const std::string& key, const std::string& text, bool whole) {
  if (!whole || text.find('\n') == std::string::npos) {
    std::string line = base::shortened(text, whole ? text.size() : 60);
    std::ranges::replace(line, '\n', ' ');
    const auto lines = std::ranges::count(text, '\n') + 1;
    fmt::print("{:<10} {} = {}{}\n", "property", printed(key), base::printable(line),
               lines > 1 ? fmt::format("  ({} lines; --metadata prints them)", lines) : "");
    return;
  }
  fmt::print("{:<10} {} =\n", "property", printed(key));
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    fmt::print("{}\n", base::printable(std::string_view(text).substr(begin, end - begin)));
    begin = end + 1;
  }
}

void print_metadata(const ModelMetadata& metadata, bool whole) {
  print_field("graph", metadata.graph_name);
  print_field("producer", fmt::format("{}{}{}", metadata.producer_name, metadata.producer_version.empty() ? "" : " ",
                                      metadata.producer_version));
  print_field("domain", metadata.domain);
  if (metadata.model_version != 0) print_field("version", std::to_string(metadata.model_version));
  std::vector<std::string> opsets;
  for (const auto& [domain, version] : metadata.opsets)
    opsets.push_back(fmt::format("{} {}", printed(domain), version));
  if (metadata.ir_version != 0)
    print_field("opsets", fmt::format("{}; IR version {}", fmt::join(opsets, ", "), metadata.ir_version));
  if (!metadata.doc_string.empty()) print_property("doc_string", metadata.doc_string, whole);
  for (const auto& [key, text] : metadata.properties) print_property(key, text, whole);
}

void print_info(const Model& model, const report::ModelInfo& info, bool whole_metadata) {
  if (!info.assumption.empty()) fmt::print("{}\n", base::printable(base::shortened(info.assumption, kMostListBytes)));
  print_metadata(model.metadata(), whole_metadata);
  print_values("input", model.inputs());
  print_values("output", model.outputs());
  if (!info.symbols.empty())
    fmt::print("{:<10} {} (fix them with --dim NAME=N)\n", "symbols",
               base::printable(base::shortened(fmt::format("{}", fmt::join(info.symbols, ", ")), kMostListBytes)));
  for (const auto& [field, count] : info.ignored) fmt::print("{:<10} {} ({})\n", "ignored", field, count);
  fmt::print("{:<10} {}, constants {}\n", "parameters", base::format_count(static_cast<double>(info.parameters)),
             base::format_bytes(info.constant_bytes));
  if (!info.why_no_work.empty()) fmt::print("{:<10} not known: {}\n", "one run", base::printable(info.why_no_work));
  else
    fmt::print("{:<10} {} operations, {} read and written (after folding constants)\n", "one run",
               base::format_count(info.operations), base::format_bytes(static_cast<std::int64_t>(info.bytes)));
  if (info.nodes_without_cost > 0)
    fmt::print("{:<10} {} nodes have shapes that depend on data, or subgraphs, and are not counted\n", "",
               info.nodes_without_cost);
  fmt::print("{:<10} {} nodes\n", "operators", info.nodes);
  std::vector<std::pair<std::string, std::int64_t>> counts(info.operator_counts.begin(), info.operator_counts.end());
  std::stable_sort(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [op, count] : counts) fmt::print("{:>12} x {}\n", count, printed(op));
}

void print_package(const io::PackageOrigin& package) {
  const io::PackageInfo& info = package.info;
  fmt::print("{:<10} by Tessera {}, for {} with {}, precision {}, {}\n", "package", printed(info.tessera_version),
             printed(info.device), printed(info.instruction_set), printed(info.precision),
             info.ready ? "shapes fixed" : "for any shapes");
  for (const io::Section& section : package.sections)
    fmt::print("{:>12} {}\n", printed(section.name),
               base::format_bytes(static_cast<std::int64_t>(section.stored_bytes)));
  fmt::print("{:<10} {} packed for kernels, {}; all checksums agree\n", "weights", package.packings->size(),
             base::format_bytes(package.packings->bytes()));
  if (!info.without.empty())
    fmt::print("{:<10} {}\n", "without",
               base::printable(base::shortened(fmt::format("{}", fmt::join(info.without, ", ")), kMostListBytes)));
}

report::ModelOutline outline_of(const InfoOptions& options, const Model& model) {
  return {io::read_outline(model_path(options.model.model)), model.graph()};
}

void print_node(const InfoOptions& options, const Model& model) {
  const report::ModelOutline outline = outline_of(options, model);
  if (options.json)
    fmt::print("{}\n", report::json_text(
                           {{"model", options.model.model}, {"nodes", report::node_json(outline, options.node)}}, 2));
  else fmt::print("{}", report::node_text(outline, options.node));
}

void print_lists(const InfoOptions& options, const Model& model) {
  if (!options.nodes && !options.weights) return;
  const report::ModelOutline outline = outline_of(options, model);
  if (options.nodes)
    fmt::print("\nnodes, as the file has them (Tessera runs operators in their newest forms)\n{}",
               report::nodes_text(outline));
  if (options.weights) fmt::print("\nweights\n{}", report::weights_text(outline));
}

void print_language_file(const InfoOptions& options) {
  require(
      options.node.empty() && !options.nodes && !options.plan, ErrorKind::invalid_argument,
      "'{}' is a language model's file, which has weights and no nodes; --weights, --metadata and --json describe it",
      options.model.model);
  const report::LanguageFileInfo info = report::describe_language_file(model_path(options.model.model));
  if (options.json)
    fmt::print("{}\n", report::json_text(report::language_file_json(info, model_title(options.model.model)), 2));
  else fmt::print("{}", report::language_file_text(info, options.weights, options.metadata));
}

// The devices of this machine, and that of --device if it is another one.
void print_devices(const InfoOptions& options) {
  describe_device(options.model.device);  // from here on a simulated device is one of this machine's
  const std::vector<DeviceDescription> all = devices();
  if (options.json) fmt::print("{}\n", report::devices_json(all));
  else fmt::print("{}", report::devices_text(all));
}

void run_info(const InfoOptions& options) {
  if (options.devices) return print_devices(options);
  if (options.model.model.empty()) throw CLI::RequiredError("MODEL");
  if (io::is_language_model(model_path(options.model.model))) return print_language_file(options);
  const Model model = load_model(options.model);
  if (!options.node.empty()) return print_node(options, model);
  if (model.package() != nullptr) verify_package(model_path(options.model.model));
  if (model.package() != nullptr && !options.json) print_package(*model.package());
  if (options.json) {
    const report::ModelOutline outline = outline_of(options, model);
    fmt::print("{}\n", report::model_info_json(model, report::describe_model(model), options.model.model, &outline));
  } else {
    print_info(model, report::describe_model(model), options.metadata);
    print_lists(options, model);
  }
  if (!options.plan) return;
  Session session(model, session_options(options.model));
  const std::string plan = session.describe_plan(read_inputs(model, "", {}, options.model), true);
  if (options.json) fmt::print(stderr, "{}", plan);
  else fmt::print("\nplan for device {} in {}:\n{}", options.model.device, name_of(session.precision()), plan);
}

}  // namespace

void add_info(CLI::App& app) {
  auto options = std::make_shared<InfoOptions>();
  CLI::App* verb = app.add_subcommand("info",
                                      "Describe a model: signature, operators, size, work, plan; of a .tsr file also "
                                      "its sections, after checking all checksums; of a language model's file its "
                                      "architecture, sizes, weights, tokenizer and chat template");
  add_model_options(*verb, options->model,
                    "an .onnx, .tsr, .gguf or .safetensors file, or a folder with .safetensors files");
  verb->get_option("MODEL")->required(false);  // --devices has none
  verb->add_flag("--nodes", options->nodes,
                 "List all nodes as the file has them: attributes, inputs and outputs with shapes, subgraphs");
  verb->add_option("--node", options->node,
                   "Show this node in full, with where inputs come from and outputs go to: its name, one of its "
                   "outputs, or #NUMBER");
  verb->add_flag("--weights", options->weights,
                 "List all weights: type, shape, bytes and the statistics of their elements");
  verb->add_flag("--metadata", options->metadata,
                 "Print the model's description and its properties whole, not only the beginning of each");
  verb->add_flag(
      "--json", options->json,
      "Print everything as JSON: nodes, weights and metadata too (with --plan, the plan goes to standard error)");
  verb->add_flag(
      "--devices", options->devices,
      "List the devices of this machine with their properties, and the one that --device names, instead of a "
      "model");
  verb->add_flag("--plan", options->plan,
                 "Print each step with its kernel, why others were passed over, and the memory plan");
  add_run_options(*verb, options->model);
  verb->footer(
      "Examples:\n  tessera info model.onnx\n  tessera info model.onnx --nodes --weights\n  tessera info model.onnx "
      "--node conv1\n  tessera info model.onnx --plan --dim batch=4\n  tessera info model.gguf --metadata\n  tessera "
      "info --devices --device simulated:h100-sxm");
  verb->callback([options] { run_info(*options); });
}

}  // namespace tessera::apps
