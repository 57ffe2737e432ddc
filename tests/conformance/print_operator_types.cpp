// Prints the element types that every operator allows, a line a parameter: operator, "input" or "output", name, option, type variable
// ("-": none) and the types ("any" where sequences and the like may flow as well), apart by tabs. For allowed_types.py.
#include <fmt/format.h>

#include "ops/op_table.h"

namespace {

const char* text_of(tessera::ops::Parameter::Option option) {
  using enum tessera::ops::Parameter::Option;
  return option == required ? "required" : option == optional ? "optional" : "variadic";
}

}  // namespace

int main() {
  for (const tessera::ops::OpDef* op : tessera::ops::all_ops()) {
    for (const auto& [side, parameters] : {std::pair{"input", &op->inputs}, std::pair{"output", &op->outputs}}) {
      for (const tessera::ops::Parameter& parameter : *parameters) {
        fmt::print("{}\t{}\t{}\t{}\t{}\t{}\n", op->name, side, parameter.name, text_of(parameter.option), parameter.variable.empty() ? "-" : parameter.variable,
                   parameter.any_kind ? "any" : to_string(parameter.types));
      }
    }
  }
}
