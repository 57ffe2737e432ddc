// Prints the signature of every operator, a line a parameter: operator, "input" or "output", name, option, type
// variable ("-": none) and the allowed element types ("any" where sequences and the like may flow as well), apart by
// tabs. A line an attribute: operator, "attribute", name, whether it is required, kind, and the default ("-": none).
// For signatures.py.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ops/op_table.h"

namespace {

const char* text_of(tessera::ops::Parameter::Option option) {
  using enum tessera::ops::Parameter::Option;
  return option == required ? "required" : option == optional ? "optional" : "variadic";
}

// Numbers, texts and lists of numbers; "-" for other defaults.
struct DefaultText {
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(float value) const { return fmt::format("{}", value); }
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(const std::vector<std::int64_t>& values) const {
    return fmt::format("{}", fmt::join(values, " "));
  }
  std::string operator()(const std::vector<float>& values) const { return fmt::format("{}", fmt::join(values, " ")); }
  template <typename T>
  std::string operator()(const T&) const {
    return "-";
  }
};

}  // namespace

int main() {
  for (const tessera::ops::OpDef* op : tessera::ops::all_ops()) {
    for (const auto& [side, parameters] : {std::pair{"input", &op->inputs}, std::pair{"output", &op->outputs}}) {
      for (const tessera::ops::Parameter& parameter : *parameters) {
        fmt::print("{}\t{}\t{}\t{}\t{}\t{}\n", op->name, side, parameter.name, text_of(parameter.option),
                   parameter.variable.empty() ? "-" : parameter.variable,
                   parameter.any_kind ? "any" : to_string(parameter.types));
      }
    }
    for (const tessera::ops::AttributeSpec& attribute : op->attributes) {
      fmt::print("{}\tattribute\t{}\t{}\t{}\t{}\n", op->name, attribute.name,
                 attribute.required ? "required" : "optional", to_string(attribute.kind),
                 attribute.default_value ? std::visit(DefaultText{}, *attribute.default_value) : "-");
    }
  }
}
