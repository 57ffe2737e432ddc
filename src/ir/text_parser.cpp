#include <unordered_map>

#include "ir/text.h"
#include "ir/text_literal.h"
#include "ir/verify.h"

namespace tessera::ir {
namespace {

Attribute parse_attribute(Scanner& scanner, int depth);

// One graph with the names defined in it so far.
class GraphParser {
 public:
  GraphParser(Scanner& scanner, int depth) : scanner_(scanner), depth_(depth) {}

  // Stands after the word "graph".
  Graph run() {
    if (depth_ > kMaxTextDepth) scanner_.fail("graphs are nested deeper than {}", kMaxTextDepth);
    if (scanner_.peek() == '"') graph_.name = scanner_.string("the graph's name");
    scanner_.expect('{', "before the contents of a graph");
    while (!scanner_.accept('}')) parse_item();
    for (const auto& [variable, name] : updates_) {
      const auto found = values_.find(name);
      if (found == values_.end())
        scanner_.fail("the update %{} of variable '{}' is not defined in the graph that ends here", name, variable);
      graph_.set_variable_update(variable, found->second);
    }
    return std::move(graph_);
  }

 private:
  void parse_item() {
    if (scanner_.accept_word("metadata")) return parse_metadata();
    if (scanner_.accept_word("input")) return parse_input();
    if (scanner_.accept_word("constant")) return parse_constant();
    if (scanner_.accept_word("variable")) return parse_variable();
    if (scanner_.accept_word("output")) return parse_outputs();
    const char next = scanner_.peek();
    if (next == '%' || next == '(' || scanner_.peek_word() == "none") return parse_node();
    scanner_.fail_expected("a node, metadata, input, constant, variable, output or '}'");
  }

  std::string value_name() {
    scanner_.expect('%', "before the name of a value");
    return scanner_.word_or_string("the name of a value");
  }

  // A name that is not defined yet.
  std::string new_name() {
    std::string name = value_name();
    if (values_.contains(name)) scanner_.fail("the value %{} is defined twice", name);
    return name;
  }

  ValueId defined(ValueId id) {
    values_.emplace(graph_.value(id).name, id);
    return id;
  }

  ValueId used_value() {
    const std::string name = value_name();
    const auto found = values_.find(name);
    if (found == values_.end()) scanner_.fail("the value %{} is used before it is defined", name);
    return found->second;
  }

  void parse_metadata() {
    std::string key = scanner_.string("a key");
    scanner_.expect('=', "after the key");
    std::string text = scanner_.string("a text");
    if (!graph_.metadata.emplace(std::move(key), std::move(text)).second)
      scanner_.fail("a metadata key is given twice");
  }

  void parse_input() {
    std::string name = new_name();
    scanner_.expect(':', "before the input's type");
    ValueType type = read_type(scanner_);
    defined(graph_.add_input(std::move(name), std::move(type)));
  }

  void parse_constant() {
    const std::string name = new_name();
    scanner_.expect('=', "before the constant's tensor");
    const ValueId id = graph_.add_constant(required_tensor(), name);
    graph_.value(id).name = name;  // an empty name too
    defined(id);
  }

  void parse_variable() {
    const std::string value = new_name();
    std::string name = scanner_.peek() == '"' ? scanner_.string("the variable's name") : value;
    for (const Variable& other : graph_.variables()) {
      if (other.name == name) scanner_.fail("the variable '{}' is defined twice", name);
    }
    scanner_.expect('=', "before the variable's first state");
    const ValueId id = graph_.add_variable(name, required_tensor());
    graph_.value(id).name = value;
    defined(id);
    if (scanner_.accept_word("update")) updates_.emplace_back(std::move(name), value_name());
  }

  Tensor required_tensor() {
    Tensor tensor = read_tensor(scanner_);
    if (!tensor.has_value()) scanner_.fail("a tensor is needed here, not none");
    return tensor;
  }

  void parse_outputs() {
    do {
      graph_.add_output(used_value());
    } while (scanner_.accept(','));
  }

  void parse_node() {
    Node node;
    const std::vector<std::optional<std::string>> outputs = parse_output_names();
    scanner_.expect('=', "after a node's outputs");
    node.op = scanner_.word_or_string("an operator");
    if (scanner_.peek() == '"') node.name = scanner_.string("the node's name");
    parse_inputs(node);
    if (scanner_.accept('{')) parse_attributes(node.attributes);
    std::vector<ValueType> types = parse_output_types(outputs);
    std::size_t next_type = 0;
    for (const std::optional<std::string>& output : outputs) {
      node.outputs.emplace_back();
      if (!output) continue;
      const ValueId id = graph_.add_value("unnamed", std::move(types[next_type++]));
      graph_.value(id).name = *output;
      if (!values_.emplace(*output, id).second) scanner_.fail("the value %{} is defined twice", *output);
      node.outputs.back() = id;
    }
    graph_.add_node(std::move(node));
  }

  std::vector<std::optional<std::string>> parse_output_names() {
    std::vector<std::optional<std::string>> names;
    if (scanner_.accept_text("()")) return names;
    do {
      if (scanner_.accept_word("none")) names.emplace_back();
      else names.emplace_back(new_name());
    } while (scanner_.accept(','));
    return names;
  }

  void parse_inputs(Node& node) {
    scanner_.expect('(', "before a node's inputs");
    parse_value_list(node.inputs);
    if (!scanner_.accept_word("captures")) return;
    scanner_.expect('(', "before captured values");
    const std::size_t formal = node.inputs.size();
    parse_value_list(node.inputs);
    node.captures = static_cast<std::int32_t>(node.inputs.size() - formal);
  }

  void parse_value_list(std::vector<ValueId>& values) {
    if (scanner_.accept(')')) return;
    do {
      values.push_back(scanner_.accept_word("none") ? ValueId{} : used_value());
    } while (scanner_.accept(','));
    scanner_.expect(')', "after values");
  }

  void parse_attributes(Attributes& attributes) {
    do {
      std::string name = scanner_.word_or_string("the name of an attribute");
      if (attributes.contains(name)) scanner_.fail("the attribute {} is given twice", name);
      scanner_.expect('=', "after the name of an attribute");
      attributes.emplace(std::move(name), parse_attribute(scanner_, depth_));
    } while (scanner_.accept(','));
    scanner_.expect('}', "after attributes");
  }

  std::vector<ValueType> parse_output_types(const std::vector<std::optional<std::string>>& outputs) {
    std::size_t wanted = 0;
    for (const auto& output : outputs) wanted += output.has_value() ? 1 : 0;
    std::vector<ValueType> types;
    if (!scanner_.accept(':')) {
      types.resize(wanted);
      return types;
    }
    do {
      types.push_back(read_type(scanner_));
    } while (scanner_.accept(','));
    if (types.size() != wanted) scanner_.fail("the node has {} outputs, but {} types", wanted, types.size());
    return types;
  }

  Scanner& scanner_;
  int depth_;
  Graph graph_;
  std::unordered_map<std::string, ValueId> values_;
  std::vector<std::pair<std::string, std::string>> updates_;
};

bool is_real(std::string_view number) {
  return number.find_first_of(".eEn") != std::string_view::npos;
}

// Reads the rest of "[a, b]" whose first item was read already.
template <typename T, typename ReadOne>
Attribute parse_list(Scanner& scanner, T first, const ReadOne& read_one) {
  std::vector<T> items;
  items.push_back(std::move(first));
  while (scanner.accept(',')) items.push_back(read_one());
  scanner.expect(']', "after a list");
  return items;
}

Attribute parse_list(Scanner& scanner) {
  const char next = scanner.peek();
  if (next == '"') {
    const auto read_one = [&] { return scanner.string("a string"); };
    return parse_list(scanner, read_one(), read_one);
  }
  const std::string_view word = scanner.peek_word();
  if (word == "none" || (!word.empty() && dtype_from_name(word))) {
    const auto read_one = [&] { return read_tensor(scanner); };
    return parse_list(scanner, read_one(), read_one);
  }
  const std::string_view first = scanner.number();
  if (is_real(first))
    return parse_list(scanner, read_real_attribute(scanner, first),
                      [&] { return read_real_attribute(scanner, scanner.number()); });
  return parse_list(scanner, read_integer(scanner, first), [&] { return read_integer(scanner, scanner.number()); });
}

std::optional<Attribute> empty_list(std::string_view kind) {
  if (kind == "integers") return std::vector<std::int64_t>{};
  if (kind == "floats") return std::vector<float>{};
  if (kind == "strings") return std::vector<std::string>{};
  if (kind == "tensors") return std::vector<Tensor>{};
  return std::nullopt;
}

Attribute parse_attribute(Scanner& scanner, int depth) {
  const char next = scanner.peek();
  if (next == '"') return scanner.string("a string");
  if (scanner.accept('[')) return parse_list(scanner);
  if (scanner.accept_word("graph")) return std::make_shared<const Graph>(GraphParser(scanner, depth + 1).run());
  if (scanner.accept_word("type")) return read_type(scanner);
  const std::string_view word = scanner.peek_word();
  if (word == "none" || (!word.empty() && dtype_from_name(word))) return read_tensor(scanner);
  if (const std::optional<Attribute> empty = empty_list(word)) {
    scanner.word("a kind of list");
    if (!scanner.accept_text("[]")) scanner.fail_expected("[]");
    return *empty;
  }
  const std::string_view number = scanner.number();
  if (is_real(number)) return read_real_attribute(scanner, number);
  return read_integer(scanner, number);
}

}  // namespace

Graph parse(std::string_view text) {
  Scanner scanner(text);
  if (!scanner.accept_word("graph")) scanner.fail_expected("graph");
  Graph graph = GraphParser(scanner, 0).run();
  if (!scanner.at_end()) scanner.fail_expected("the end of the text after the graph");
  verify(graph);
  return graph;
}

}  // namespace tessera::ir
