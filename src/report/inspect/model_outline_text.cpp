#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "backends/host/numeric.h"
#include "base/numbers/units.h"
#include "base/text.h"
#include "report/inspect/model_outline.h"
#include "report/inspect/tensor_statistics.h"

namespace tessera::report {
namespace {

constexpr std::size_t kColumns = 120;
constexpr std::size_t kMostTextBytes = 80;  // the longest text of one attribute in a list of nodes
// How many elements of constants and attributes are shown in lists of nodes, and for one node.
constexpr std::size_t kFewElements = 8, kManyElements = 100;

std::string safe(std::string_view text, std::size_t most_bytes = 100) {
  return base::printable(base::shortened(text, most_bytes));
}

// The approximate width of UTF-8 text: characters that are two columns wide count as one.
std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

// `prefix` and the parts, on as many lines as they need; later lines are indented to the end of the prefix.
std::string wrapped(const std::string& prefix, const std::vector<std::string>& parts) {
  const std::string indent(columns_of(prefix), ' ');
  std::string text = prefix;
  std::size_t column = columns_of(prefix);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string part = parts[i] + (i + 1 < parts.size() ? "," : "");
    const bool fits = column + 1 + columns_of(part) <= kColumns;
    if (i > 0) text += fits ? " " : "\n" + indent;
    column = i == 0 || !fits ? indent.size() + columns_of(part) : column + 1 + columns_of(part);
    text += part;
  }
  return text + "\n";
}

template <typename List, typename ToText>
std::string list_text(const List& list, std::size_t most, const ToText& to_text) {
  std::string text = "[";
  for (std::size_t i = 0; i < std::min(most, list.size()); ++i) text += (i > 0 ? ", " : "") + to_text(list[i]);
  if (list.size() > most) text += fmt::format(", … {} more", list.size() - most);
  return text + "]";
}

std::string number_text(double value) {
  return fmt::format("{:.6g}", value);
}

// "f32[64, 3] = [0.1, 0.2, …]"; only the type if the tensor has more than `most` elements.
std::string tensor_text(const Tensor& tensor, std::size_t most) {
  const std::string type = std::string(name_of(tensor.dtype())) + to_string(tensor.shape());
  if (tensor.elements() > static_cast<std::int64_t>(most) || !tensor.has_data() || is_complex(tensor.dtype()))
    return type;
  if (tensor.elements() == 0) return type;
  std::vector<std::string> elements;
  if (tensor.dtype() == DType::string) {
    for (const std::string& text : tensor.values<std::string>())
      elements.push_back(fmt::format("\"{}\"", safe(text, kMostTextBytes)));
  } else {
    for (const double value : backends::host::read<double>(tensor)) elements.push_back(number_text(value));
  }
  if (tensor.rank() == 0) return type + " = " + elements[0];
  return type + " = " + list_text(elements, most, [](const std::string& text) { return text; });
}

std::string graph_text(const io::OutlineGraphPointer& graph) {
  return fmt::format("graph '{}' of {} nodes", safe(graph->name), graph->nodes.size());
}

struct AttributeText {
  std::size_t most_elements, most_bytes;

  std::string operator()(std::monostate) const { return "of a kind that is not read"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(float value) const { return number_text(value); }
  std::string operator()(const std::string& text) const { return fmt::format("\"{}\"", safe(text, most_bytes)); }
  std::string operator()(const Tensor& tensor) const { return tensor_text(tensor, most_elements); }
  std::string operator()(const ir::ValueType& type) const { return safe(ir::to_string(type)); }
  std::string operator()(const std::vector<std::int64_t>& values) const {
    return list_text(values, most_elements, [](std::int64_t value) { return std::to_string(value); });
  }
  std::string operator()(const std::vector<float>& values) const {
    return list_text(values, most_elements, [](float value) { return number_text(value); });
  }
  std::string operator()(const std::vector<std::string>& texts) const {
    return list_text(texts, most_elements,
                     [&](const std::string& text) { return fmt::format("\"{}\"", safe(text, most_bytes)); });
  }
  std::string operator()(const std::vector<Tensor>& tensors) const {
    return list_text(tensors, most_elements, [&](const Tensor& tensor) { return tensor_text(tensor, most_elements); });
  }
  std::string operator()(const std::vector<io::OutlineGraphPointer>& graphs) const {
    return graphs.size() == 1 ? graph_text(graphs[0]) : list_text(graphs, most_elements, graph_text);
  }
  std::string operator()(const io::OutlineReference& reference) const {
    return fmt::format("the function's attribute '{}'", safe(reference.attribute));
  }
};

std::vector<std::string> attributes_text(const io::OutlineNode& node, const AttributeText& to_text) {
  std::vector<std::string> texts;
  for (const io::OutlineAttribute& attribute : node.attributes)
    texts.push_back(fmt::format("{}={}", safe(attribute.name), std::visit(to_text, attribute.value)));
  return texts;
}

std::string type_text(const ir::ValueType& type) {
  return type.is_tensor() && type.dtype == DType::undefined ? "?" : safe(ir::to_string(type), 200);
}

// "x: f32[1, 3]"; for a constant also its values, or the word that it is one.
std::string value_text(const ModelOutline& model, const OutlineScope& scope, const std::string& name,
                       std::size_t most_elements) {
  if (name.empty()) return "(none)";
  const Tensor* tensor = model.constant(scope, name);
  if (tensor == nullptr) return fmt::format("{}: {}", safe(name), type_text(model.type_of(scope, name)));
  const std::string text = tensor_text(*tensor, most_elements);
  return fmt::format("{}: {}{}", safe(name), text, text.find('=') == std::string::npos ? " constant" : "");
}

std::vector<std::string> values_text(const ModelOutline& model, const OutlineScope& scope,
                                     const std::vector<std::string>& names) {
  std::vector<std::string> texts;
  for (const std::string& name : names) texts.push_back(value_text(model, scope, name, kFewElements));
  return texts;
}

std::string scope_text(const OutlineScope& scope, const std::string& indent) {
  if (scope.title.empty()) return "";
  return fmt::format("{}{}{}\n", indent, base::printable(scope.title),
                     scope.graph->name.empty() ? "" : fmt::format(": graph '{}'", safe(scope.graph->name)));
}

// A figure of a table: four significant digits, with an exponent if necessary.
std::string figure(double value) {
  return value == 0 ? "0" : fmt::format("{:.4g}", value);
}

}  // namespace

std::string nodes_text(const ModelOutline& model) {
  const AttributeText to_text{kFewElements, kMostTextBytes};
  std::string text;
  const OutlineScope* scope = nullptr;
  for (std::size_t i = 0; i < model.entries().size(); ++i) {
    const OutlineEntry& entry = model.entries()[i];
    const std::string indent(static_cast<std::size_t>(2 * entry.scope->depth), ' ');
    if (entry.scope != scope) text += scope_text(*entry.scope, indent);
    scope = entry.scope;
    text += fmt::format("{}{:>5} {}{}\n", indent, fmt::format("#{}", i + 1), safe(entry.node->op),
                        entry.node->name.empty() ? "" : fmt::format("  '{}'", safe(entry.node->name)));
    const std::string inner = indent + std::string(8, ' ');
    if (!entry.node->attributes.empty()) text += wrapped(inner, attributes_text(*entry.node, to_text));
    if (!entry.node->inputs.empty())
      text += wrapped(inner + "in   ", values_text(model, *entry.scope, entry.node->inputs));
    if (!entry.node->outputs.empty())
      text += wrapped(inner + "out  ", values_text(model, *entry.scope, entry.node->outputs));
  }
  return text;
}

std::string weights_text(const ModelOutline& model) {
  std::string text = fmt::format("{:<28} {:>10} {:>10} {:>10} {:>10} {:>10} {:>6}  name\n", "type", "bytes", "min",
                                 "max", "mean", "std", "zeros");
  for (const OutlineConstant& each : model.constants()) {
    const TensorStatistics statistics = statistics_of(*each.tensor);
    const std::string type = std::string(name_of(each.tensor->dtype())) + to_string(each.tensor->shape());
    text += fmt::format("{:<28} {:>10} ", type, base::format_bytes(each.tensor->bytes()));
    if (statistics.known) {
      text +=
          fmt::format("{:>10} {:>10} {:>10} {:>10} {:>5.1f}%", figure(statistics.minimum), figure(statistics.maximum),
                      figure(statistics.mean), figure(statistics.deviation), statistics.zeros * 100);
    } else {
      text += fmt::format("{:>10} {:>10} {:>10} {:>10} {:>6}", "-", "-", "-", "-", "-");
    }
    text += "  " + safe(*each.name, 60);
    if (statistics.not_finite > 0) text += fmt::format("  ({} NaN or infinite)", statistics.not_finite);
    text += "\n";
  }
  return text;
}

std::string node_text(const ModelOutline& model, const std::string& name) {
  const AttributeText to_text{kManyElements, 2000};
  std::string text;
  for (const std::size_t index : model.find(name)) {
    const auto& [node, scope] = model.entries()[index];
    text += (text.empty() ? "" : "\n") + base::printable(model.label(index)) + "\n";
    if (!scope->title.empty()) text += scope_text(*scope, "  in ");
    if (!node->doc_string.empty()) text += "  doc        " + safe(node->doc_string, 1000) + "\n";
    for (const std::string& each : attributes_text(*node, to_text)) text += wrapped("  attribute  ", {each});
    for (const std::string& input : node->inputs) {
      const bool constant = model.constant(*scope, input) != nullptr;
      const std::string origin = input.empty() || constant ? "" : model.origin(*scope, input);
      text += fmt::format("  input      {}{}\n", value_text(model, *scope, input, kManyElements),
                          origin.empty() ? "" : "  from " + base::printable(origin));
      if (constant && model.constant(*scope, input)->elements() > static_cast<std::int64_t>(kManyElements)) {
        const TensorStatistics statistics = statistics_of(*model.constant(*scope, input));
        if (statistics.known) {
          text += fmt::format("             min {}, max {}, mean {}, std {}, {:.1f}% zeros\n",
                              figure(statistics.minimum), figure(statistics.maximum), figure(statistics.mean),
                              figure(statistics.deviation), statistics.zeros * 100);
        }
      }
    }
    for (const std::string& output : node->outputs) {
      text += fmt::format("  output     {}\n", value_text(model, *scope, output, kManyElements));
      std::vector<std::string> users = model.users(*scope, output);
      for (std::string& user : users) user = base::printable(user);
      if (!users.empty()) text += wrapped("             to ", users);
      else if (!output.empty()) text += "             to nothing\n";
    }
  }
  return text;
}

}  // namespace tessera::report
