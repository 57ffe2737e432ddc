// The tests of templates, as Jinja defines them.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "text/template/template_evaluator.h"

namespace tessera::text {
namespace {

const TemplateValue& argument(const TemplateArguments& arguments) {
  require(!arguments.values.empty(), ErrorKind::failed, "the test needs an argument");
  return arguments.values.front();
}

bool all_of_case(const TemplateValue& value, bool upper) {
  return value.is_text() && changed_case(value.text().bytes, upper) == value.text().bytes &&
         changed_case(value.text().bytes, !upper) != value.text().bytes;
}

std::int64_t integer_of(const TemplateValue& value) {
  require(value.is_integer(), ErrorKind::failed, "a value of the type {} is no whole number", type_name(value));
  return value.integer();
}

struct Test {
  std::string_view name;
  bool (*run)(TemplateEvaluator&, const TemplateValue&, const TemplateArguments&);
};

constexpr std::array kTests{
    Test{"defined",
         [](TemplateEvaluator&, const TemplateValue& v, const TemplateArguments&) { return !v.is_undefined(); }},
    Test{"undefined",
         [](TemplateEvaluator&, const TemplateValue& v, const TemplateArguments&) { return v.is_undefined(); }},
    Test{"none", [](TemplateEvaluator&, const TemplateValue& v, const TemplateArguments&) { return v.is_none(); }},
    Test{"string", [](TemplateEvaluator&, const TemplateValue& v, const TemplateArguments&) { return v.is_text(); }},
    Test{"number", [](TemplateEvaluator&, const TemplateValue& v, const TemplateArguments&) { return v.is_number(); }},
    Test{"integer",
         [](TemplateEvaluator&, const TemplateValue& v, const TemplateArguments&) { return v.is<std::int64_t>(); }},
    Test{"float", [](TemplateEvaluator&, const TemplateValue& v, const TemplateArguments&) { return v.is<double>(); }},
    Test{"boolean", [](TemplateEvaluator&, const TemplateValue& v, const TemplateArguments&) { return v.is<bool>(); }},
    Test{"true", [](TemplateEvaluator&, const TemplateValue& v,
                    const TemplateArguments&) { return v.is<bool>() && v.as<bool>(); }},
    Test{"false", [](TemplateEvaluator&, const TemplateValue& v,
                     const TemplateArguments&) { return v.is<bool>() && !v.as<bool>(); }},
    Test{"mapping", [](TemplateEvaluator&, const TemplateValue& v,
                       const TemplateArguments&) { return v.is<TemplateValue::Dict>(); }},
    Test{"iterable",
         [](TemplateEvaluator&, const TemplateValue& v, const TemplateArguments&) {
           return v.is_undefined() || v.is_text() || v.is<TemplateValue::List>() || v.is<TemplateValue::Dict>() ||
                  v.is<TemplateValue::Loop>();
         }},
    Test{"sequence",
         [](TemplateEvaluator&, const TemplateValue& v, const TemplateArguments&) {
           return v.is_undefined() || v.is_text() || v.is<TemplateValue::List>() || v.is<TemplateValue::Dict>();
         }},
    Test{"callable", [](TemplateEvaluator&, const TemplateValue& v,
                        const TemplateArguments&) { return v.is<TemplateValue::Callable>(); }},
    Test{"even",
         [](TemplateEvaluator&, const TemplateValue& v, const TemplateArguments&) { return integer_of(v) % 2 == 0; }},
    Test{"odd",
         [](TemplateEvaluator&, const TemplateValue& v, const TemplateArguments&) { return integer_of(v) % 2 != 0; }},
    Test{"divisibleby",
         [](TemplateEvaluator&, const TemplateValue& v, const TemplateArguments& a) {
           const std::int64_t by = integer_of(argument(a));
           require(by != 0, ErrorKind::failed, "division by zero");
           return by == -1 || integer_of(v) % by == 0;
         }},
    Test{"eq", [](TemplateEvaluator&, const TemplateValue& v,
                  const TemplateArguments& a) { return are_equal(v, argument(a)); }},
    Test{"equalto", [](TemplateEvaluator&, const TemplateValue& v,
                       const TemplateArguments& a) { return are_equal(v, argument(a)); }},
    Test{"==", [](TemplateEvaluator&, const TemplateValue& v,
                  const TemplateArguments& a) { return are_equal(v, argument(a)); }},
    Test{"ne", [](TemplateEvaluator&, const TemplateValue& v,
                  const TemplateArguments& a) { return !are_equal(v, argument(a)); }},
    Test{"!=", [](TemplateEvaluator&, const TemplateValue& v,
                  const TemplateArguments& a) { return !are_equal(v, argument(a)); }},
    Test{"lt", [](TemplateEvaluator&, const TemplateValue& v,
                  const TemplateArguments& a) { return order_of(v, argument(a)) < 0; }},
    Test{"lessthan", [](TemplateEvaluator&, const TemplateValue& v,
                        const TemplateArguments& a) { return order_of(v, argument(a)) < 0; }},
    Test{"le", [](TemplateEvaluator&, const TemplateValue& v,
                  const TemplateArguments& a) { return order_of(v, argument(a)) <= 0; }},
    Test{"gt", [](TemplateEvaluator&, const TemplateValue& v,
                  const TemplateArguments& a) { return order_of(v, argument(a)) > 0; }},
    Test{"greaterthan", [](TemplateEvaluator&, const TemplateValue& v,
                           const TemplateArguments& a) { return order_of(v, argument(a)) > 0; }},
    Test{"ge", [](TemplateEvaluator&, const TemplateValue& v,
                  const TemplateArguments& a) { return order_of(v, argument(a)) >= 0; }},
    Test{"in", [](TemplateEvaluator& e, const TemplateValue& v,
                  const TemplateArguments& a) { return e.contains(argument(a), v); }},
    Test{"lower",
         [](TemplateEvaluator&, const TemplateValue& v, const TemplateArguments&) { return all_of_case(v, false); }},
    Test{"upper",
         [](TemplateEvaluator&, const TemplateValue& v, const TemplateArguments&) { return all_of_case(v, true); }},
};

}  // namespace

bool TemplateEvaluator::tested(const std::string& name, const TemplateValue& value,
                               const TemplateArguments& arguments) {
  const auto* found = std::ranges::find(kTests, name, &Test::name);
  require(found != kTests.end(), ErrorKind::unsupported, "the test '{}' is not known", name);
  charge(weight_of(value));
  return found->run(*this, value, arguments);
}

}  // namespace tessera::text
