#include <span>

#include "ir/text.h"
#include "ir/text_literal.h"

namespace tessera::ir {
namespace {

class Printer {
 public:
  explicit Printer(const PrintOptions& options) : options_(options) {}

  void print_graph(const Graph& graph, int depth) {
    text_ += graph.name.empty() ? "graph {\n" : "graph " + quoted(graph.name) + " {\n";
    const std::string indent(2 * static_cast<std::size_t>(depth) + 2, ' ');
    for (const auto& [key, value] : graph.metadata)
      text_ += indent + "metadata " + quoted(key) + " = " + quoted(value) + "\n";
    for (ValueId id : graph.inputs())
      text_ += indent + "input " + value(graph, id) + " : " + format_type(graph.value(id).type) + "\n";
    print_constants(graph, indent);
    for (const Variable& variable : graph.variables()) print_variable(graph, variable, indent);
    for (NodeId id : graph.order()) {
      text_ += indent;
      print_node(graph, graph.node(id), depth);
      text_ += '\n';
    }
    if (!graph.outputs().empty()) text_ += indent + "output " + values(graph, graph.outputs()) + "\n";
    text_ += std::string(2 * static_cast<std::size_t>(depth), ' ') + "}";
  }

  void print_attributes(const Attributes& attributes, int depth) {
    text_ += "{";
    bool first = true;
    for (const auto& [key, attribute] : attributes) {
      text_ += (first ? "" : ", ") + name(key) + " = ";
      first = false;
      if (const auto* graph = std::get_if<SubgraphPointer>(&attribute); graph != nullptr && *graph != nullptr) {
        print_graph(**graph, depth + 1);
      } else {
        text_ += format_attribute(attribute);
      }
    }
    text_ += '}';
  }

  std::string take() { return std::move(text_); }

 private:
  static std::string name(std::string_view text) { return is_plain_word(text) ? std::string(text) : quoted(text); }

  static std::string value(const Graph& graph, ValueId id) {
    return id.valid() ? "%" + name(graph.value(id).name) : "none";
  }

  static std::string values(const Graph& graph, std::span<const ValueId> ids) {
    std::string text;
    for (std::size_t i = 0; i < ids.size(); ++i) text += (i > 0 ? ", " : "") + value(graph, ids[i]);
    return text;
  }

  void print_constants(const Graph& graph, const std::string& indent) {
    for (std::size_t i = 0; i < graph.value_count(); ++i) {
      const ValueId id{static_cast<std::int32_t>(i)};
      const Tensor* tensor = graph.constant(id);
      if (tensor == nullptr) continue;
      text_ += indent + "constant " + value(graph, id) + " = " +
               format_tensor(*tensor, options_.max_constant_elements) + "\n";
    }
  }

  void print_variable(const Graph& graph, const Variable& variable, const std::string& indent) {
    text_ += indent + "variable " + value(graph, variable.read);
    if (graph.value(variable.read).name != variable.name) text_ += " " + quoted(variable.name);
    text_ += " = " + format_tensor(variable.initial, options_.max_constant_elements);
    if (variable.update.valid()) text_ += " update " + value(graph, variable.update);
    text_ += '\n';
  }

  void print_node(const Graph& graph, const Node& node, int depth) {
    const std::span<const ValueId> inputs(node.inputs);
    text_ += (node.outputs.empty() ? "()" : values(graph, node.outputs)) + " = " + name(node.op);
    if (!node.name.empty()) text_ += " " + quoted(node.name);
    text_ += " (" + values(graph, inputs.first(node.formal_inputs())) + ")";
    if (node.captures > 0) text_ += " captures (" + values(graph, inputs.subspan(node.formal_inputs())) + ")";
    if (!node.attributes.empty()) {
      text_ += ' ';
      print_attributes(node.attributes, depth);
    }
    print_output_types(graph, node);
  }

  void print_output_types(const Graph& graph, const Node& node) {
    std::string types;
    bool known = false;
    for (ValueId id : node.outputs) {
      if (!id.valid()) continue;
      types += (types.empty() ? " : " : ", ") + format_type(graph.value(id).type);
      known = known || !(graph.value(id).type == ValueType{});
    }
    if (known) text_ += types;
  }

  template <typename T, typename Format>
  static std::string list(std::string_view kind, const std::vector<T>& items, const Format& format) {
    if (items.empty()) return std::string(kind) + "[]";
    std::string text = "[";
    for (std::size_t i = 0; i < items.size(); ++i) text += (i > 0 ? ", " : "") + format(items[i]);
    return text + "]";
  }

  std::string format_attribute(const Attribute& attribute) const {
    const auto limit = options_.max_constant_elements;
    const auto tensor_text = [limit](const Tensor& tensor) { return format_tensor(tensor, limit); };
    const auto integer_text = [](std::int64_t item) { return std::to_string(item); };
    switch (kind_of(attribute)) {
      case AttributeKind::integer:
        return integer_text(std::get<std::int64_t>(attribute));
      case AttributeKind::real:
        return format_real_attribute(std::get<float>(attribute));
      case AttributeKind::text:
        return quoted(std::get<std::string>(attribute));
      case AttributeKind::tensor:
        return tensor_text(std::get<Tensor>(attribute));
      case AttributeKind::graph:
        return "graph none";
      case AttributeKind::type:
        return "type " + format_type(std::get<ValueType>(attribute));
      case AttributeKind::integers:
        return list("integers", std::get<std::vector<std::int64_t>>(attribute), integer_text);
      case AttributeKind::reals:
        return list("floats", std::get<std::vector<float>>(attribute), format_real_attribute);
      case AttributeKind::texts:
        return list("strings", std::get<std::vector<std::string>>(attribute), quoted);
      case AttributeKind::tensors:
        return list("tensors", std::get<std::vector<Tensor>>(attribute), tensor_text);
    }
    return "";
  }

  const PrintOptions& options_;
  std::string text_;
};

}  // namespace

std::string print(const Graph& graph, const PrintOptions& options) {
  Printer printer(options);
  printer.print_graph(graph, 0);
  return printer.take() + "\n";
}

std::string print(const ValueType& type) {
  return format_type(type);
}

std::string print(const Attributes& attributes) {
  const PrintOptions options;
  Printer printer(options);
  printer.print_attributes(attributes, 0);
  return printer.take();
}

}  // namespace tessera::ir
