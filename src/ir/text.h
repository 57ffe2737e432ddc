// The text form of a graph: for people, for tests of passes, and exact: parse(print(graph)) equals graph.
//
//   graph "tiny" {
//     metadata "producer" = "someone"
//     input %x : f32[batch, 2]
//     constant %w = f32[2, 2] {1, 2, 3, 4}
//     variable %state "counter" = i64[] {0} update %next
//     %y, none = Split "halves" (%x, none) {axis = 1, num_outputs = 2} : f32[batch, 1]
//     %z = If "choice" (%flag) captures (%y) {else_branch = graph { … }, then_branch = graph { … }}
//     output %y, %z
//   }
//
// Grammar (`#` starts a comment, line breaks are spaces):
//   graph     = "graph" [STRING] "{" item* "}"
//   item      = "metadata" STRING "=" STRING | "input" value ":" type | "constant" value "=" tensor
//             | "variable" value [STRING] "=" tensor ["update" value] | "output" values | node
//   node      = ("()" | values) "=" op [STRING] "(" [values] ")" ["captures" "(" values ")"]
//               ["{" attributes "}"] [":" types]
//   values    = value ("," value)*
//   value     = "%" (WORD | STRING) | "none" (absent: in nodes only)
//   op        = WORD | STRING, then the node's name
//   type      = DTYPE "[" ("*" | [dim ("," dim)*]) "]" | "seq(" type ")" | "optional(" type ")"
//             | "map(" DTYPE "," type ")"
//   dim       = INTEGER | WORD | STRING (a name) | "?"
//   tensor    = DTYPE "[" sizes "]" "{" elements "}" | "none"
//   attribute = (WORD | STRING) "=" (INTEGER | REAL | STRING | tensor | graph | "type" type | "[" list "]"
//             | ("integers" | "floats" | "strings" | "tensors") "[]")
// The types of a node's outputs are listed for the wanted outputs, or omitted altogether. A REAL attribute has a point
// or an exponent, or is inf or nan; "nan(0x7fc00001)" states the bits of an unusual NaN. Numbers are the shortest that
// read back exactly. Complex elements are "(re, im)". A variable's name is omitted if it equals that of its value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ir/graph.h"

namespace tessera::ir {

struct PrintOptions {
  // Tensors with more elements end in "..." after this many; such text does not parse. Nothing: print all.
  std::optional<std::int64_t> max_constant_elements = std::nullopt;
};

// Any graph that verify() accepts prints and parses back to an equal one.
std::string print(const Graph& graph, const PrintOptions& options = {});
std::string print(const ValueType& type);
// "{axis = 1, mode = "linear"}"
std::string print(const Attributes& attributes);

// Throws Error(invalid_model) with line and column for malformed text, and what verify() throws for a graph that breaks
// its rules. Safe on any input: memory grows with the text's length only, nesting is limited.
Graph parse(std::string_view text);

}  // namespace tessera::ir
