// Evaluates templates. Filters, tests and methods are in files of their own.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/template/chat_template.h"
#include "text/template/template_syntax.h"
#include "text/vocabulary.h"

namespace tessera::text {

struct TemplateArguments {
  std::vector<TemplateValue> values;
  std::vector<std::pair<std::string, TemplateValue>> named;

  // The argument at a place or with a name, or null.
  const TemplateValue* find(std::size_t place, std::string_view name) const;
  // The argument, or the default. They throw Error(failed) for an argument of another type.
  std::int64_t integer(std::size_t place, std::string_view name, std::int64_t otherwise) const;
  bool flag(std::size_t place, std::string_view name, bool otherwise) const;
  std::string string(std::size_t place, std::string_view name, std::string otherwise) const;
};

// The variables of a block: those of an iteration, of a macro, of the template.
struct TemplateScope {
  TemplateScope* parent = nullptr;
  std::size_t number = 0;  // no two scopes have the same
  std::unordered_map<std::string, TemplateValue, StringHash, std::equal_to<>> variables;
};

class TemplateEvaluator {
 public:
  explicit TemplateEvaluator(const TemplateOptions& options);
  ~TemplateEvaluator();
  TemplateEvaluator(const TemplateEvaluator&) = delete;
  TemplateEvaluator& operator=(const TemplateEvaluator&) = delete;

  void set_variable(const std::string& name, TemplateValue value);
  RenderedChat run(const TemplateSyntax& syntax);

  // Counts work. Throws Error(over_budget) beyond the limit.
  void charge(std::size_t steps);
  std::size_t most_text_bytes() const { return ledger_.most_bytes; }
  const TemplateOptions& options() const { return options_; }

  TemplateValue text(MarkedText text);
  TemplateValue text(std::string_view bytes) { return text(MarkedText{std::string(bytes), {}}); }
  TemplateValue list(std::vector<TemplateValue> items, bool is_tuple = false);
  std::shared_ptr<TemplateDict> new_dict();
  // As Python's str; work is counted.
  MarkedText printed_text(const TemplateValue& value);
  // The elements that a loop over the value visits. Throws Error(failed) for a value without elements.
  TemplateValue::List items_of(const TemplateValue& value);
  TemplateValue attribute_of(const TemplateValue& value, const std::string& name);
  TemplateValue item_of(const TemplateValue& value, const TemplateValue& key);
  // The attribute of filters, such as "function.name" or "0.id".
  TemplateValue path_of(const TemplateValue& value, const TemplateValue& path);
  bool contains(const TemplateValue& container, const TemplateValue& value);

  TemplateValue filtered(const std::string& name, const TemplateValue& value, const TemplateArguments& arguments);
  bool tested(const std::string& name, const TemplateValue& value, const TemplateArguments& arguments);
  TemplateValue call_method(const TemplateValue& self, const std::string& name, const TemplateArguments& arguments);
  TemplateValue call_global(const std::string& name, const TemplateArguments& arguments);
  TemplateValue arithmetic(const std::string& sign, const TemplateValue& left, const TemplateValue& right);

 private:
  enum class Flow { normal, ends_iteration, ends_loop };
  struct Inner;

  Flow execute(const TemplateStatement::Body& body);
  Flow execute(const TemplateStatement& statement);
  Flow choose(const TemplateStatement& statement);
  Flow loop(const TemplateStatement& statement);
  void define_macro(const TemplateStatement& statement);
  void call_block(const TemplateStatement& statement);
  void emit(const MarkedText& text);
  // The output of a body in a scope of its own.
  MarkedText output_of(const TemplateStatement::Body& body);
  void assign(const TemplateExpression& target, TemplateValue value);

  TemplateValue evaluate(const TemplateExpression& expression);
  TemplateValue evaluate_kind(const TemplateExpression& expression);
  TemplateValue evaluate_call(const TemplateExpression& expression);
  TemplateValue evaluate_filter(const TemplateExpression& expression);
  TemplateValue evaluate_name(const std::string& name);
  TemplateValue evaluate_dict(const TemplateExpression& expression);
  TemplateValue evaluate_slice(const TemplateExpression& expression);
  bool compare(const std::string& sign, const TemplateValue& left, const TemplateValue& right);
  bool compare_chain(const TemplateExpression& expression);
  TemplateArguments arguments_of(const TemplateExpression& expression, std::size_t first);
  TemplateValue call(const TemplateValue& callee, TemplateArguments arguments);
  TemplateValue call_macro(const TemplateCallable& macro, const TemplateArguments& arguments);

  TemplateLedger ledger_;
  TemplateOptions options_;
  std::int64_t steps_ = 0;
  int line_ = 1, depth_ = 0;
  std::size_t buffered_ = 0;  // bytes of all unfinished outputs
  MarkedText* out_ = nullptr;
  std::vector<TemplateScope*> scopes_;  // that are alive, the innermost last
  std::size_t scopes_made_ = 0;
  TemplateScope root_;
  TemplateScope* scope_ = nullptr;
  std::vector<TemplateValue::Namespace> namespaces_;  // whose attributes can refer to themselves
  TemplateValue block_value_;                         // the value of a filter without one
  std::optional<TemplateValue> caller_;               // of the macro that is called next
};

// Throws Error(failed) with the reason why the value is undefined.
[[noreturn]] void fail_undefined(const TemplateValue& value);
// Whether the value has such a method, by Python's names.
bool has_method(const TemplateValue& value, std::string_view name);
bool is_global(std::string_view name);
// The characters of a text as ranges of bytes.
std::vector<std::pair<std::size_t, std::size_t>> characters_of_text(std::string_view bytes);
MarkedText stripped_text(const MarkedText& text, const TemplateValue* characters, bool left, bool right);
// "%s" and its like, of Python.
MarkedText percent_formatted(TemplateEvaluator& evaluator, const MarkedText& format,
                             std::span<const TemplateValue> values);
MarkedText replaced_text(TemplateEvaluator& evaluator, const MarkedText& text, const MarkedText& from,
                         const MarkedText& to, std::int64_t most);
std::vector<MarkedText> lines_of(const MarkedText& text);
std::string changed_case(std::string_view bytes, bool upper);

}  // namespace tessera::text
