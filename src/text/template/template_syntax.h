// A template as a tree.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/template_value.h"

namespace tessera::text {

struct TemplateExpression {
  enum class Kind {
    constant,     // value
    name,         // text
    list,         // parts
    tuple,        // parts
    dict,         // parts: key, value, key, value …
    attribute,    // parts[0].text
    item,         // parts[0][parts[1]]
    slice,        // parts[0][parts[1]:parts[2]:parts[3]], each but the first may be null
    call,         // parts[0](parts[1] …, named)
    filter,       // parts[0] | text(parts[1] …, named); parts[0] may be null: the body of a block
    test,         // parts[0] is text(parts[1] …)
    conditional,  // parts[1] if parts[0] else parts[2], which may be null
    all,          // parts[0] and parts[1]
    any,          // parts[0] or parts[1]
    negation,     // not parts[0]
    comparison,   // parts[0] operators[0] parts[1] operators[1] parts[2] …
    arithmetic,   // parts[0] text parts[1]
    sign,         // text parts[0]
    joined,       // parts[0] ~ parts[1] ~ …
  };
  using Pointer = std::unique_ptr<TemplateExpression>;

  Kind kind = Kind::constant;
  int line = 0, depth = 1;
  std::string text;
  TemplateValue value;
  std::vector<Pointer> parts;
  std::vector<std::pair<std::string, Pointer>> named;
  std::vector<std::string> operators;
};

struct TemplateStatement {
  enum class Kind {
    output,     // {{ value }}
    data,       // text
    choice,     // if: branches
    loop,       // for target in value if filter: bodies[0], else bodies[1]
    set,        // set target = value
    set_block,  // set target: bodies[0], through value (a filter or null)
    macro,      // macro text(parameters): bodies[0]
    call,       // call(parameters) value: bodies[0]
    filter,     // filter value: bodies[0]
    with,       // with parameters: bodies[0]
    group,      // a block that is only a scope (generation): bodies[0]
    break_loop,
    continue_loop,
  };
  using Body = std::vector<TemplateStatement>;

  Kind kind = Kind::data;
  int line = 0;
  std::string text;
  TemplateExpression::Pointer target, value, filter;
  std::vector<std::pair<std::string, TemplateExpression::Pointer>> parameters;  // with their defaults, or null
  std::vector<TemplateExpression::Pointer> conditions;  // of a choice: one per body, the last may be null
  std::vector<Body> bodies;
};

struct TemplateSyntax {
  TemplateStatement::Body body;
};

// Throws Error as ChatTemplate says.
TemplateSyntax parse_template(std::string_view source);

}  // namespace tessera::text
