// The expressions of templates.
#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "text/template/template_evaluator.h"

namespace tessera::text {
namespace {

constexpr int kDeepestCall = 1000;

UndefinedValue undefined_value(std::string reason) {
  return {std::make_shared<const std::string>(std::move(reason))};
}

TemplateValue loop_attribute(const TemplateLoop& loop, const std::string& name) {
  const auto count = static_cast<std::int64_t>(loop.items->size()), index = static_cast<std::int64_t>(loop.index);
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return count - index;
  if (name == "revindex0") return count - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 >= count;
  if (name == "length") return count;
  if (name == "depth") return std::int64_t{1};
  if (name == "depth0") return std::int64_t{0};
  if (name == "previtem" && index > 0) return (*loop.items)[loop.index - 1];
  if (name == "nextitem" && index + 1 < count) return (*loop.items)[loop.index + 1];
  return undefined_value(fmt::format("a loop has no '{}'", name));
}

// Python's rules for slices: the indices that are visited.
std::vector<std::size_t> slice_places(std::size_t size, const TemplateValue& first, const TemplateValue& last,
                                      const TemplateValue& step) {
  const auto integer = [](const TemplateValue& value, std::int64_t otherwise) {
    if (value.is_none()) return otherwise;
    require(value.is_integer(), ErrorKind::failed, "a slice begins, ends or steps at a value of the type {}",
            type_name(value));
    return value.integer();
  };
  const auto count = static_cast<std::int64_t>(size);
  const std::int64_t by = integer(step, 1);
  require(by != 0, ErrorKind::failed, "a slice has the step 0");
  const auto within = [&](std::int64_t place) {
    if (place < 0) place = place < -count ? -1 : place + count;
    return std::clamp<std::int64_t>(place, by < 0 ? -1 : 0, by < 0 ? count - 1 : count);
  };
  const std::int64_t begin = first.is_none() ? (by < 0 ? count - 1 : 0) : within(integer(first, 0));
  const std::int64_t end = last.is_none() ? (by < 0 ? -1 : count) : within(integer(last, 0));
  std::vector<std::size_t> places;
  if (by > 0 && by < count)
    for (std::int64_t i = begin; i < end; i += by) places.push_back(static_cast<std::size_t>(i));
  else if (by < 0 && by > -count)
    for (std::int64_t i = begin; i > end; i += by) places.push_back(static_cast<std::size_t>(i));
  else if (by > 0 ? begin < end : begin > end) places.push_back(static_cast<std::size_t>(begin));
  return places;
}

}  // namespace

TemplateValue TemplateEvaluator::evaluate(const TemplateExpression& expression) {
  charge(1);
  line_ = expression.line;
  require(++depth_ <= kDeepestCall, ErrorKind::over_budget, "the template's calls are nested more than {} deep",
          kDeepestCall);
  TemplateValue result = evaluate_kind(expression);
  --depth_;
  return result;
}

TemplateValue TemplateEvaluator::evaluate_kind(const TemplateExpression& expression) {
  using Kind = TemplateExpression::Kind;
  const auto part = [&](std::size_t i) { return evaluate(*expression.parts[i]); };
  switch (expression.kind) {
    case Kind::constant:
      return expression.value;
    case Kind::name:
      return evaluate_name(expression.text);
    case Kind::list:
    case Kind::tuple: {
      std::vector<TemplateValue> items;
      for (const auto& each : expression.parts) items.push_back(evaluate(*each));
      return list(std::move(items), expression.kind == Kind::tuple);
    }
    case Kind::dict:
      return evaluate_dict(expression);
    case Kind::attribute:
      return attribute_of(part(0), expression.text);
    case Kind::item: {
      const TemplateValue value = part(0);
      return item_of(value, part(1));
    }
    case Kind::slice:
      return evaluate_slice(expression);
    case Kind::call:
      return evaluate_call(expression);
    case Kind::filter:
      return evaluate_filter(expression);
    case Kind::test: {
      const TemplateValue value = part(0);
      return tested(expression.text, value, arguments_of(expression, 1));
    }
    case Kind::conditional:
      if (is_true(part(0))) return part(1);
      if (expression.parts[2] != nullptr) return part(2);
      return undefined_value("a condition is false and has no else");
    case Kind::all: {
      TemplateValue left = part(0);
      return is_true(left) ? part(1) : left;
    }
    case Kind::any: {
      TemplateValue left = part(0);
      return is_true(left) ? left : part(1);
    }
    case Kind::negation:
      return !is_true(part(0));
    case Kind::comparison:
      return compare_chain(expression);
    case Kind::arithmetic: {
      const TemplateValue left = part(0);
      return arithmetic(expression.text, left, part(1));
    }
    case Kind::sign: {
      const TemplateValue value = part(0);
      require(value.is_number(), ErrorKind::failed, "a value of the type {} has no sign", type_name(value));
      return arithmetic(expression.text, std::int64_t{0}, value);
    }
    case Kind::joined: {
      MarkedText joined;
      for (const auto& each : expression.parts) {
        joined.append(printed_text(evaluate(*each)));
        require(joined.bytes.size() <= most_text_bytes(), ErrorKind::over_budget, "a text is longer than {} bytes",
                most_text_bytes());
      }
      return text(std::move(joined));
    }
  }
  fail(ErrorKind::failed, "an expression of an unknown kind");
}

TemplateValue TemplateEvaluator::evaluate_dict(const TemplateExpression& expression) {
  const std::shared_ptr<TemplateDict> dict = new_dict();
  for (std::size_t i = 0; i + 1 < expression.parts.size(); i += 2) {
    const TemplateValue key = evaluate(*expression.parts[i]);
    dict->set(key, evaluate(*expression.parts[i + 1]));
  }
  return TemplateValue::Dict(dict);
}

TemplateValue TemplateEvaluator::evaluate_slice(const TemplateExpression& expression) {
  const TemplateValue value = evaluate(*expression.parts[0]);
  const auto part = [&](std::size_t i) {
    return expression.parts[i] == nullptr ? TemplateValue(NoneValue()) : evaluate(*expression.parts[i]);
  };
  const TemplateValue first = part(1), last = part(2), step = part(3);
  if (value.is_text()) {
    const MarkedText& whole = value.text();
    charge(whole.bytes.size() / 64);
    const auto characters = characters_of_text(whole.bytes);
    MarkedText result;
    for (const std::size_t place : slice_places(characters.size(), first, last, step))
      result.append(whole, characters[place].first, characters[place].second - characters[place].first);
    return text(std::move(result));
  }
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is<TemplateValue::List>())
    return undefined_value(fmt::format("a value of the type {} has no slices", type_name(value)));
  const TemplateList& whole = *value.as<TemplateValue::List>();
  std::vector<TemplateValue> items;
  for (const std::size_t place : slice_places(whole.items.size(), first, last, step))
    items.push_back(whole.items[place]);
  return list(std::move(items), whole.is_tuple);
}

TemplateArguments TemplateEvaluator::arguments_of(const TemplateExpression& expression, std::size_t first) {
  TemplateArguments result;
  for (std::size_t i = first; i < expression.parts.size(); ++i) result.values.push_back(evaluate(*expression.parts[i]));
  for (const auto& [name, value] : expression.named) result.named.emplace_back(name, evaluate(*value));
  return result;
}

TemplateValue TemplateEvaluator::evaluate_call(const TemplateExpression& expression) {
  const TemplateExpression& callee = *expression.parts[0];
  if (callee.kind == TemplateExpression::Kind::attribute) {
    const TemplateValue self = evaluate(*callee.parts[0]);
    if (has_method(self, callee.text)) return call_method(self, callee.text, arguments_of(expression, 1));
    return call(attribute_of(self, callee.text), arguments_of(expression, 1));
  }
  const TemplateValue function = evaluate(callee);
  return call(function, arguments_of(expression, 1));
}

TemplateValue TemplateEvaluator::evaluate_filter(const TemplateExpression& expression) {
  const TemplateValue value = expression.parts[0] == nullptr ? block_value_ : evaluate(*expression.parts[0]);
  return filtered(expression.text, value, arguments_of(expression, 1));
}

bool TemplateEvaluator::compare_chain(const TemplateExpression& expression) {
  TemplateValue left = evaluate(*expression.parts[0]);
  for (std::size_t i = 0; i < expression.operators.size(); ++i) {
    TemplateValue right = evaluate(*expression.parts[i + 1]);
    if (!compare(expression.operators[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

bool TemplateEvaluator::compare(const std::string& sign, const TemplateValue& left, const TemplateValue& right) {
  charge(std::min(weight_of(left), weight_of(right)));
  if (sign == "==") return are_equal(left, right);
  if (sign == "!=") return !are_equal(left, right);
  if (sign == "in") return contains(right, left);
  if (sign == "not in") return !contains(right, left);
  if (left.is_undefined()) fail_undefined(left);
  if (right.is_undefined()) fail_undefined(right);
  const int order = order_of(left, right);
  return sign == "<" ? order < 0 : sign == "<=" ? order <= 0 : sign == ">" ? order > 0 : order >= 0;
}

bool TemplateEvaluator::contains(const TemplateValue& container, const TemplateValue& value) {
  if (container.is_text()) {
    require(value.is_text(), ErrorKind::failed, "a value of the type {} is looked for in a text", type_name(value));
    charge(container.text().bytes.size() / 64);
    return container.text().bytes.find(value.text().bytes) != std::string::npos;
  }
  if (container.is<TemplateValue::Dict>()) return container.as<TemplateValue::Dict>()->find(value) != nullptr;
  const TemplateValue::List items = items_of(container);
  charge(weight_of(items));
  return std::ranges::any_of(items->items, [&](const TemplateValue& item) { return are_equal(item, value); });
}

TemplateValue::List TemplateEvaluator::items_of(const TemplateValue& value) {
  if (value.is<TemplateValue::List>()) return value.as<TemplateValue::List>();
  std::vector<TemplateValue> items;
  if (value.is_text()) {
    for (const auto& [first, last] : characters_of_text(value.text().bytes)) {
      charge(1);
      items.push_back(text(value.text().part(first, last - first)));
    }
  } else if (value.is<TemplateValue::Dict>()) {
    for (const auto& item : value.as<TemplateValue::Dict>()->items) items.push_back(item.first);
  } else if (!value.is_undefined()) {
    fail(ErrorKind::failed, "a value of the type {} has no elements", type_name(value));
  }
  return list(std::move(items)).as<TemplateValue::List>();
}

TemplateValue TemplateEvaluator::attribute_of(const TemplateValue& value, const std::string& name) {
  if (value.is_undefined()) fail_undefined(value);
  if (value.is<TemplateValue::Loop>()) {
    const TemplateLoop& loop = *value.as<TemplateValue::Loop>();
    if (!has_method(value, name)) return loop_attribute(loop, name);
  }
  if (value.is<TemplateValue::Namespace>()) {
    for (const auto& [key, item] : value.as<TemplateValue::Namespace>()->items)
      if (key == name) return item;
    return undefined_value(fmt::format("the namespace has no attribute '{}'", name));
  }
  if (has_method(value, name)) {
    auto method = std::make_shared<TemplateCallable>();
    method->kind = TemplateCallable::Kind::method;
    method->name = name;
    method->self = std::make_shared<const TemplateValue>(value);
    return TemplateValue::Callable(std::move(method));
  }
  if (value.is<TemplateValue::Dict>())
    if (const TemplateValue* found = value.as<TemplateValue::Dict>()->find(std::string_view(name))) return *found;
  return undefined_value(fmt::format("a value of the type {} has no attribute '{}'", type_name(value), name));
}

TemplateValue TemplateEvaluator::item_of(const TemplateValue& value, const TemplateValue& key) {
  if (value.is_undefined()) fail_undefined(value);
  if (value.is<TemplateValue::Dict>()) {
    if (key.is<TemplateValue::List>() || key.is<TemplateValue::Dict>() || key.is_undefined())
      return undefined_value("a dictionary has no such key");
    if (const TemplateValue* found = value.as<TemplateValue::Dict>()->find(key)) return *found;
  }
  if (key.is_integer()) {
    const auto place_in = [&](std::size_t size) {
      const std::int64_t place = key.integer();
      return place < 0 ? place + static_cast<std::int64_t>(size) : place;
    };
    if (value.is<TemplateValue::List>()) {
      const auto& items = value.as<TemplateValue::List>()->items;
      const std::int64_t place = place_in(items.size());
      if (place >= 0 && place < static_cast<std::int64_t>(items.size())) return items[static_cast<std::size_t>(place)];
    } else if (value.is_text()) {
      charge(value.text().bytes.size() / 64);
      const auto characters = characters_of_text(value.text().bytes);
      const std::int64_t place = place_in(characters.size());
      if (place >= 0 && place < static_cast<std::int64_t>(characters.size())) {
        const auto& [first, last] = characters[static_cast<std::size_t>(place)];
        return text(value.text().part(first, last - first));
      }
    }
    return undefined_value(fmt::format("a value of the type {} has no element {}", type_name(value), key.integer()));
  }
  if (key.is_text()) return attribute_of(value, key.text().bytes);
  return undefined_value(fmt::format("a value of the type {} has no such element", type_name(value)));
}

TemplateValue TemplateEvaluator::path_of(const TemplateValue& value, const TemplateValue& path) {
  if (path.is_integer()) return item_of(value, path);
  require(path.is_text(), ErrorKind::failed, "the name of an attribute is of the type {}", type_name(path));
  TemplateValue result = value;
  std::string_view rest = path.text().bytes;
  while (true) {
    const std::size_t dot = rest.find('.');
    const std::string name(rest.substr(0, dot));
    std::int64_t place = 0;
    const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), place);
    const bool is_place = code == std::errc() && end == name.data() + name.size();
    result = item_of(result, is_place ? TemplateValue(place) : text(name));
    if (dot == rest.npos) return result;
    rest.remove_prefix(dot + 1);
  }
}

}  // namespace tessera::text
