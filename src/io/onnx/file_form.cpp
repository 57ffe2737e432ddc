#include "io/onnx/file_form.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/error.h"
#include "io/onnx/downgrade/downgrade.h"
#include "io/onnx/downgrade/form_version.h"
#include "io/onnx/upgrade/upgrade.h"
#include "ops/op_table.h"

namespace tessera::io {
namespace {

// The opset of graphs that were not read from a file.
constexpr std::int64_t kUsualOpset = 17;

void add_dtype_need(const ir::ValueType& type, std::vector<FormNeed>& needs) {
  if (const std::int64_t version = dtype_version(type.dtype); version > 1)
    needs.push_back({fmt::format("element type {}", name_of(type.dtype)), version});
  if (type.element) add_dtype_need(*type.element, needs);
}

// The opset that element types need, whatever operators use them.
void add_dtype_needs(const ir::Graph& graph, std::vector<FormNeed>& needs) {
  for (std::size_t i = 0; i < graph.value_count(); ++i)
    add_dtype_need(graph.value({static_cast<std::int32_t>(i)}).type, needs);
  for (const ir::NodeId id : graph.order()) {
    for (const auto& [name, subgraph] : ir::subgraphs_of(graph.node(id))) add_dtype_needs(*subgraph, needs);
  }
}

std::string domain_of(const ir::Node& node) {
  const std::size_t border = node.op.find("::");
  return border == std::string::npos ? "" : node.op.substr(0, border);
}

// Versions of other domains, which have no older forms.
class OtherDomains {
 public:
  explicit OtherDomains(const ir::Graph& whole) : whole_(whole) {}

  void add(const ir::Graph& graph) {
    for (const ir::NodeId id : graph.order()) {
      const ir::Node& node = graph.node(id);
      if (const std::string domain = domain_of(node); !domain.empty()) add(graph, node, domain);
      for (const auto& [name, subgraph] : ir::subgraphs_of(node)) add(*subgraph);
    }
  }

  std::map<std::string, std::int64_t> versions;
  std::set<std::string> raised_by;

 private:
  void add(const ir::Graph& graph, const ir::Node& node, const std::string& domain) {
    const std::int64_t own = own_version(whole_, domain);
    const bool free = newest_version(domain) == 0 && own > 0;  // a domain that we know nothing of
    const std::int64_t needed = free ? own : form_version(graph, node);
    std::int64_t& version =
        versions.try_emplace(domain, std::min(std::max<std::int64_t>(own, 1), last_version(node))).first->second;
    if (needed > version && own > 0) raised_by.insert(node.op);
    version = std::max(version, needed);
  }

  const ir::Graph& whole_;
};

std::int64_t version_of_newest_forms(const ir::Graph& graph) {
  std::int64_t version = kUsualOpset;
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    if (domain_of(node).empty()) {
      version = std::max(version, form_version(graph, node));
      for (const std::int64_t change : changes_of(node.op)) version = std::max(version, change);
    }
    for (const auto& [name, subgraph] : ir::subgraphs_of(node))
      version = std::max(version, version_of_newest_forms(*subgraph));
  }
  return version;
}

std::size_t variadic_outputs(const ir::Graph& graph, const ir::Node& node) {
  const auto body_outputs = [&node](const char* name) -> std::size_t {
    const auto found = node.attributes.find(name);
    const auto* body = found != node.attributes.end() ? std::get_if<ir::SubgraphPointer>(&found->second) : nullptr;
    return body != nullptr ? (*body)->outputs().size() : 0;
  };
  if (node.op == "If") return body_outputs("then_branch");
  if (node.op == "Scan") return body_outputs("body");
  if (node.op == "Loop") return std::max<std::size_t>(body_outputs("body"), 1) - 1;
  if (node.op != "Split") return 0;
  if (const auto count = node.attributes.find("num_outputs"); count != node.attributes.end()) {
    if (const auto* number = std::get_if<std::int64_t>(&count->second))
      return static_cast<std::size_t>(std::clamp<std::int64_t>(*number, 0, 1 << 20));
  }
  if (const auto sizes = node.attributes.find("split"); sizes != node.attributes.end()) {
    if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&sizes->second)) return numbers->size();
  }
  const Tensor* sizes = node.formal_inputs() > 1 && node.inputs[1].valid() ? graph.constant(node.inputs[1]) : nullptr;
  return sizes != nullptr ? static_cast<std::size_t>(sizes->elements()) : 0;
}

// Whether a BatchNormalization trains; exporters also write the attribute with the value 0.
bool trains(const ir::Node& node) {
  const auto mode = node.attributes.find("training_mode");
  const auto* number = mode != node.attributes.end() ? std::get_if<std::int64_t>(&mode->second) : nullptr;
  return number != nullptr && *number != 0;
}

// Adds values for outputs that ONNX does not allow a node to omit; they get names, though nothing reads them.
void want_required_outputs(ir::Graph& graph) {
  const std::vector<ir::NodeId> order = graph.order();
  for (const ir::NodeId id : order) {
    if (const ops::OpDef* op = ops::find_op(graph.node(id).op); op != nullptr) {
      std::size_t count = std::max(graph.node(id).outputs.size(), variadic_outputs(graph, graph.node(id)));
      for (std::size_t i = 0; i < std::max(count, op->outputs.size()); ++i) {
        const ir::Node& node = graph.node(id);
        const ops::Parameter::Option option = i < op->outputs.size() ? op->outputs[i].option : ops::variadic;
        const bool wanted = i < node.outputs.size() && node.outputs[i].valid();
        const bool required = option == ops::Parameter::Option::required || (option == ops::variadic && i < count);
        // onnxruntime's training computes all statistics or none.
        const bool statistics = node.op == "BatchNormalization" && trains(node);
        if (!wanted && (required || statistics)) graph.want_output(id, i);
      }
    }
    for (const auto& [name, subgraph] : ir::subgraphs_of(graph.node(id))) {
      ir::Graph copy = *subgraph;
      want_required_outputs(copy);
      graph.node(id).attributes[name] = std::make_shared<const ir::Graph>(std::move(copy));
    }
  }
}

std::string need_list(const std::vector<FormNeed>& needs, std::int64_t above) {
  std::map<std::string, std::int64_t> lowest;
  for (const FormNeed& need : needs) {
    if (need.version > above) lowest[need.op] = std::max(lowest[need.op], need.version);
  }
  std::vector<std::string> list;
  for (const auto& [op, version] : lowest) list.push_back(fmt::format("{} (from {} on)", op, version));
  return fmt::format("{}", fmt::join(list, ", "));
}

std::int64_t highest(const std::vector<FormNeed>& needs) {
  std::int64_t version = 0;
  for (const FormNeed& need : needs) version = std::max(version, need.version);
  return version;
}

}  // namespace

std::int64_t own_version(const ir::Graph& graph, const std::string& domain) {
  const auto found = graph.metadata.find("opset:" + (domain.empty() ? "ai.onnx" : domain));
  return found != graph.metadata.end() ? std::max<std::int64_t>(std::strtoll(found->second.c_str(), nullptr, 10), 0)
                                       : 0;
}

void check_opset(std::int64_t opset) {
  require(opset >= kOldestOpset && opset <= newest_version(""), ErrorKind::invalid_argument,
          "operator set version {} cannot be written; expected one from {} to {}", opset, kOldestOpset,
          newest_version(""));
}

FileForm file_form(const ir::Graph& graph, std::optional<std::int64_t> opset) {
  const std::int64_t newest = newest_version(""), own = std::min(own_version(graph, ""), newest);
  if (opset) check_opset(*opset);
  FileForm form;
  std::int64_t version = opset.value_or(own > 0 ? std::max(own, kOldestOpset) : kUsualOpset);
  std::set<std::string> raised_by;
  for (;;) {
    form.graph = graph;
    std::vector<FormNeed> needs = downgrade_graph(form.graph, version, opset.has_value() || own > 0);
    add_dtype_needs(graph, needs);
    std::erase_if(needs, [version](const FormNeed& need) { return need.version <= version; });
    if (needs.empty()) break;
    if (opset) {
      std::int64_t enough = highest(needs);
      for (ir::Graph trial = graph; enough < newest; trial = graph) {
        const std::int64_t more = highest(downgrade_graph(trial, enough, true));
        if (more <= enough) break;
        enough = more;
      }
      fail(ErrorKind::unsupported, "operator set version {} has no form of {}; the lowest version that has all is {}",
           *opset, need_list(needs, version), enough);
    }
    for (const FormNeed& need : needs) raised_by.insert(need.op);
    version = highest(needs);
  }
  want_required_outputs(form.graph);
  OtherDomains others(graph);
  others.add(form.graph);
  if (own > 0) form.raised_by.assign(raised_by.begin(), raised_by.end());
  form.raised_by.insert(form.raised_by.end(), others.raised_by.begin(), others.raised_by.end());
  form.versions = std::move(others.versions);
  form.versions[""] = version;
  return form;
}

FileForm newest_form(const ir::Graph& graph) {
  OtherDomains others(graph);
  others.add(graph);
  std::vector<FormNeed> needs;
  add_dtype_needs(graph, needs);
  FileForm form{graph, std::move(others.versions), {}};
  form.versions[""] = std::max(version_of_newest_forms(graph), highest(needs));
  return form;
}

}  // namespace tessera::io
