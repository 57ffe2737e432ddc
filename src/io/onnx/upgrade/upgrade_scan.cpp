#include "base/error.h"
#include "io/onnx/upgrade/upgrade_rules.h"

namespace tessera::io {
namespace {

// The type of one element of a batch: without dimension 0.
ir::ValueType element_type(ir::ValueType type) {
  if (type.is_tensor() && type.dims && !type.dims->empty()) type.dims->erase(type.dims->begin());
  return type;
}

// The graph that scans one sequence of a batch. With lengths, its first input is the sequence's length: scanned data
// are cut to it, and results are padded with zeros.
class SequenceGraph {
 public:
  explicit SequenceGraph(bool with_lengths) {
    if (with_lengths)
      length_ = add_op("Unsqueeze",
                       {open_.graph.add_input("length", ir::ValueType::tensor(DType::i64, ir::Dims{})), integers({0})});
  }

  ir::ValueId add_input(std::size_t i, ir::ValueType type) {
    return open_.graph.add_input("in_" + std::to_string(i), std::move(type));
  }
  ir::ValueId cut(ir::ValueId sequence) {
    if (!length_.valid()) return sequence;
    if (!longest_.valid())
      longest_ = add_op("Shape", {sequence}, {{"start", std::int64_t{0}}, {"end", std::int64_t{1}}});
    return add_op("Slice", {sequence, integers({0}), length_, integers({0})});
  }
  ir::ValueId fill(ir::ValueId sequence) {
    if (!length_.valid()) return sequence;
    const ir::ValueId missing = add_op("Sub", {longest_, length_});
    const ir::ValueId pads = add_op("Concat", {integers({0}), missing}, {{"axis", std::int64_t{0}}});
    return add_op("Pad", {sequence, pads, {}, integers({0})});
  }

  OpenGraph& open() { return open_; }

 private:
  ir::ValueId add_op(const std::string& op, std::vector<ir::ValueId> inputs, ir::Attributes attributes = {}) {
    return open_.add_op(op, std::move(inputs), std::move(attributes), op);
  }
  ir::ValueId integers(const std::vector<std::int64_t>& values) {
    return open_.add_constant(Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, std::span(values)),
                              "constant");
  }

  OpenGraph open_;  // infers
  ir::ValueId length_, longest_;
};

}  // namespace

// Scan-8 had a batch at axis 0 and scanned axis 1. It becomes a Scan over the batch whose body scans one sequence with
// the original body.
void scan_9(Upgrade& upgrade) {
  ir::Node& node = upgrade.node;
  const bool with_lengths = upgrade.has_input(0);
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

  SequenceGraph sequence(with_lengths);
  ir::Node inner{"Scan", node.name, {}, {}, {{"body", *body}, {"num_scan_inputs", scanned}}, node.captures};
  if (directions) inner.attributes["scan_input_directions"] = *directions;
  const std::size_t states = formal - static_cast<std::size_t>(scanned);
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    const ir::ValueType& type = upgrade.type(i);
    inner.inputs.push_back(sequence.add_input(i, i <= formal ? element_type(type) : type));
  }
  for (std::size_t i = states; i < formal; ++i) inner.inputs[i] = sequence.cut(inner.inputs[i]);
  for (std::size_t i = 0; i < outputs; ++i)
    inner.outputs.push_back(sequence.open().add_value("out_" + std::to_string(i)));
  std::vector<ir::ValueId> results = inner.outputs;
  sequence.open().add_node(std::move(inner));
  for (std::size_t i = states; i < outputs; ++i) results[i] = sequence.fill(results[i]);
  sequence.open().graph.set_outputs(std::move(results));

  if (!with_lengths) node.inputs.erase(node.inputs.begin());
  node.outputs.resize(outputs);
  node.attributes["body"] = std::make_shared<const ir::Graph>(std::move(sequence.open().graph));
  node.attributes["num_scan_inputs"] = static_cast<std::int64_t>(formal + (with_lengths ? 1 : 0));
}

}  // namespace tessera::io
