// The values that templates compute with. They follow Python's, as Jinja does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/tokenizer.h"

namespace tessera::text {

struct TemplateStatement;
struct TemplateScope;
class TemplateValue;

// The bytes that values hold, within a limit. Values may outlive it only if they were made without it.
struct TemplateLedger {
  std::size_t live_bytes = 0, most_bytes = 0;
  // Throws Error(over_budget) where so many bytes more are beyond the limit.
  void add(std::size_t bytes);
  void remove(std::size_t bytes) { live_bytes -= bytes; }
};

// A text and the ranges of it that users wrote.
struct MarkedText {
  std::string bytes;
  std::vector<TextRange> user;  // ascending, apart
  bool is_markup = false;       // of the filter safe: + escapes what is added to it

  void append(std::string_view text, bool from_user = false);
  void append(const MarkedText& text);
  void append(const MarkedText& text, std::size_t first, std::size_t bytes);
  MarkedText part(std::size_t first, std::size_t bytes) const;
  bool has_user() const { return !user.empty(); }
};

// Values of several bytes, charged to a ledger while they live.
struct ChargedText {
  MarkedText text;
  TemplateLedger* ledger = nullptr;
  std::size_t charged = 0;
  ChargedText(MarkedText given, TemplateLedger* to);
  ~ChargedText();
  ChargedText(const ChargedText&) = delete;
  ChargedText& operator=(const ChargedText&) = delete;
};

struct TemplateList {
  std::vector<TemplateValue> items;
  bool is_tuple = false;
  int depth = 1;           // of lists and dictionaries in each other
  std::size_t weight = 1;  // values that a walk through all of it meets
  TemplateLedger* ledger = nullptr;
  std::size_t charged = 0;
  TemplateList(std::vector<TemplateValue> given, bool tuple, TemplateLedger* to);
  ~TemplateList();
  TemplateList(const TemplateList&) = delete;
  TemplateList& operator=(const TemplateList&) = delete;
};

// Keys in the order in which they came.
struct TemplateDict {
  std::vector<std::pair<TemplateValue, TemplateValue>> items;
  int depth = 1;
  std::size_t weight = 1;
  TemplateLedger* ledger = nullptr;
  std::size_t charged = 0;
  explicit TemplateDict(TemplateLedger* to);
  ~TemplateDict();
  TemplateDict(const TemplateDict&) = delete;
  TemplateDict& operator=(const TemplateDict&) = delete;

  void set(const TemplateValue& key, TemplateValue value);
  const TemplateValue* find(const TemplateValue& key) const;
  const TemplateValue* find(std::string_view key) const;

 private:
  std::unordered_map<std::string, std::size_t> places_;  // by the key's kind and text
};

struct TemplateNamespace {
  std::vector<std::pair<std::string, TemplateValue>> items;
};

// The state of a loop, which its body sees as `loop`.
struct TemplateLoop {
  const std::vector<TemplateValue>* items = nullptr;
  std::size_t index = 0, depth = 1;
  std::shared_ptr<TemplateValue> changed;  // the arguments of the last call of changed()
};

struct TemplateCallable {
  enum class Kind { global, method, macro, caller };
  Kind kind = Kind::global;
  std::string name;
  std::shared_ptr<const TemplateValue> self;      // of a method
  const TemplateStatement* macro = nullptr;       // of a macro or a caller
  std::size_t scope_place = 0, scope_number = 0;  // where it was defined
};

struct UndefinedValue {
  std::shared_ptr<const std::string> reason;
};
struct NoneValue {};

class TemplateValue {
 public:
  using Text = std::shared_ptr<const ChargedText>;
  using List = std::shared_ptr<const TemplateList>;
  using Dict = std::shared_ptr<const TemplateDict>;
  using Namespace = std::shared_ptr<TemplateNamespace>;
  using Loop = std::shared_ptr<TemplateLoop>;
  using Callable = std::shared_ptr<const TemplateCallable>;
  std::variant<UndefinedValue, NoneValue, bool, std::int64_t, double, Text, List, Dict, Namespace, Loop, Callable> held;

  TemplateValue() = default;
  template <typename T>
  TemplateValue(T value) : held(std::move(value)) {}  // NOLINT: values convert

  template <typename T>
  bool is() const {
    return std::holds_alternative<T>(held);
  }
  template <typename T>
  const T& as() const {
    return std::get<T>(held);
  }
  bool is_undefined() const { return is<UndefinedValue>(); }
  bool is_none() const { return is<NoneValue>(); }
  bool is_text() const { return is<Text>(); }
  bool is_integer() const { return is<std::int64_t>() || is<bool>(); }
  bool is_number() const { return is_integer() || is<double>(); }
  const MarkedText& text() const { return as<Text>()->text; }
  std::int64_t integer() const { return is<bool>() ? (as<bool>() ? 1 : 0) : as<std::int64_t>(); }
  double number() const { return is<double>() ? as<double>() : static_cast<double>(integer()); }
};

// A text that no ledger counts.
TemplateValue make_constant_text(std::string bytes, bool from_user = false);
// The name of the type as Python has it, for messages.
std::string_view type_name(const TemplateValue& value);
bool is_true(const TemplateValue& value);
// The work of a walk through a value, in steps.
std::size_t weight_of(const TemplateValue& value);
bool are_equal(const TemplateValue& a, const TemplateValue& b, int depth = 0);
// −1, 0, 1. Throws Error(failed) for values without an order.
int order_of(const TemplateValue& a, const TemplateValue& b, int depth = 0);
bool has_user_text(const TemplateValue& value, int depth = 0);

// str() and repr() of Python. Throw Error(over_budget) beyond `most` bytes.
MarkedText printed(const TemplateValue& value, std::size_t most);
std::string printed_number(double number);
struct JsonStyle {
  bool ascii = false, sorts = false;
  int indent = -1;  // −1: on one line
  std::string item_separator = ", ", key_separator = ": ";
};
// json.dumps of Python.
MarkedText json_of(const TemplateValue& value, const JsonStyle& style, std::size_t most);

}  // namespace tessera::text
