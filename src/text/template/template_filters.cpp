// The filters of templates, as Jinja defines them.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "text/template/template_evaluator.h"
#include "text/unicode.h"

namespace tessera::text {
namespace {

using Evaluator = TemplateEvaluator;
using Value = TemplateValue;
using Arguments = TemplateArguments;

Value length_of(Evaluator& evaluator, const Value& value, const Arguments&) {
  if (value.is_text()) {
    evaluator.charge(value.text().bytes.size() / 256);
    return std::ranges::count_if(value.text().bytes,
                                 [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  }
  require(!value.is<Value::Namespace>() && !value.is<Value::Loop>(), ErrorKind::failed,
          "a value of the type {} has no length", type_name(value));
  return static_cast<std::int64_t>(evaluator.items_of(value)->items.size());
}

Value json_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  JsonStyle style;
  style.ascii = arguments.flag(0, "ensure_ascii", false);
  const Value* indent = arguments.find(1, "indent");
  if (indent != nullptr && !indent->is_none()) {
    style.indent = static_cast<int>(std::clamp<std::int64_t>(arguments.integer(1, "indent", 0), 0, 1000));
    style.item_separator = ",";
  }
  const Value* separators = arguments.find(2, "separators");
  if (separators != nullptr && !separators->is_none()) {
    const Value::List parts = evaluator.items_of(*separators);
    require(parts->items.size() == 2 && parts->items[0].is_text() && parts->items[1].is_text(), ErrorKind::failed,
            "tojson takes two separators");
    style.item_separator = parts->items[0].text().bytes;
    style.key_separator = parts->items[1].text().bytes;
  }
  style.sorts = arguments.flag(3, "sort_keys", false);
  evaluator.charge(weight_of(value));
  return evaluator.text(json_of(value, style, evaluator.most_text_bytes()));
}

Value trim_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Value* characters = arguments.find(0, "chars");
  return evaluator.text(stripped_text(evaluator.printed_text(value), characters, true, true));
}

Value join_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Value* path = arguments.find(1, "attribute");
  const Value* between = arguments.find(0, "d");
  const MarkedText separator = between == nullptr ? MarkedText() : evaluator.printed_text(*between);
  MarkedText joined;
  const Value::List items = evaluator.items_of(value);
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    if (i > 0) joined.append(separator);
    joined.append(
        evaluator.printed_text(path == nullptr ? items->items[i] : evaluator.path_of(items->items[i], *path)));
    require(joined.bytes.size() <= evaluator.most_text_bytes(), ErrorKind::over_budget,
            "a text is longer than {} bytes", evaluator.most_text_bytes());
  }
  return evaluator.text(std::move(joined));
}

Value indent_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Value* width = arguments.find(0, "width");
  MarkedText space;
  if (width != nullptr && width->is_text()) space = width->text();
  else
    space.append(std::string(
        static_cast<std::size_t>(std::clamp<std::int64_t>(arguments.integer(0, "width", 4), 0, 1000)), ' '));
  MarkedText text = evaluator.printed_text(value), result;
  text.append("\n");
  const bool blank = arguments.flag(2, "blank", false);
  if (arguments.flag(1, "first", false)) result.append(space);
  const std::vector<MarkedText> lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) result.append("\n");
    if (i > 0 && (blank || !lines[i].bytes.empty())) result.append(space);
    result.append(lines[i]);
    require(result.bytes.size() <= evaluator.most_text_bytes(), ErrorKind::over_budget,
            "a text is longer than {} bytes", evaluator.most_text_bytes());
  }
  return evaluator.text(std::move(result));
}

Value int_filter(Evaluator&, const Value& value, const Arguments& arguments) {
  const std::int64_t otherwise = arguments.integer(0, "default", 0);
  const auto of_number = [&](double number) {
    return std::abs(number) < 9.2e18 ? static_cast<std::int64_t>(number) : otherwise;
  };
  if (value.is_integer()) return value.integer();
  if (value.is<double>()) return of_number(value.as<double>());
  if (!value.is_text()) return otherwise;
  const MarkedText text = stripped_text(value.text(), nullptr, true, true);
  const char *first = text.bytes.data(), *last = first + text.bytes.size();
  if (first != last && *first == '+') ++first;
  const int base = static_cast<int>(arguments.integer(1, "base", 10));
  std::int64_t integer = 0;
  if (base >= 2 && base <= 36)
    if (const auto [end, code] = std::from_chars(first, last, integer, base); code == std::errc() && end == last)
      return integer;
  double number = 0;
  const auto [end, code] = std::from_chars(first, last, number);
  return code == std::errc() && end == last && first != last ? of_number(number) : otherwise;
}

Value float_filter(Evaluator&, const Value& value, const Arguments& arguments) {
  if (value.is_number()) return value.number();
  const Value* otherwise = arguments.find(0, "default");
  if (value.is_text()) {
    const MarkedText text = stripped_text(value.text(), nullptr, true, true);
    const char *first = text.bytes.data(), *last = first + text.bytes.size();
    double number = 0;
    const auto [end, code] = std::from_chars(first, last, number);
    if (code == std::errc() && end == last && first != last) return number;
  }
  return otherwise == nullptr ? Value(0.0) : *otherwise;
}

Value round_filter(Evaluator&, const Value& value, const Arguments& arguments) {
  require(value.is_number(), ErrorKind::failed, "a value of the type {} cannot be rounded", type_name(value));
  const double scale = std::pow(10.0, static_cast<double>(arguments.integer(0, "precision", 0)));
  const std::string method = arguments.string(1, "method", "common");
  const double scaled = value.number() * scale;
  return (method == "ceil"    ? std::ceil(scaled)
          : method == "floor" ? std::floor(scaled)
                              : std::nearbyint(scaled)) /
         scale;
}

// Texts that differ in case are alike.
Value without_case(Evaluator& evaluator, const Value& value) {
  return value.is_text() ? evaluator.text(encode_utf8(lower_case(decode_utf8(value.text().bytes)))) : value;
}

struct Keyed {
  Value key, value;
};

std::vector<Keyed> keyed(Evaluator& evaluator, const std::vector<Value>& items, const Value* path, bool with_case) {
  std::vector<Keyed> result;
  for (const Value& item : items) {
    Value key = path == nullptr || path->is_none() ? item : evaluator.path_of(item, *path);
    evaluator.charge(weight_of(key));
    result.push_back({with_case ? key : without_case(evaluator, key), item});
  }
  return result;
}

Value sort_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  std::vector<Keyed> items = keyed(evaluator, evaluator.items_of(value)->items, arguments.find(2, "attribute"),
                                   arguments.flag(1, "case_sensitive", false));
  const bool descends = arguments.flag(0, "reverse", false);
  std::ranges::stable_sort(items, [&](const Keyed& a, const Keyed& b) {
    evaluator.charge(weight_of(a.key));
    return descends ? order_of(b.key, a.key) < 0 : order_of(a.key, b.key) < 0;
  });
  std::vector<Value> sorted;
  for (Keyed& item : items) sorted.push_back(std::move(item.value));
  return evaluator.list(std::move(sorted));
}

Value dictsort_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  require(value.is<Value::Dict>(), ErrorKind::failed, "a value of the type {} is no dictionary", type_name(value));
  std::vector<Value> pairs;
  for (const auto& [key, item] : value.as<Value::Dict>()->items) pairs.push_back(evaluator.list({key, item}, true));
  const std::int64_t by = arguments.string(1, "by", "key") == "value" ? 1 : 0;
  return sort_filter(evaluator, evaluator.list(std::move(pairs)),
                     {{arguments.flag(2, "reverse", false), arguments.flag(0, "case_sensitive", false), by}, {}});
}

Value unique_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  std::vector<Value> kept;
  const auto seen = evaluator.new_dict();
  for (const Keyed& item : keyed(evaluator, evaluator.items_of(value)->items, arguments.find(1, "attribute"),
                                 arguments.flag(0, "case_sensitive", false))) {
    if (seen->find(item.key) != nullptr) continue;
    seen->set(item.key, true);
    kept.push_back(item.value);
  }
  return evaluator.list(std::move(kept));
}

Value extreme(Evaluator& evaluator, const Value& value, const Arguments& arguments, int wanted) {
  std::optional<Keyed> best;
  for (Keyed& item : keyed(evaluator, evaluator.items_of(value)->items, arguments.find(1, "attribute"),
                           arguments.flag(0, "case_sensitive", false)))
    if (!best || order_of(item.key, best->key) == wanted) best = std::move(item);
  return best ? best->value : Value();
}

// select, reject, selectattr and rejectattr: the elements that a test, or their truth, keeps.
Value selected(Evaluator& evaluator, const Value& value, const Arguments& arguments, bool keeps, bool by_attribute) {
  Arguments rest = arguments;
  Value path;
  if (by_attribute) {
    require(!rest.values.empty(), ErrorKind::failed, "the filter needs the name of an attribute");
    path = rest.values.front();
    rest.values.erase(rest.values.begin());
  }
  std::string test;
  if (!rest.values.empty()) {
    require(rest.values.front().is_text(), ErrorKind::failed, "the filter needs the name of a test");
    test = rest.values.front().text().bytes;
    rest.values.erase(rest.values.begin());
  }
  std::vector<Value> kept;
  const Value::List items = is_true(value) ? evaluator.items_of(value) : evaluator.items_of({});
  for (const Value& item : items->items) {
    evaluator.charge(1);
    const Value subject = by_attribute ? evaluator.path_of(item, path) : item;
    if ((test.empty() ? is_true(subject) : evaluator.tested(test, subject, rest)) == keeps) kept.push_back(item);
  }
  return evaluator.list(std::move(kept));
}

Value map_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  Arguments rest = arguments;
  const Value* path = arguments.values.empty() ? arguments.find(9, "attribute") : nullptr;
  const Value* otherwise = arguments.find(9, "default");
  std::string filter;
  if (path == nullptr) {
    require(!rest.values.empty() && rest.values.front().is_text(), ErrorKind::failed, "map needs the name of a filter");
    filter = rest.values.front().text().bytes;
    rest.values.erase(rest.values.begin());
  }
  std::vector<Value> mapped;
  const Value::List items = is_true(value) ? evaluator.items_of(value) : evaluator.items_of({});
  for (const Value& item : items->items) {
    evaluator.charge(1);
    Value result = path == nullptr ? evaluator.filtered(filter, item, rest) : evaluator.path_of(item, *path);
    mapped.push_back(result.is_undefined() && otherwise != nullptr ? *otherwise : std::move(result));
  }
  return evaluator.list(std::move(mapped));
}

Value batch_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const std::int64_t size = arguments.integer(0, "linecount", 1);
  require(size > 0, ErrorKind::failed, "a batch has {} elements", size);
  std::vector<Value> batches, batch;
  const Value::List items = evaluator.items_of(value);
  for (const Value& item : items->items) {
    if (static_cast<std::int64_t>(batch.size()) == size) batches.push_back(evaluator.list(std::exchange(batch, {})));
    batch.push_back(item);
  }
  if (!batch.empty()) batches.push_back(evaluator.list(std::move(batch)));
  return evaluator.list(std::move(batches));
}

Value sum_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const Value* path = arguments.find(0, "attribute");
  const Value* start = arguments.find(1, "start");
  Value sum = start == nullptr ? Value(std::int64_t{0}) : *start;
  const Value::List items = evaluator.items_of(value);
  for (const Value& item : items->items)
    sum = evaluator.arithmetic("+", sum, path == nullptr || path->is_none() ? item : evaluator.path_of(item, *path));
  return sum;
}

Value reversed(Evaluator& evaluator, const Value& value, const Arguments&) {
  std::vector<Value> items = evaluator.items_of(value)->items;
  std::ranges::reverse(items);
  if (!value.is_text()) return evaluator.list(std::move(items));
  MarkedText text;
  for (const Value& item : items) text.append(item.text());
  return evaluator.text(std::move(text));
}

Value items_filter(Evaluator& evaluator, const Value& value, const Arguments&) {
  if (value.is_undefined()) return evaluator.list({});
  require(value.is<Value::Dict>(), ErrorKind::failed, "a value of the type {} is no dictionary", type_name(value));
  return evaluator.call_method(value, "items", {});
}

Value default_filter(Evaluator& evaluator, const Value& value, const Arguments& arguments) {
  const bool is_missing = value.is_undefined() || (arguments.flag(1, "boolean", false) && !is_true(value));
  if (!is_missing) return value;
  const Value* otherwise = arguments.find(0, "default_value");
  return otherwise == nullptr ? evaluator.text("") : *otherwise;
}

Value safe_filter(Evaluator& evaluator, const Value& value, const Arguments&) {
  MarkedText text = evaluator.printed_text(value);
  text.is_markup = true;
  return evaluator.text(std::move(text));
}

// The methods of Python that filters of the same name call on the text of a value.
Value by_method(Evaluator& evaluator, const Value& value, const std::string& name, const Arguments& arguments) {
  return evaluator.call_method(evaluator.text(evaluator.printed_text(value)), name, arguments);
}

struct Filter {
  std::string_view name;
  Value (*run)(Evaluator&, const Value&, const Arguments&);
};

constexpr std::array kFilters{
    Filter{"length", length_of},
    Filter{"count", length_of},
    Filter{"tojson", json_filter},
    Filter{"trim", trim_filter},
    Filter{"join", join_filter},
    Filter{"indent", indent_filter},
    Filter{"int", int_filter},
    Filter{"float", float_filter},
    Filter{"round", round_filter},
    Filter{"sort", sort_filter},
    Filter{"dictsort", dictsort_filter},
    Filter{"unique", unique_filter},
    Filter{"map", map_filter},
    Filter{"batch", batch_filter},
    Filter{"sum", sum_filter},
    Filter{"reverse", reversed},
    Filter{"items", items_filter},
    Filter{"default", default_filter},
    Filter{"d", default_filter},
    Filter{"safe", safe_filter},
    Filter{"min", [](Evaluator& e, const Value& v, const Arguments& a) { return extreme(e, v, a, -1); }},
    Filter{"max", [](Evaluator& e, const Value& v, const Arguments& a) { return extreme(e, v, a, 1); }},
    Filter{"select", [](Evaluator& e, const Value& v, const Arguments& a) { return selected(e, v, a, true, false); }},
    Filter{"reject", [](Evaluator& e, const Value& v, const Arguments& a) { return selected(e, v, a, false, false); }},
    Filter{"selectattr",
           [](Evaluator& e, const Value& v, const Arguments& a) { return selected(e, v, a, true, true); }},
    Filter{"rejectattr",
           [](Evaluator& e, const Value& v, const Arguments& a) { return selected(e, v, a, false, true); }},
    Filter{"string",
           [](Evaluator& e, const Value& v, const Arguments&) { return v.is_text() ? v : e.text(e.printed_text(v)); }},
    Filter{"list", [](Evaluator& e, const Value& v, const Arguments&) { return e.list(e.items_of(v)->items); }},
    Filter{"first",
           [](Evaluator& e, const Value& v, const Arguments&) {
             const Value::List items = e.items_of(v);
             return items->items.empty() ? Value() : items->items.front();
           }},
    Filter{"last",
           [](Evaluator& e, const Value& v, const Arguments&) {
             const Value::List items = e.items_of(v);
             return items->items.empty() ? Value() : items->items.back();
           }},
    Filter{"upper", [](Evaluator& e, const Value& v, const Arguments&) { return by_method(e, v, "upper", {}); }},
    Filter{"lower", [](Evaluator& e, const Value& v, const Arguments&) { return by_method(e, v, "lower", {}); }},
    Filter{"capitalize",
           [](Evaluator& e, const Value& v, const Arguments&) { return by_method(e, v, "capitalize", {}); }},
    Filter{"title", [](Evaluator& e, const Value& v, const Arguments&) { return by_method(e, v, "title", {}); }},
    Filter{"replace",
           [](Evaluator& e, const Value& v, const Arguments& a) {
             Arguments texts;
             for (const Value& each : a.values)
               texts.values.push_back(each.is_integer() ? each : e.text(e.printed_text(each)));
             return by_method(e, v, "replace", texts);
           }},
    Filter{"format", [](Evaluator& e, const Value& v,
                        const Arguments& a) { return e.text(percent_formatted(e, e.printed_text(v), a.values)); }},
    Filter{"abs",
           [](Evaluator& e, const Value& v, const Arguments&) {
             require(v.is_number(), ErrorKind::failed, "a value of the type {} has no sign", type_name(v));
             return v.number() < 0 ? e.arithmetic("-", std::int64_t{0}, v) : v;
           }},
    Filter{"attr",
           [](Evaluator& e, const Value& v, const Arguments& a) { return e.attribute_of(v, a.string(0, "name", "")); }},
};

}  // namespace

TemplateValue TemplateEvaluator::filtered(const std::string& name, const TemplateValue& value,
                                          const TemplateArguments& arguments) {
  const auto* found = std::ranges::find(kFilters, name, &Filter::name);
  require(found != kFilters.end(), ErrorKind::unsupported, "the filter '{}' is not known", name);
  if (value.is_text()) charge(value.text().bytes.size() / 64);
  return found->run(*this, value, arguments);
}

}  // namespace tessera::text
