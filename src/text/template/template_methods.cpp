// The methods of values and the functions of templates, as Python and Jinja define them.
#include <algorithm>
#include <array>
#include <ctime>

#include "base/error.h"
#include "text/template/template_evaluator.h"
#include "text/unicode.h"

namespace tessera::text {
namespace {

constexpr std::int64_t kLongestRange = 100'000;

using Evaluator = TemplateEvaluator;
using Value = TemplateValue;
using Arguments = TemplateArguments;

constexpr std::array<std::string_view, 33> kTextMethods{
    "strip",     "lstrip",   "rstrip",     "split",   "rsplit",       "splitlines",  "startswith", "endswith", "upper",
    "lower",     "title",    "capitalize", "replace", "find",         "rfind",       "index",      "count",    "join",
    "format",    "isdigit",  "isnumeric",  "isalpha", "isspace",      "isalnum",     "isupper",    "islower",  "zfill",
    "partition", "casefold", "isdecimal",  "rindex",  "removeprefix", "removesuffix"};
constexpr std::array<std::string_view, 4> kDictMethods{"get", "items", "keys", "values"};
constexpr std::array<std::string_view, 3> kListMethods{"index", "count", "copy"};
constexpr std::array<std::string_view, 2> kLoopMethods{"cycle", "changed"};
// They would change a value, which templates must not.
constexpr std::array<std::string_view, 13> kChanging{"append",  "pop",   "update", "insert",  "extend",
                                                     "remove",  "clear", "sort",   "reverse", "setdefault",
                                                     "popitem", "add",   "discard"};

bool among(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

const MarkedText& text_argument(const Arguments& arguments, std::size_t place, std::string_view method) {
  require(place < arguments.values.size() && arguments.values[place].is_text(), ErrorKind::failed,
          "argument {} of the method {} is no text", place + 1, method);
  return arguments.values[place].text();
}

std::vector<MarkedText> split_at_spaces(const MarkedText& text, std::int64_t most) {
  std::vector<MarkedText> parts;
  const auto characters = characters_of_text(text.bytes);
  const std::u32string plain = decode_utf8(text.bytes);
  std::size_t i = 0;
  while (i < characters.size()) {
    while (i < characters.size() && is_white_space(plain[i])) ++i;
    if (i == characters.size()) break;
    std::size_t end = i;
    if (most >= 0 && static_cast<std::int64_t>(parts.size()) >= most) {
      parts.push_back(
          stripped_text(text.part(characters[i].first, text.bytes.size() - characters[i].first), nullptr, false, true));
      break;
    }
    while (end < characters.size() && !is_white_space(plain[end])) ++end;
    parts.push_back(text.part(characters[i].first, characters[end - 1].second - characters[i].first));
    i = end;
  }
  return parts;
}

Value split(Evaluator& evaluator, const MarkedText& text, const Arguments& arguments, bool from_right) {
  const Value* by = arguments.find(0, "sep");
  const std::int64_t most = arguments.integer(1, "maxsplit", -1);
  std::vector<MarkedText> parts;
  if (by == nullptr || by->is_none()) {
    require(!from_right || most < 0, ErrorKind::unsupported, "rsplit at white space with a limit is not supported");
    parts = split_at_spaces(text, most);
  } else {
    require(by->is_text() && !by->text().bytes.empty(), ErrorKind::failed, "a text is split at an empty text");
    const std::string& separator = by->text().bytes;
    std::vector<std::size_t> places;
    const auto wanted = [&] { return most < 0 || static_cast<std::int64_t>(places.size()) < most; };
    if (!from_right) {
      for (std::size_t at = text.bytes.find(separator); at != std::string::npos && wanted();
           at = text.bytes.find(separator, at + separator.size()))
        places.push_back(at);
    } else {
      for (std::size_t at = text.bytes.rfind(separator); at != std::string::npos && wanted();
           at = at < separator.size() ? std::string::npos : text.bytes.rfind(separator, at - separator.size()))
        places.push_back(at);
      std::ranges::reverse(places);
    }
    std::size_t done = 0;
    for (const std::size_t at : places) {
      parts.push_back(text.part(done, at - done));
      done = at + separator.size();
    }
    parts.push_back(text.part(done, text.bytes.size() - done));
  }
  evaluator.charge(parts.size());
  std::vector<Value> values;
  for (MarkedText& part : parts) values.push_back(evaluator.text(std::move(part)));
  return evaluator.list(std::move(values));
}

bool has_affix(const MarkedText& text, const Arguments& arguments, bool at_end) {
  require(!arguments.values.empty(), ErrorKind::failed, "startswith and endswith need a text");
  const Value& given = arguments.values[0];
  const auto fits = [&](const Value& affix) {
    require(affix.is_text(), ErrorKind::failed, "startswith and endswith need a text, not a value of the type {}",
            type_name(affix));
    return at_end ? text.bytes.ends_with(affix.text().bytes) : text.bytes.starts_with(affix.text().bytes);
  };
  if (given.is<Value::List>() && given.as<Value::List>()->is_tuple)
    return std::ranges::any_of(given.as<Value::List>()->items, fits);
  return fits(given);
}

// The place of a text in characters, or −1.
std::int64_t place_of_text(const MarkedText& text, const Arguments& arguments, bool last) {
  const std::string& what = text_argument(arguments, 0, "find").bytes;
  require(arguments.values.size() == 1, ErrorKind::unsupported, "find within a range is not supported");
  const std::size_t at = last ? text.bytes.rfind(what) : text.bytes.find(what);
  if (at == std::string::npos) return -1;
  return std::ranges::count_if(text.bytes.substr(0, at),
                               [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

MarkedText with_user(std::string bytes, const MarkedText& of) {
  MarkedText result;
  result.append(bytes, of.has_user());
  return result;
}

std::string title_case(std::string_view bytes, bool each_word) {
  std::u32string text = decode_utf8(bytes);
  bool begins = true;
  std::string result;
  for (const char32_t c : text) {
    std::string one;
    append_utf8(one, c);
    result += changed_case(one, begins);
    begins = each_word && !is_letter(c);
  }
  return result;
}

bool all_are(const MarkedText& text, bool (*is)(char32_t)) {
  const std::u32string characters = decode_utf8(text.bytes);
  return !characters.empty() && std::ranges::all_of(characters, is);
}

// Python's str.format with fields by place or name, without conversions.
MarkedText brace_formatted(Evaluator& evaluator, const MarkedText& format, const Arguments& arguments) {
  MarkedText result;
  std::size_t next = 0;
  const std::string& bytes = format.bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != '{' && bytes[i] != '}') {
      result.append(format, i, 1);
      continue;
    }
    if (i + 1 < bytes.size() && bytes[i + 1] == bytes[i]) {
      result.append(format, i++, 1);
      continue;
    }
    const std::size_t end = bytes.find('}', i);
    require(bytes[i] == '{' && end != std::string::npos, ErrorKind::failed, "a single '{}' stands in a format",
            bytes[i]);
    const std::string field = bytes.substr(i + 1, end - i - 1);
    require(field.find_first_of(":!.[{") == std::string::npos, ErrorKind::unsupported,
            "the format '{{{}}}' is not supported", field);
    const bool is_place = std::ranges::all_of(field, [](char c) { return c >= '0' && c <= '9'; }) && field.size() < 6;
    const std::size_t place = field.empty() ? next++ : is_place ? std::stoul(field) : arguments.values.size();
    const Value* value = arguments.find(place, field);
    require(value != nullptr, ErrorKind::failed, "a format has no argument '{}'", field);
    result.append(evaluator.printed_text(*value));
    require(result.bytes.size() <= evaluator.most_text_bytes(), ErrorKind::over_budget,
            "a text is longer than {} bytes", evaluator.most_text_bytes());
    i = end;
  }
  return result;
}

Value text_method(Evaluator& evaluator, const MarkedText& text, const std::string& name, const Arguments& arguments) {
  if (name == "strip" || name == "lstrip" || name == "rstrip")
    return evaluator.text(stripped_text(text, arguments.find(0, "chars"), name != "rstrip", name != "lstrip"));
  if (name == "split" || name == "rsplit") return split(evaluator, text, arguments, name == "rsplit");
  if (name == "startswith" || name == "endswith") return has_affix(text, arguments, name == "endswith");
  if (name == "upper" || name == "lower" || name == "casefold")
    return evaluator.text(with_user(changed_case(text.bytes, name == "upper"), text));
  if (name == "title" || name == "capitalize")
    return evaluator.text(with_user(title_case(text.bytes, name == "title"), text));
  if (name == "replace")
    return evaluator.text(replaced_text(evaluator, text, text_argument(arguments, 0, name),
                                        text_argument(arguments, 1, name), arguments.integer(2, "count", -1)));
  if (name == "find" || name == "rfind" || name == "index" || name == "rindex") {
    const std::int64_t place = place_of_text(text, arguments, name[0] == 'r');
    require(place >= 0 || name.ends_with("find"), ErrorKind::failed, "a text is not found in another");
    return place;
  }
  if (name == "count") {
    const std::string& what = text_argument(arguments, 0, name).bytes;
    require(!what.empty(), ErrorKind::unsupported, "counting an empty text is not supported");
    std::int64_t count = 0;
    for (std::size_t at = text.bytes.find(what); at != std::string::npos; at = text.bytes.find(what, at + what.size()))
      ++count;
    return count;
  }
  if (name == "join") {
    MarkedText joined;
    const Value::List items = evaluator.items_of(arguments.values.empty() ? Value() : arguments.values[0]);
    for (std::size_t i = 0; i < items->items.size(); ++i) {
      require(items->items[i].is_text(), ErrorKind::failed, "a value of the type {} is joined to texts",
              type_name(items->items[i]));
      if (i > 0) joined.append(text);
      joined.append(items->items[i].text());
      require(joined.bytes.size() <= evaluator.most_text_bytes(), ErrorKind::over_budget,
              "a text is longer than {} bytes", evaluator.most_text_bytes());
    }
    return evaluator.text(std::move(joined));
  }
  if (name == "format") return evaluator.text(brace_formatted(evaluator, text, arguments));
  if (name == "isdigit" || name == "isnumeric" || name == "isdecimal") return all_are(text, is_number);
  if (name == "isalpha") return all_are(text, is_letter);
  if (name == "isalnum") return all_are(text, [](char32_t c) { return is_letter(c) || is_number(c); });
  if (name == "isspace") return all_are(text, is_white_space);
  if (name == "isupper" || name == "islower")
    return changed_case(text.bytes, name == "isupper") == text.bytes &&
           changed_case(text.bytes, name == "islower") != text.bytes;
  if (name == "removeprefix" || name == "removesuffix") {
    const std::string& affix = text_argument(arguments, 0, name).bytes;
    if (name == "removeprefix" && text.bytes.starts_with(affix))
      return evaluator.text(text.part(affix.size(), text.bytes.size() - affix.size()));
    if (name == "removesuffix" && text.bytes.ends_with(affix))
      return evaluator.text(text.part(0, text.bytes.size() - affix.size()));
    return evaluator.text(text);
  }
  if (name == "partition") {
    const MarkedText& by = text_argument(arguments, 0, name);
    const std::size_t at = by.bytes.empty() ? std::string::npos : text.bytes.find(by.bytes);
    if (at == std::string::npos)
      return evaluator.list({evaluator.text(text), evaluator.text(""), evaluator.text("")}, true);
    const std::size_t end = at + by.bytes.size();
    return evaluator.list(
        {evaluator.text(text.part(0, at)), evaluator.text(by), evaluator.text(text.part(end, text.bytes.size() - end))},
        true);
  }
  if (name == "zfill") {
    const std::int64_t width = arguments.integer(0, "width", 0);
    const bool has_sign = text.bytes.starts_with('-') || text.bytes.starts_with('+');
    MarkedText result = text.part(0, has_sign ? 1 : 0);
    const std::int64_t missing =
        std::clamp<std::int64_t>(width - static_cast<std::int64_t>(text.bytes.size()), 0, 1000);
    result.append(std::string(static_cast<std::size_t>(missing), '0'));
    result.append(text, has_sign ? 1 : 0, text.bytes.size() - (has_sign ? 1 : 0));
    return evaluator.text(std::move(result));
  }
  std::vector<Value> lines;
  for (MarkedText& line : lines_of(text)) lines.push_back(evaluator.text(std::move(line)));
  return evaluator.list(std::move(lines));
}

Value dict_method(Evaluator& evaluator, const TemplateDict& dict, const std::string& name, const Arguments& arguments) {
  if (name == "get") {
    require(!arguments.values.empty(), ErrorKind::failed, "the method get needs a key");
    if (const Value* found = dict.find(arguments.values[0])) return *found;
    return arguments.values.size() > 1 ? arguments.values[1] : Value(NoneValue());
  }
  std::vector<Value> values;
  for (const auto& [key, value] : dict.items) {
    evaluator.charge(1);
    values.push_back(name == "keys" ? key : name == "values" ? value : evaluator.list({key, value}, true));
  }
  return evaluator.list(std::move(values));
}

Value list_method(Evaluator& evaluator, const TemplateList& list, const std::string& name, const Arguments& arguments) {
  if (name == "copy") return evaluator.list(list.items, list.is_tuple);
  require(!arguments.values.empty(), ErrorKind::failed, "the method {} needs a value", name);
  evaluator.charge(list.weight);
  const auto is_it = [&](const Value& item) { return are_equal(item, arguments.values[0]); };
  if (name == "count") return static_cast<std::int64_t>(std::ranges::count_if(list.items, is_it));
  const auto found = std::ranges::find_if(list.items, is_it);
  require(found != list.items.end(), ErrorKind::failed, "a value is not in the list");
  return static_cast<std::int64_t>(found - list.items.begin());
}

Value range_of(Evaluator& evaluator, const Arguments& arguments) {
  require(!arguments.values.empty(), ErrorKind::failed, "range needs a number");
  const bool has_begin = arguments.values.size() > 1;
  const std::int64_t begin = has_begin ? arguments.integer(0, "start", 0) : 0;
  const std::int64_t end = arguments.integer(has_begin ? 1 : 0, "stop", 0), step = arguments.integer(2, "step", 1);
  require(step != 0, ErrorKind::failed, "range has the step 0");
  const double count = (static_cast<double>(end) - static_cast<double>(begin)) / static_cast<double>(step);
  require(count <= static_cast<double>(kLongestRange), ErrorKind::over_budget, "a range has more than {} numbers",
          kLongestRange);
  std::vector<Value> values;
  std::int64_t number = begin;
  for (double i = 0; i < count; ++i) {
    values.emplace_back(number);
    if (__builtin_add_overflow(number, step, &number)) break;
  }
  return evaluator.list(std::move(values));
}

Value shown_time(Evaluator& evaluator, const Arguments& arguments) {
  const std::string format = arguments.string(0, "format", "");
  require(format.size() <= 1000, ErrorKind::failed, "a format of time has {} bytes, expected at most 1000",
          format.size());
  const std::time_t now =
      evaluator.options().now ? static_cast<std::time_t>(*evaluator.options().now) : std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 16'384> shown{};
  const std::size_t size = std::strftime(shown.data(), shown.size(), format.c_str(), &local);
  return evaluator.text(std::string_view(shown.data(), size));
}

}  // namespace

bool has_method(const TemplateValue& value, std::string_view name) {
  if (value.is_text()) return among(kTextMethods, name);
  if (value.is<TemplateValue::Dict>()) return among(kDictMethods, name) || among(kChanging, name);
  if (value.is<TemplateValue::List>()) return among(kListMethods, name) || among(kChanging, name);
  return value.is<TemplateValue::Loop>() && among(kLoopMethods, name);
}

bool is_global(std::string_view name) {
  constexpr std::array<std::string_view, 5> kGlobals{"namespace", "range", "dict", "raise_exception", "strftime_now"};
  return among(kGlobals, name);
}

TemplateValue TemplateEvaluator::call_method(const TemplateValue& self, const std::string& name,
                                             const TemplateArguments& arguments) {
  if (self.is_text()) {
    charge(self.text().bytes.size() / 64);
    return text_method(*this, self.text(), name, arguments);
  }
  require(!among(kChanging, name), ErrorKind::failed,
          "the method '{}' would change a value of the type {}, which templates must not", name, type_name(self));
  if (self.is<TemplateValue::Dict>()) return dict_method(*this, *self.as<TemplateValue::Dict>(), name, arguments);
  if (self.is<TemplateValue::List>()) return list_method(*this, *self.as<TemplateValue::List>(), name, arguments);
  TemplateLoop& loop = *self.as<TemplateValue::Loop>();
  if (name == "cycle") {
    require(!arguments.values.empty(), ErrorKind::failed, "the method cycle needs values");
    return arguments.values[loop.index % arguments.values.size()];
  }
  const TemplateValue now = list(arguments.values, true);
  const bool same = loop.changed != nullptr && are_equal(*loop.changed, now);
  loop.changed = std::make_shared<TemplateValue>(now);
  return !same;
}

TemplateValue TemplateEvaluator::call_global(const std::string& name, const TemplateArguments& arguments) {
  if (name == "range") return range_of(*this, arguments);
  if (name == "strftime_now") return shown_time(*this, arguments);
  if (name == "dict") {
    const std::shared_ptr<TemplateDict> made = new_dict();
    if (!arguments.values.empty()) {
      require(arguments.values[0].is<TemplateValue::Dict>(), ErrorKind::unsupported,
              "a dictionary is made of another one or of names only");
      for (const auto& [key, value] : arguments.values[0].as<TemplateValue::Dict>()->items) made->set(key, value);
    }
    for (const auto& [key, value] : arguments.named) made->set(text(key), value);
    return TemplateValue::Dict(made);
  }
  const TemplateValue* message = arguments.find(0, "message");
  fail(ErrorKind::invalid_argument, "{}", message == nullptr ? std::string() : printed_text(*message).bytes);
}

}  // namespace tessera::text
