#include "base/error.h"
#include "io/onnx/upgrade_rules.h"

namespace tessera::io {
namespace {

// The type of one element of a batch: without dimension 0.
ir::ValueType element_type(ir::ValueType type) {
  if (type.is_tensor() && type.dims && !type.dims->empty()) type.dims->erase(type.dims->begin());
  return type;
}

}  // namespace

// Scan-8 had a batch at axis 0 and scanned axis 1. It becomes a Scan over the batch whose body scans one sequence with
// the original body.
void scan_9(Upgrade& upgrade) {
  ir::Node& node = upgrade.node;
  require(!upgrade.has_input(0), ErrorKind::unsupported, "sequence_lens");
  const auto scanned = upgrade.take_required<std::int64_t>("num_scan_inputs");
  const auto directions = upgrade.take<std::vector<std::int64_t>>("directions");
  const auto found = node.attributes.find("body");
  const auto* body = found == node.attributes.end() ? nullptr : std::get_if<ir::SubgraphPointer>(&found->second);
  require(body != nullptr, ErrorKind::invalid_model, "attribute 'body' is missing");
  require(node.formal_inputs() >= 1, ErrorKind::invalid_model, "the node has no inputs");
  const std::size_t formal = node.formal_inputs() - 1;
  require(scanned >= 1 && static_cast<std::size_t>(scanned) <= formal, ErrorKind::invalid_model,
          "num_scan_inputs is {} of {} inputs", scanned, formal);
  for (std::size_t i = 1; i < node.inputs.size(); ++i)
    require(node.inputs[i].valid(), ErrorKind::invalid_model, "input {} is missing", i);
  const std::size_t outputs = (*body)->outputs().size();
  require(node.outputs.size() <= outputs, ErrorKind::invalid_model, "has {} outputs, but its body {}",
          node.outputs.size(), outputs);

  OpenGraph open;  // infers
  ir::Graph& sequence = open.graph;
  ir::Node inner{"Scan", node.name, {}, {}, {{"body", *body}, {"num_scan_inputs", scanned}}, node.captures};
  if (directions) inner.attributes["scan_input_directions"] = *directions;
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    const ir::ValueType& type = upgrade.type(i);
    inner.inputs.push_back(sequence.add_input("in_" + std::to_string(i), i <= formal ? element_type(type) : type));
  }
  for (std::size_t i = 0; i < outputs; ++i) inner.outputs.push_back(open.add_value("out_" + std::to_string(i)));
  sequence.set_outputs(inner.outputs);
  open.add_node(std::move(inner));

  node.inputs.erase(node.inputs.begin());
  node.outputs.resize(outputs);
  node.attributes["body"] = std::make_shared<const ir::Graph>(std::move(sequence));
  node.attributes["num_scan_inputs"] = static_cast<std::int64_t>(formal);
}

}  // namespace tessera::io
