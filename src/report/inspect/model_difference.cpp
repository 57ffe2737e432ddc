#include "report/inspect/model_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "io/package.h"
#include "ir/graph.h"
#include "ops/core/infer.h"
#include "report/inspect/value_pairs.h"
#include "report/values/json_text.h"
#include "runtime/run/evaluate.h"

namespace tessera::report {
namespace {

std::string shown(const std::string& name) {
  return base::printable(base::shown(name));
}

// The real numbers that the integers of a quantised model represent.
ir::ValueId dequantised(ir::Graph& graph, ir::ValueId value) {
  const Quantisation quantisation = *quantisation_of(graph, value);
  std::vector<ir::ValueId> inputs{value, quantisation.scale};
  if (quantisation.zero.valid()) inputs.push_back(quantisation.zero);
  return graph.add_op("DequantizeLinear", std::move(inputs), quantisation.attributes, graph.fresh_name("dequantised"));
}

// The model with `wanted` as its outputs, and without the nodes that these do not need. `names` gets the outputs'
// names.
Model with_outputs(const Model& model, const std::vector<PairedValue>& wanted, std::vector<std::string>& names) {
  auto graph = std::make_shared<ir::Graph>(model.graph());
  std::vector<ir::ValueId> outputs;
  std::map<std::pair<std::string, bool>, ir::ValueId> known;
  for (const PairedValue& each : wanted) {
    const auto [entry, inserted] = known.try_emplace({each.name, each.dequantised});
    if (inserted) {
      entry->second = graph->find_value(each.name);
      if (each.dequantised) entry->second = dequantised(*graph, entry->second);
      outputs.push_back(entry->second);
    }
    names.push_back(graph->value(entry->second).name);
  }
  graph->set_outputs(std::move(outputs));
  graph->remove_dead_and_compact();
  ops::infer_graph(*graph);
  if (model.package() == nullptr) return Model(std::move(graph));
  const auto keep = std::make_shared<const Model>(model);
  return Model(std::move(graph), std::shared_ptr<const io::PackageOrigin>(keep, keep->package()));
}

// Maps the names of `ours` to those of `theirs`: equal ones, or else by position.
std::map<std::string, std::string> counterparts(const std::vector<ValueDescription>& ours,
                                                const std::vector<ValueDescription>& theirs, std::string_view what) {
  std::set<std::string> known;
  for (const ValueDescription& each : theirs) known.insert(each.name);
  const bool by_name =
      std::ranges::all_of(ours, [&](const ValueDescription& each) { return known.contains(each.name); });
  require(by_name || ours.size() == theirs.size(), ErrorKind::invalid_argument,
          "A has {} {}s and B has {}, and not all of A's names are among B's", ours.size(), what, theirs.size());
  std::map<std::string, std::string> pairs;
  for (std::size_t i = 0; i < ours.size(); ++i) pairs.emplace(ours[i].name, by_name ? ours[i].name : theirs[i].name);
  return pairs;
}

class Side {
 public:
  Side(const Model& model, SessionOptions options, NamedValues inputs)
      : model_(model), options_(std::move(options)), inputs_(std::move(inputs)) {}

  const Model& model() const { return model_; }
  // The wanted values, in their order.
  std::vector<Value> run(const std::vector<PairedValue>& wanted, const RunOptions& how) const {
    std::vector<std::string> names;
    const Model model = with_outputs(model_, wanted, names);
    const NamedValues outputs = Session(model, options_).run(inputs_, how);
    std::vector<Value> values;
    for (const std::string& name : names) values.push_back(outputs.find(name)->second);
    return values;
  }
  NamedValues run(const RunOptions& how) const { return Session(model_, options_).run(inputs_, how); }

  // The bytes of tensors by name, for the given inputs; 0 if they are not known ahead of a run.
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
      : options_(options),
        outputs_(counterparts(a.outputs(), b.outputs(), "output")),
        a_(a, options.a, inputs),
        b_(b, options.b, inputs_of_b(a, b, inputs)) {
    for (const ir::NodeId id : a.graph().order()) {
      const ir::Node& node = a.graph().node(id);
      for (const ir::ValueId output : node.outputs) {
        if (output.valid())
          makers_.emplace(a.graph().value(output).name, Maker{&node, static_cast<std::int64_t>(makers_.size()) + 1});
      }
    }
  }

  ModelDifference run() {
    NamedValues a = a_.run(options_.run), b;
    const NamedValues theirs = b_.run(options_.run);
    for (const auto& [ours, other] : outputs_) b.emplace(ours, theirs.find(other)->second);
    result_.runs = 1;
    for (OutputDifference& difference : output_differences(a, b, options_.closeness)) {
      const std::string name_b = outputs_.at(difference.name);
      add(std::move(difference), name_b, result_.outputs);
    }
    if (!options_.outputs_only) {
      for (const std::vector<ValuePair>& pairs : chunks()) compare(pairs);
    }
    sort_values(result_, DifferenceOrder::computed);
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

  void add(OutputDifference difference, std::string name_b, std::vector<ValueComparison>& into) const {
    const auto maker = makers_.find(difference.name);
    ValueComparison comparison{"", "", 0, std::move(difference), std::move(name_b)};
    if (maker != makers_.end()) {
      comparison.op = maker->second.node->op;
      comparison.node = maker->second.node->name;
      comparison.position = maker->second.position;
    }
    into.push_back(std::move(comparison));
  }

  void compare(const std::vector<ValuePair>& pairs) {
    std::vector<PairedValue> wanted_a, wanted_b;
    for (const ValuePair& pair : pairs) {
      wanted_a.push_back(pair.a);
      wanted_b.push_back(pair.b);
    }
    const std::vector<Value> values_a = a_.run(wanted_a, options_.run), values_b = b_.run(wanted_b, options_.run);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const NamedValues one_a{{pairs[i].a.name, values_a[i]}}, one_b{{pairs[i].a.name, values_b[i]}};
      add(std::move(output_differences(one_a, one_b, options_.closeness)[0]), pairs[i].b.name, result_.values);
    }
    ++result_.runs;
  }

  // The pairs of values, in groups that are small enough for one run to return.
  std::vector<std::vector<ValuePair>> chunks() {
    const std::map<std::string, std::int64_t> sizes_a = a_.sizes(), sizes_b = b_.sizes();
    ValuePairs all = pair_values(a_.model().graph(), b_.model().graph());
    result_.quantised = all.quantised;
    std::set<std::string> found_a, found_b;
    std::vector<std::vector<ValuePair>> groups;
    std::int64_t bytes = 0;
    for (ValuePair& pair : all.pairs) {
      found_a.insert(pair.a.name);
      found_b.insert(pair.b.name);
      if (outputs_.contains(pair.a.name)) continue;
      constexpr std::int64_t kReal = 4;  // bytes of the real number for each integer
      const std::int64_t more = std::max(sizes_a.at(pair.a.name) * (pair.a.dequantised ? kReal : 1),
                                         sizes_b.at(pair.b.name) * (pair.b.dequantised ? kReal : 1));
      if (groups.empty() || bytes + more > options_.most_bytes) {
        groups.emplace_back();
        bytes = 0;
      }
      groups.back().push_back(std::move(pair));
      bytes += more;
    }
    result_.only_in_a = static_cast<std::int64_t>(sizes_a.size() - found_a.size());
    result_.only_in_b = static_cast<std::int64_t>(sizes_b.size() - found_b.size());
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

std::string described(const ValueComparison& each) {
  return each.op.empty()     ? "no node"
         : each.node.empty() ? fmt::format("a {} node", each.op)
                             : fmt::format("node '{}' ({})", shown(each.node), each.op);
}

// Widths within a line: the figures come first, and this is left for the value and its operator.
constexpr std::size_t kNameBytes = 44, kOperatorBytes = 16;

std::string ratio(bool known, double value, int digits) {
  return known ? fmt::format("{:.{}f}", value, digits) : "-";
}

std::string table_head() {
  return fmt::format("  {:>7} {:>9} {:>10} {:>9} {:>8}  value\n", "SNR, dB", "cosine", "largest", "relative", "differ");
}

// The percentage of elements that differ, rounded such that 100% and 0% mean all and none.
std::string share(const OutputDifference& difference) {
  if (difference.elements == 0) return "-";
  const double percent =
      100.0 * static_cast<double>(difference.different_elements) / static_cast<double>(difference.elements);
  if (difference.different_elements > 0 && percent < 0.1) return "<0.1%";
  return difference.different_elements < difference.elements && percent > 99.9 ? ">99.9%"
                                                                               : fmt::format("{:.3g}%", percent);
}

std::string line(const ValueComparison& each) {
  const OutputDifference& difference = each.difference;
  const auto cut = [](const std::string& text, std::size_t bytes) {
    return base::printable(base::shortened(text, bytes));
  };
  std::string what = fmt::format("'{}'{}\n", cut(difference.name, kNameBytes),
                                 each.op.empty() ? "" : fmt::format(" ({})", cut(each.op, kOperatorBytes)));
  // A name that differs only by a quantiser's suffix is not shown.
  if (!each.name_b.empty() && !each.name_b.starts_with(difference.name) && !difference.name.starts_with(each.name_b))
    what += fmt::format("{:>50}in B '{}'\n", "", cut(each.name_b, kNameBytes));
  if (!difference.mismatch.empty()) return fmt::format("  {:<47}  {}", cut(difference.mismatch, 47), what);
  return fmt::format("  {:>7} {:>9} {:>10.4g} {:>9.3g} {:>8}  {}", ratio(difference.has_ratios, difference.snr_db, 1),
                     ratio(difference.has_ratios, difference.cosine, 6), difference.largest, difference.relative,
                     share(difference), what);
}

// One element of the first value that differs, with both numbers.
std::string first_element(const OutputDifference& difference) {
  if (!difference.mismatch.empty()) return fmt::format("  it is {}\n", difference.mismatch);
  if (difference.different_elements == 0) return "";
  return fmt::format("  {} of its {} elements differ, the first at {}: {:.9g} in A, {:.9g} in B\n",
                     difference.different_elements, difference.elements, place(difference), difference.first_a,
                     difference.first_b);
}

nlohmann::json number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(fmt::format("{}", value));
}

nlohmann::json to_json(const std::vector<ValueComparison>& list) {
  nlohmann::json result = nlohmann::json::array();
  for (const ValueComparison& each : list) {
    const OutputDifference& difference = each.difference;
    nlohmann::json entry{{"name", difference.name},
                         {"name_b", each.name_b},
                         {"op", each.op},
                         {"node", each.node},
                         {"same", difference.close},
                         {"identical", difference.identical},
                         {"mismatch", difference.mismatch},
                         {"largest", number(difference.largest)},
                         {"relative", number(difference.relative)},
                         {"elements", difference.elements},
                         {"different_elements", difference.different_elements}};
    entry["cosine"] = difference.has_ratios ? number(difference.cosine) : nlohmann::json();
    entry["snr_db"] = difference.has_ratios ? number(difference.snr_db) : nlohmann::json();
    if (difference.different_elements > 0)
      entry["first"] = {
          {"index", difference.first}, {"a", number(difference.first_a)}, {"b", number(difference.first_b)}};
    result.push_back(std::move(entry));
  }
  return result;
}

}  // namespace

bool ModelDifference::same() const {
  return first() == nullptr;
}

const ValueComparison* ModelDifference::first() const {
  const ValueComparison* earliest = nullptr;
  for (const std::vector<ValueComparison>* list : {&values, &outputs}) {
    for (const ValueComparison& each : *list) {
      if (!each.difference.close && (earliest == nullptr || each.position < earliest->position)) earliest = &each;
    }
  }
  return earliest;
}

ModelDifference compare_models(const Model& a, const Model& b, const NamedValues& inputs,
                               const ModelDifferenceOptions& options) {
  return Comparer(a, b, inputs, options).run();
}

void sort_values(ModelDifference& difference, DifferenceOrder order) {
  // The smallest ratio comes first. A value without ratios, because it cannot be compared, counts as the worst.
  const auto key = [order](const ValueComparison& each) {
    const OutputDifference& figures = each.difference;
    if (order == DifferenceOrder::computed) return static_cast<double>(each.position);
    if (!figures.mismatch.empty()) return -std::numeric_limits<double>::infinity();
    if (order == DifferenceOrder::largest) return -figures.largest;
    if (!figures.has_ratios)
      return figures.close ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
    return order == DifferenceOrder::snr ? figures.snr_db : figures.cosine;
  };
  for (std::vector<ValueComparison>* list : {&difference.outputs, &difference.values})
    std::ranges::stable_sort(*list, {}, key);
}

std::string headline(const ModelDifference& difference) {
  const std::string counts =
      fmt::format("{} outputs and {} values between", difference.outputs.size(), difference.values.size());
  const ValueComparison* first = difference.first();
  if (first == nullptr) return fmt::format("the same: {}", counts);
  return fmt::format("the first value that differs: '{}', made by {}", shown(first->difference.name),
                     described(*first));
}

std::string model_difference_text(const ModelDifference& difference, std::size_t most) {
  std::string text;
  const auto list = [&](const char* title, const std::vector<ValueComparison>& comparisons) {
    const std::size_t different = static_cast<std::size_t>(
        std::ranges::count_if(comparisons, [](const ValueComparison& each) { return !each.difference.close; }));
    if (different == 0) return;
    text += fmt::format("{} of {} {} differ:\n", different, comparisons.size(), title) + table_head();
    std::size_t listed = 0;
    for (const ValueComparison& each : comparisons) {
      if (each.difference.close || (most > 0 && listed == most)) continue;
      text += line(each);
      ++listed;
    }
    if (listed < different) text += fmt::format("  … {} more (--all lists them)\n", different - listed);
  };
  list("outputs", difference.outputs);
  list("values between", difference.values);
  if (difference.only_in_a + difference.only_in_b > 0)
    text += fmt::format("not compared, because the other model has no such value: {} values of A, {} of B\n",
                        difference.only_in_a, difference.only_in_b);
  text += headline(difference) + "\n";
  return difference.same() ? text : text + first_element(difference.first()->difference);
}

std::string model_difference_json(const ModelDifference& difference) {
  const ValueComparison* first = difference.first();
  return json_text({{"same", difference.same()},
                    {"first", first == nullptr ? nlohmann::json() : nlohmann::json(first->difference.name)},
                    {"outputs", to_json(difference.outputs)},
                    {"values", to_json(difference.values)},
                    {"only_in_a", difference.only_in_a},
                    {"only_in_b", difference.only_in_b},
                    {"quantised", difference.quantised},
                    {"runs", difference.runs}},
                   2);
}

}  // namespace tessera::report
