#include "report/model_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "io/package.h"
#include "ir/graph.h"
#include "ops/infer.h"
#include "report/json_text.h"
#include "runtime/evaluate.h"

namespace tessera::report {
namespace {

std::string shown(const std::string& name) { return base::printable(base::shown(name)); }

// The model with other outputs; what they do not need is gone.
Model with_outputs(const Model& model, const std::vector<std::string>& names) {
  auto graph = std::make_shared<ir::Graph>(model.graph());
  std::vector<ir::ValueId> outputs;
  for (const std::string& name : names) outputs.push_back(graph->find_value(name));
  graph->set_outputs(std::move(outputs));
  graph->remove_dead_and_compact();
  if (model.package() == nullptr) return Model(std::move(graph));
  const auto keep = std::make_shared<const Model>(model);
  return Model(std::move(graph), std::shared_ptr<const io::PackageOrigin>(keep, keep->package()));
}

// Names of `theirs` by those of `ours`: equal ones, or by position.
std::map<std::string, std::string> counterparts(const std::vector<ValueDescription>& ours, const std::vector<ValueDescription>& theirs, std::string_view what) {
  std::set<std::string> known;
  for (const ValueDescription& each : theirs) known.insert(each.name);
  const bool by_name = std::ranges::all_of(ours, [&](const ValueDescription& each) { return known.contains(each.name); });
  require(by_name || ours.size() == theirs.size(), ErrorKind::invalid_argument, "A has {} {}s and B has {}, and not all of A's names are among B's", ours.size(), what, theirs.size());
  std::map<std::string, std::string> pairs;
  for (std::size_t i = 0; i < ours.size(); ++i) pairs.emplace(ours[i].name, by_name ? ours[i].name : theirs[i].name);
  return pairs;
}

class Side {
 public:
  Side(const Model& model, SessionOptions options, NamedValues inputs) : model_(model), options_(std::move(options)), inputs_(std::move(inputs)) {}

  const Model& model() const { return model_; }
  NamedValues run(const std::vector<std::string>& outputs, const RunOptions& how) const { return Session(with_outputs(model_, outputs), options_).run(inputs_, how); }
  NamedValues run(const RunOptions& how) const { return Session(model_, options_).run(inputs_, how); }

  // Bytes of tensors by name, as the inputs make them; 0 where that is not known ahead.
  std::map<std::string, std::int64_t> sizes() const {
    ir::Graph graph = model_.graph();
    for (const ir::ValueId id : graph.inputs()) {
      const auto given = inputs_.find(graph.value(id).name);
      if (given != inputs_.end() && given->second.is_tensor()) graph.value(id).type = runtime::type_of(given->second);
    }
    ops::infer_graph(graph);
    std::map<std::string, std::int64_t> bytes;
    for (const ir::NodeId node : graph.order()) {
      for (const ir::ValueId id : graph.node(node).outputs) {
        if (!id.valid()) continue;
        const ir::ValueInfo& info = graph.value(id);
        const std::optional<Shape> shape = info.type.is_tensor() ? info.type.shape() : std::nullopt;
        bytes[info.name] = shape && info.type.dtype != DType::undefined ? byte_count(info.type.dtype, *shape) : 0;
      }
    }
    return bytes;
  }

 private:
  const Model& model_;
  SessionOptions options_;
  NamedValues inputs_;
};

class Comparer {
 public:
  Comparer(const Model& a, const Model& b, const NamedValues& inputs, const ModelDifferenceOptions& options)
      : options_(options), outputs_(counterparts(a.outputs(), b.outputs(), "output")), a_(a, options.a, inputs), b_(b, options.b, inputs_of_b(a, b, inputs)) {
    for (const ir::NodeId id : a.graph().order()) {
      const ir::Node& node = a.graph().node(id);
      for (const ir::ValueId output : node.outputs) {
        if (output.valid()) makers_.emplace(a.graph().value(output).name, Maker{&node, static_cast<std::int64_t>(makers_.size()) + 1});
      }
    }
  }

  ModelDifference run() {
    NamedValues a = a_.run(options_.run), b;
    const NamedValues theirs = b_.run(options_.run);
    for (const auto& [ours, other] : outputs_) b.emplace(ours, theirs.find(other)->second);
    result_.runs = 1;
    compare(a, b, result_.outputs);
    if (!options_.outputs_only) {
      for (const std::vector<std::string>& names : chunks()) {
        compare(a_.run(names, options_.run), b_.run(names, options_.run), result_.values);
        ++result_.runs;
      }
    }
    return std::move(result_);
  }

 private:
  static NamedValues inputs_of_b(const Model& a, const Model& b, const NamedValues& inputs) {
    NamedValues renamed;
    for (const auto& [ours, other] : counterparts(a.inputs(), b.inputs(), "input")) {
      if (const auto given = inputs.find(ours); given != inputs.end()) renamed.emplace(other, given->second);
    }
    return renamed;
  }

  void compare(const NamedValues& a, const NamedValues& b, std::vector<ValueComparison>& into) const {
    for (OutputDifference& difference : output_differences(a, b, options_.closeness)) {
      const auto maker = makers_.find(difference.name);
      if (maker == makers_.end()) into.push_back({"", "", 0, std::move(difference)});
      else into.push_back({maker->second.node->op, maker->second.node->name, maker->second.position, std::move(difference)});
    }
    std::ranges::stable_sort(into, {}, &ValueComparison::position);
  }

  // Names that both have, in groups that are no larger than may be handed out at once.
  std::vector<std::vector<std::string>> chunks() {
    const std::map<std::string, std::int64_t> sizes_a = a_.sizes(), sizes_b = b_.sizes();
    std::vector<std::vector<std::string>> groups;
    std::int64_t bytes = 0, shared = 0;
    for (const ir::NodeId id : a_.model().graph().order()) {
      for (const ir::ValueId output : a_.model().graph().node(id).outputs) {
        if (!output.valid()) continue;
        const std::string& name = a_.model().graph().value(output).name;
        const auto other = sizes_b.find(name);
        if (other == sizes_b.end()) continue;
        ++shared;
        if (outputs_.contains(name)) continue;
        const std::int64_t more = std::max(sizes_a.at(name), other->second);
        if (groups.empty() || bytes + more > options_.most_bytes) {
          groups.emplace_back();
          bytes = 0;
        }
        groups.back().push_back(name);
        bytes += more;
      }
    }
    result_.only_in_a = static_cast<std::int64_t>(sizes_a.size()) - shared;
    result_.only_in_b = static_cast<std::int64_t>(sizes_b.size()) - shared;
    return groups;
  }

  const ModelDifferenceOptions& options_;
  const std::map<std::string, std::string> outputs_;
  const Side a_, b_;
  struct Maker {
    const ir::Node* node;
    std::int64_t position;
  };
  std::map<std::string, Maker, std::less<>> makers_;
  ModelDifference result_;
};

std::string place(const OutputDifference& difference) {
  std::string text;
  for (const std::int64_t index : difference.first) text += (text.empty() ? "" : ", ") + std::to_string(index);
  return "[" + text + "]";
}

std::string described(const ValueComparison& each) { return each.op.empty() ? "no node" : each.node.empty() ? fmt::format("a {} node", each.op) : fmt::format("node '{}' ({})", shown(each.node), each.op); }

std::string line(const ValueComparison& each) {
  const OutputDifference& difference = each.difference;
  const std::string what = fmt::format("'{}', made by {}", shown(difference.name), described(each));
  if (!difference.mismatch.empty()) return fmt::format("{}: {}\n", what, difference.mismatch);
  std::string text = fmt::format("{}: largest difference {:.3g}, {:.3g} of the largest value", what, difference.largest, difference.relative);
  if (difference.different_elements > 0) text += fmt::format("; {} of {} elements differ, the first at {}: {:.9g} and {:.9g}", difference.different_elements, difference.elements, place(difference), difference.first_a, difference.first_b);
  return text + "\n";
}

nlohmann::json number(double value) { return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(fmt::format("{}", value)); }

nlohmann::json to_json(const std::vector<ValueComparison>& list) {
  nlohmann::json result = nlohmann::json::array();
  for (const ValueComparison& each : list) {
    const OutputDifference& difference = each.difference;
    nlohmann::json entry{{"name", difference.name}, {"op", each.op}, {"node", each.node}, {"same", difference.close}, {"identical", difference.identical}, {"mismatch", difference.mismatch},
                         {"largest", number(difference.largest)}, {"relative", number(difference.relative)}, {"elements", difference.elements}, {"different_elements", difference.different_elements}};
    if (difference.different_elements > 0) entry["first"] = {{"index", difference.first}, {"a", number(difference.first_a)}, {"b", number(difference.first_b)}};
    result.push_back(std::move(entry));
  }
  return result;
}

}  // namespace

bool ModelDifference::same() const { return first() == nullptr; }

const ValueComparison* ModelDifference::first() const {
  const ValueComparison* earliest = nullptr;
  for (const std::vector<ValueComparison>* list : {&values, &outputs}) {
    for (const ValueComparison& each : *list) {
      if (!each.difference.close && (earliest == nullptr || each.position < earliest->position)) earliest = &each;
    }
  }
  return earliest;
}

ModelDifference compare_models(const Model& a, const Model& b, const NamedValues& inputs, const ModelDifferenceOptions& options) { return Comparer(a, b, inputs, options).run(); }

std::string headline(const ModelDifference& difference) {
  const std::string counts = fmt::format("{} outputs and {} values between", difference.outputs.size(), difference.values.size());
  const ValueComparison* first = difference.first();
  if (first == nullptr) return fmt::format("the same: {}", counts);
  return fmt::format("the first value that differs: '{}', made by {}", shown(first->difference.name), described(*first));
}

std::string model_difference_text(const ModelDifference& difference, std::size_t most) {
  std::string text;
  const auto list = [&](const char* title, const std::vector<ValueComparison>& comparisons) {
    const std::size_t different = static_cast<std::size_t>(std::ranges::count_if(comparisons, [](const ValueComparison& each) { return !each.difference.close; }));
    if (different == 0) return;
    text += fmt::format("{} of {} {} differ:\n", different, comparisons.size(), title);
    std::size_t listed = 0;
    for (const ValueComparison& each : comparisons) {
      if (each.difference.close || (most > 0 && listed == most)) continue;
      text += "  " + line(each);
      ++listed;
    }
    if (listed < different) text += fmt::format("  … {} more (--all lists them)\n", different - listed);
  };
  list("outputs", difference.outputs);
  list("values between", difference.values);
  if (difference.only_in_a + difference.only_in_b > 0) text += fmt::format("not compared, because the other has no value of that name: {} values of A, {} of B\n", difference.only_in_a, difference.only_in_b);
  return text + headline(difference) + "\n";
}

std::string model_difference_json(const ModelDifference& difference) {
  const ValueComparison* first = difference.first();
  return json_text({{"same", difference.same()}, {"first", first == nullptr ? nlohmann::json() : nlohmann::json(first->difference.name)}, {"outputs", to_json(difference.outputs)}, {"values", to_json(difference.values)},
                    {"only_in_a", difference.only_in_a}, {"only_in_b", difference.only_in_b}, {"runs", difference.runs}}, 2);
}

}  // namespace tessera::report
