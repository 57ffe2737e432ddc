// The operators of templates on numbers, texts and lists.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "text/template/template_evaluator.h"

namespace tessera::text {
namespace {

std::int64_t checked(const std::string& sign, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  const bool overflows = sign == "+"   ? __builtin_add_overflow(a, b, &result)
                         : sign == "-" ? __builtin_sub_overflow(a, b, &result)
                                       : __builtin_mul_overflow(a, b, &result);
  require(!overflows, ErrorKind::failed, "{} {} {} is beyond 64 bits", a, sign, b);
  return result;
}

std::int64_t floor_divided(std::int64_t a, std::int64_t b) {
  require(b != 0, ErrorKind::failed, "division by zero");
  require(a != std::numeric_limits<std::int64_t>::min() || b != -1, ErrorKind::failed, "a quotient is beyond 64 bits");
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

TemplateValue computed(const std::string& sign, const TemplateValue& left, const TemplateValue& right) {
  if (left.is_integer() && right.is_integer() && sign != "/") {
    const std::int64_t a = left.integer(), b = right.integer();
    if (sign == "//") return floor_divided(a, b);
    if (sign == "%") return a - checked("*", floor_divided(a, b), b);
    if (sign != "**") return checked(sign, a, b);
    if (b >= 0) {
      std::int64_t power = 1;
      for (std::int64_t i = 0; i < b && power != 0 && (a != 1 && a != -1); ++i) power = checked("*", power, a);
      return a == -1 ? (b % 2 == 0 ? std::int64_t{1} : std::int64_t{-1}) : power;
    }
  }
  const double a = left.number(), b = right.number();
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "**") return std::pow(a, b);
  require(b != 0, ErrorKind::failed, "division by zero");
  if (sign == "/") return a / b;
  const double quotient = std::floor(a / b);
  return sign == "//" ? quotient : a - quotient * b;
}

MarkedText escaped_text(const MarkedText& text) {
  MarkedText result;
  for (std::size_t i = 0; i < text.bytes.size(); ++i) {
    switch (text.bytes[i]) {
      case '&':
        result.append("&amp;");
        break;
      case '<':
        result.append("&lt;");
        break;
      case '>':
        result.append("&gt;");
        break;
      case '"':
        result.append("&#34;");
        break;
      case '\'':
        result.append("&#39;");
        break;
      default:
        result.append(text, i, 1);
    }
  }
  return result;
}

}  // namespace

void fail_undefined(const TemplateValue& value) {
  const auto& reason = value.as<UndefinedValue>().reason;
  fail(ErrorKind::failed, "{}", reason != nullptr ? *reason : "a value is undefined");
}

TemplateValue TemplateEvaluator::arithmetic(const std::string& sign, const TemplateValue& left,
                                            const TemplateValue& right) {
  if (left.is_number() && right.is_number()) return computed(sign, left, right);
  if (left.is_undefined()) fail_undefined(left);
  if (sign == "%" && left.is_text()) {
    const bool is_tuple = right.is<TemplateValue::List>() && right.as<TemplateValue::List>()->is_tuple;
    const std::vector<TemplateValue> values =
        is_tuple ? right.as<TemplateValue::List>()->items : std::vector<TemplateValue>{right};
    return text(percent_formatted(*this, left.text(), values));
  }
  if (right.is_undefined()) fail_undefined(right);
  if (sign == "+" && left.is_text() && right.is_text()) {
    const MarkedText &a = left.text(), &b = right.text();
    const bool is_markup = a.is_markup || b.is_markup;
    MarkedText joined = is_markup && !a.is_markup ? escaped_text(a) : a;
    joined.append(is_markup && !b.is_markup ? escaped_text(b) : b);
    joined.is_markup = is_markup;
    return text(std::move(joined));
  }
  const bool both_lists = left.is<TemplateValue::List>() && right.is<TemplateValue::List>();
  if (sign == "+" && both_lists &&
      left.as<TemplateValue::List>()->is_tuple == right.as<TemplateValue::List>()->is_tuple) {
    std::vector<TemplateValue> items = left.as<TemplateValue::List>()->items;
    const auto& more = right.as<TemplateValue::List>()->items;
    items.insert(items.end(), more.begin(), more.end());
    return list(std::move(items), left.as<TemplateValue::List>()->is_tuple);
  }
  if (sign == "*" && (left.is_integer() || right.is_integer())) {
    const TemplateValue& what = left.is_integer() ? right : left;
    const std::int64_t given = left.is_integer() ? left.integer() : right.integer();
    const auto count = static_cast<std::size_t>(std::max<std::int64_t>(given, 0));
    const std::size_t size = what.is_text()                   ? what.text().bytes.size()
                             : what.is<TemplateValue::List>() ? what.as<TemplateValue::List>()->items.size() * 32
                                                              : 0;
    require(size == 0 || count <= most_text_bytes() / size, ErrorKind::over_budget,
            "a repeated value takes more than {} bytes", most_text_bytes());
    charge(count / 8);
    if (what.is_text()) {
      MarkedText repeated;
      for (std::size_t i = 0; i < count && size > 0; ++i) repeated.append(what.text());
      return text(std::move(repeated));
    }
    if (what.is<TemplateValue::List>()) {
      std::vector<TemplateValue> items;
      const auto& once = what.as<TemplateValue::List>()->items;
      for (std::size_t i = 0; i < count && size > 0; ++i) items.insert(items.end(), once.begin(), once.end());
      return list(std::move(items), what.as<TemplateValue::List>()->is_tuple);
    }
  }
  fail(ErrorKind::failed, "the types {} and {} have no operation {}", type_name(left), type_name(right), sign);
}

}  // namespace tessera::text
