// Length: texts, lists, dictionaries and their printed forms, which refer to each other.
#include "text/template/template_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "text/unicode.h"

namespace tessera::text {
namespace {

constexpr int kDeepestValue = 200;
constexpr std::size_t kMostWeight = std::size_t{1} << 22;

void check_value_depth(int depth) {
  require(depth < kDeepestValue, ErrorKind::over_budget, "a value is nested more than {} deep", kDeepestValue);
}

// Equal for keys that Python takes for equal.
std::string place_of(const TemplateValue& key) {
  if (key.is_text()) return "t" + key.text().bytes;
  if (key.is_integer()) return fmt::format("n{}", key.integer());
  if (key.is<double>()) {
    const double number = key.as<double>();
    if (std::abs(number) < 9e15 && number == std::floor(number))
      return fmt::format("n{}", static_cast<std::int64_t>(number));
    return "n" + printed_number(number);
  }
  if (key.is_none()) return "none";
  fail(ErrorKind::failed, "a value of the type {} cannot be a key", type_name(key));
}

int depth_of(const TemplateValue& value) {
  if (value.is<TemplateValue::List>()) return value.as<TemplateValue::List>()->depth;
  if (value.is<TemplateValue::Dict>()) return value.as<TemplateValue::Dict>()->depth;
  if (!value.is<TemplateValue::Callable>()) return 0;
  const auto& self = value.as<TemplateValue::Callable>()->self;
  return self == nullptr ? 0 : depth_of(*self) + 1;
}

// Counts a value that a list or a dictionary takes: values that contain each other deeply, or one value many times,
// would make walks through them, and their end, as deep and as long.
template <typename Container>
void take_in(Container& container, const TemplateValue& value) {
  container.depth = std::max(container.depth, depth_of(value) + 1);
  check_value_depth(container.depth);
  container.weight += weight_of(value);
  require(container.weight <= kMostWeight, ErrorKind::over_budget, "a value contains more than {} others", kMostWeight);
}

class Printer {
 public:
  Printer(std::size_t most, JsonStyle style) : most_(most), style_(std::move(style)) {}

  void repr(const TemplateValue& value, int depth) {
    check_value_depth(depth);
    if (value.is_text()) repr_text(value.text().bytes);
    else if (value.is<TemplateValue::List>()) {
      const TemplateList& list = *value.as<TemplateValue::List>();
      add(list.is_tuple ? "(" : "[");
      for (std::size_t i = 0; i < list.items.size(); ++i) {
        if (i > 0) add(", ");
        repr(list.items[i], depth + 1);
      }
      add(list.is_tuple ? (list.items.size() == 1 ? ",)" : ")") : "]");
    } else if (value.is<TemplateValue::Dict>()) {
      add("{");
      bool first = true;
      for (const auto& [key, item] : value.as<TemplateValue::Dict>()->items) {
        if (!std::exchange(first, false)) add(", ");
        repr(key, depth + 1);
        add(": ");
        repr(item, depth + 1);
      }
      add("}");
    } else {
      plain(value);
    }
  }

  void plain(const TemplateValue& value) {
    if (value.is_none()) add("None");
    else if (value.is<bool>()) add(value.as<bool>() ? "True" : "False");
    else if (value.is<std::int64_t>()) add(fmt::format("{}", value.as<std::int64_t>()));
    else if (value.is<double>()) add(printed_number(value.as<double>()));
    else if (value.is_undefined()) add("Undefined");
    else fail(ErrorKind::failed, "a value of the type {} cannot be printed", type_name(value));
  }

  void json(const TemplateValue& value, int depth) {
    check_value_depth(depth);
    if (value.is_text()) json_text(value.text().bytes);
    else if (value.is_none()) add("null");
    else if (value.is<bool>()) add(value.as<bool>() ? "true" : "false");
    else if (value.is<std::int64_t>()) add(fmt::format("{}", value.as<std::int64_t>()));
    else if (value.is<double>()) json_number(value.as<double>());
    else if (value.is<TemplateValue::List>()) {
      const auto& items = value.as<TemplateValue::List>()->items;
      json_items('[', ']', items.size(), depth, [&](std::size_t i) { json(items[i], depth + 1); });
    } else if (value.is<TemplateValue::Dict>()) {
      json_dict(*value.as<TemplateValue::Dict>(), depth);
    } else {
      fail(ErrorKind::failed, "a value of the type {} cannot become JSON", type_name(value));
    }
  }

  std::string text;

 private:
  void add(std::string_view more) {
    require(text.size() + more.size() <= most_, ErrorKind::over_budget, "a text is longer than {} bytes", most_);
    text += more;
  }

  // In Python's quotes.
  void repr_text(const std::string& bytes) {
    const char quote = bytes.find('\'') != bytes.npos && bytes.find('"') == bytes.npos ? '"' : '\'';
    std::string result(1, quote);
    for (const char32_t c : decode_utf8(bytes)) {
      if (c == U'\\' || c == static_cast<char32_t>(quote)) result += '\\', result += static_cast<char>(c);
      else if (c == U'\n') result += "\\n";
      else if (c == U'\r') result += "\\r";
      else if (c == U'\t') result += "\\t";
      else if (is_printable(c)) append_utf8(result, c);
      else if (c < 0x100) result += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
      else if (c < 0x10000) result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      else result += fmt::format("\\U{:08x}", static_cast<unsigned>(c));
    }
    add(result += quote);
  }

  void json_text(const std::string& bytes) {
    std::string result = "\"";
    for (const char32_t c : decode_utf8(bytes)) {
      if (c == U'"') result += "\\\"";
      else if (c == U'\\') result += "\\\\";
      else if (c == U'\n') result += "\\n";
      else if (c == U'\r') result += "\\r";
      else if (c == U'\t') result += "\\t";
      else if (c == U'\f') result += "\\f";
      else if (c == U'\b') result += "\\b";
      else if (c < 0x20 || (style_.ascii && c >= 0x7F && c < 0x10000))
        result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      else if (style_.ascii && c >= 0x10000)
        result += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((static_cast<unsigned>(c) - 0x10000) >> 10),
                              0xDC00 + ((static_cast<unsigned>(c) - 0x10000) & 0x3FF));
      else append_utf8(result, c);
    }
    add(result += '"');
  }

  void json_number(double number) {
    if (std::isnan(number)) add("NaN");
    else if (std::isinf(number)) add(number > 0 ? "Infinity" : "-Infinity");
    else add(printed_number(number));
  }

  template <typename Each>
  void json_items(char open, char close, std::size_t count, int depth, Each each) {
    add(std::string_view(&open, 1));
    const auto new_line = [&](int level) {
      if (style_.indent >= 0) add("\n" + std::string(static_cast<std::size_t>(style_.indent) * level, ' '));
    };
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) add(style_.item_separator);
      new_line(depth + 1);
      each(i);
    }
    if (count > 0) new_line(depth);
    add(std::string_view(&close, 1));
  }

  void json_dict(const TemplateDict& dict, int depth) {
    std::vector<std::pair<std::string, const TemplateValue*>> items;
    for (const auto& [key, item] : dict.items) {
      Printer name(most_, style_);
      if (key.is_text()) name.text = key.text().bytes;
      else name.json(key, depth + 1);
      items.emplace_back(std::move(name.text), &item);
    }
    if (style_.sorts) std::ranges::stable_sort(items, {}, [](const auto& item) { return item.first; });
    json_items('{', '}', items.size(), depth, [&](std::size_t i) {
      json_text(items[i].first);
      add(style_.key_separator);
      json(*items[i].second, depth + 1);
    });
  }

  std::size_t most_;
  JsonStyle style_;
};

MarkedText marked(std::string bytes, bool from_user) {
  MarkedText result;
  result.append(bytes, from_user);
  return result;
}

}  // namespace

void TemplateLedger::add(std::size_t bytes) {
  require(bytes <= most_bytes && live_bytes <= most_bytes - bytes, ErrorKind::over_budget,
          "the template's values take more than {} bytes", most_bytes);
  live_bytes += bytes;
}

void MarkedText::append(std::string_view text, bool from_user) {
  if (from_user && !text.empty()) {
    if (!user.empty() && user.back().end == bytes.size()) user.back().end += text.size();
    else user.push_back({bytes.size(), bytes.size() + text.size()});
  }
  bytes += text;
}

void MarkedText::append(const MarkedText& text) {
  append(text, 0, text.bytes.size());
}

void MarkedText::append(const MarkedText& text, std::size_t first, std::size_t count) {
  const std::size_t last = first + count, shift = bytes.size();
  auto range = std::ranges::upper_bound(text.user, first, {}, &TextRange::end);
  for (; range != text.user.end() && range->begin < last; ++range) {
    const std::size_t begin = std::max(range->begin, first) - first + shift;
    const std::size_t end = std::min(range->end, last) - first + shift;
    if (!user.empty() && user.back().end == begin) user.back().end = end;
    else user.push_back({begin, end});
  }
  bytes.append(text.bytes, first, count);
}

MarkedText MarkedText::part(std::size_t first, std::size_t count) const {
  MarkedText result;
  result.append(*this, first, count);
  result.is_markup = is_markup;
  return result;
}

ChargedText::ChargedText(MarkedText given, TemplateLedger* to) : text(std::move(given)), ledger(to) {
  const std::size_t bytes = text.bytes.size() + text.user.size() * sizeof(TextRange) + 96;
  if (ledger != nullptr) ledger->add(bytes);
  charged = bytes;
}

ChargedText::~ChargedText() {
  if (ledger != nullptr) ledger->remove(charged);
}

TemplateList::TemplateList(std::vector<TemplateValue> given, bool tuple, TemplateLedger* to)
    : items(std::move(given)), is_tuple(tuple), ledger(to) {
  for (const TemplateValue& item : items) take_in(*this, item);
  const std::size_t bytes = items.size() * sizeof(TemplateValue) + 96;
  if (ledger != nullptr) ledger->add(bytes);
  charged = bytes;
}

TemplateList::~TemplateList() {
  if (ledger != nullptr) ledger->remove(charged);
}

TemplateDict::TemplateDict(TemplateLedger* to) : ledger(to) {}

TemplateDict::~TemplateDict() {
  if (ledger != nullptr) ledger->remove(charged);
}

void TemplateDict::set(const TemplateValue& key, TemplateValue value) {
  std::string place = place_of(key);
  take_in(*this, value);
  const auto found = places_.find(place);
  if (found != places_.end()) {
    items[found->second].second = std::move(value);
    return;
  }
  const std::size_t bytes = 2 * sizeof(TemplateValue) + place.size() + 96;
  if (ledger != nullptr) ledger->add(bytes);
  charged += bytes;
  places_.emplace(std::move(place), items.size());
  items.emplace_back(key, std::move(value));
}

const TemplateValue* TemplateDict::find(const TemplateValue& key) const {
  const auto found = places_.find(place_of(key));
  return found == places_.end() ? nullptr : &items[found->second].second;
}

const TemplateValue* TemplateDict::find(std::string_view key) const {
  const auto found = places_.find("t" + std::string(key));
  return found == places_.end() ? nullptr : &items[found->second].second;
}

std::size_t weight_of(const TemplateValue& value) {
  if (value.is<TemplateValue::List>()) return value.as<TemplateValue::List>()->weight;
  if (value.is<TemplateValue::Dict>()) return value.as<TemplateValue::Dict>()->weight;
  return value.is_text() ? 1 + value.text().bytes.size() / 256 : 1;
}

TemplateValue make_constant_text(std::string bytes, bool from_user) {
  return TemplateValue::Text(std::make_shared<const ChargedText>(marked(std::move(bytes), from_user), nullptr));
}

std::string_view type_name(const TemplateValue& value) {
  constexpr std::string_view kNames[]{"undefined", "NoneType", "bool",      "int",  "float",   "str",
                                      "list",      "dict",     "namespace", "loop", "function"};
  if (value.is<TemplateValue::List>() && value.as<TemplateValue::List>()->is_tuple) return "tuple";
  return kNames[value.held.index()];
}

bool is_true(const TemplateValue& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_number()) return value.number() != 0;
  if (value.is_text()) return !value.text().bytes.empty();
  if (value.is<TemplateValue::List>()) return !value.as<TemplateValue::List>()->items.empty();
  if (value.is<TemplateValue::Dict>()) return !value.as<TemplateValue::Dict>()->items.empty();
  return true;
}

bool are_equal(const TemplateValue& a, const TemplateValue& b, int depth) {
  check_value_depth(depth);
  if (a.is_integer() && b.is_integer()) return a.integer() == b.integer();
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  if (a.held.index() != b.held.index()) return false;
  if (a.is_text()) return a.text().bytes == b.text().bytes;
  if (a.is<TemplateValue::List>()) {
    const TemplateList &x = *a.as<TemplateValue::List>(), &y = *b.as<TemplateValue::List>();
    return x.is_tuple == y.is_tuple &&
           std::ranges::equal(x.items, y.items, [&](const TemplateValue& left, const TemplateValue& right) {
             return are_equal(left, right, depth + 1);
           });
  }
  if (a.is<TemplateValue::Dict>()) {
    const TemplateDict &x = *a.as<TemplateValue::Dict>(), &y = *b.as<TemplateValue::Dict>();
    return x.items.size() == y.items.size() && std::ranges::all_of(x.items, [&](const auto& item) {
             const TemplateValue* other = y.find(item.first);
             return other != nullptr && are_equal(item.second, *other, depth + 1);
           });
  }
  if (a.is<TemplateValue::Namespace>()) return a.as<TemplateValue::Namespace>() == b.as<TemplateValue::Namespace>();
  return a.is_undefined() || a.is_none();
}

int order_of(const TemplateValue& a, const TemplateValue& b, int depth) {
  check_value_depth(depth);
  if (a.is_integer() && b.is_integer()) return a.integer() < b.integer() ? -1 : a.integer() > b.integer();
  if (a.is_number() && b.is_number()) return a.number() < b.number() ? -1 : a.number() > b.number();
  if (a.is_text() && b.is_text()) {
    const int order = a.text().bytes.compare(b.text().bytes);
    return order < 0 ? -1 : order > 0;
  }
  if (a.is<TemplateValue::List>() && b.is<TemplateValue::List>()) {
    const auto &x = a.as<TemplateValue::List>()->items, &y = b.as<TemplateValue::List>()->items;
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      if (!are_equal(x[i], y[i], depth + 1)) return order_of(x[i], y[i], depth + 1);
    return x.size() < y.size() ? -1 : x.size() > y.size();
  }
  fail(ErrorKind::failed, "values of the types {} and {} have no order", type_name(a), type_name(b));
}

bool has_user_text(const TemplateValue& value, int depth) {
  check_value_depth(depth);
  if (value.is_text()) return value.text().has_user();
  if (value.is<TemplateValue::List>())
    return std::ranges::any_of(value.as<TemplateValue::List>()->items,
                               [&](const TemplateValue& item) { return has_user_text(item, depth + 1); });
  if (value.is<TemplateValue::Dict>())
    return std::ranges::any_of(value.as<TemplateValue::Dict>()->items, [&](const auto& item) {
      return has_user_text(item.first, depth + 1) || has_user_text(item.second, depth + 1);
    });
  return false;
}

MarkedText printed(const TemplateValue& value, std::size_t most) {
  if (value.is_text()) return value.text();
  if (value.is_undefined()) return {};
  Printer printer(most, {});
  printer.repr(value, 0);
  return marked(std::move(printer.text), has_user_text(value));
}

// The shortest digits that give the number again, as Python's repr places them.
std::string printed_number(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, number, std::chars_format::scientific).ptr;
  std::string text(digits, end);
  const std::size_t exponent_at = text.find('e');
  const int exponent = std::stoi(text.substr(exponent_at + 1));
  if (exponent < -4 || exponent >= 16) return text;
  char fixed[64];
  const auto last = std::to_chars(fixed, fixed + sizeof fixed, number, std::chars_format::fixed).ptr;
  std::string result(fixed, last);
  return result.find('.') == result.npos ? result + ".0" : result;
}

MarkedText json_of(const TemplateValue& value, const JsonStyle& style, std::size_t most) {
  Printer printer(most, style);
  printer.json(value, 0);
  return marked(std::move(printer.text), has_user_text(value));
}

}  // namespace tessera::text
