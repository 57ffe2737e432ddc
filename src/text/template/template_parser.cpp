// Parses templates by recursive descent.
// Length: one class, a function for each rule of the grammar.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "text/template/template_lexer.h"
#include "text/template/template_syntax.h"

namespace tessera::text {
namespace {

constexpr int kDeepestExpression = 250, kDeepestBlock = 100;

using Expression = TemplateExpression;
using Pointer = TemplateExpression::Pointer;
using Statement = TemplateStatement;

class TemplateParser {
 public:
  explicit TemplateParser(std::string_view source) : tokens_(lex_template(source)) {}

  Statement::Body run() {
    Statement::Body body = parse_body({});
    if (peek().kind != Kind::end) fail_here(fmt::format("unexpected '{}'", peek().text));
    return body;
  }

 private:
  using Kind = TemplateToken::Kind;

  [[noreturn]] void fail_here(const std::string& reason, ErrorKind kind = ErrorKind::invalid_model) const {
    Error error(kind, reason);
    error.add_context(template_place(peek().line));
    throw error;
  }

  const TemplateToken& peek(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  TemplateToken take() { return tokens_[std::min(at_++, tokens_.size() - 1)]; }
  bool skip_sign(std::string_view sign) { return peek().is_sign(sign) && (++at_, true); }
  bool skip_name(std::string_view name) { return peek().is_name(name) && (++at_, true); }

  std::string shown() const {
    return peek().kind == Kind::end ? "the end" : peek().text.empty() ? "the end of the tag" : "'" + peek().text + "'";
  }
  void expect_sign(std::string_view sign) {
    if (!skip_sign(sign)) fail_here(fmt::format("expected '{}', found {}", sign, shown()));
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) fail_here(fmt::format("expected '{}', found {}", name, shown()));
  }
  std::string expect_any_name() {
    if (peek().kind != Kind::name) fail_here(fmt::format("expected a name, found {}", shown()));
    return take().text;
  }
  void expect_end_block() {
    if (peek().kind != Kind::end_block) fail_here(fmt::format("expected the end of the block, found {}", shown()));
    ++at_;
  }

  // Counts the nesting of what is parsed, and of the trees that loops make.
  struct Level {
    TemplateParser& parser;
    int& count;
    Level(TemplateParser& of, int& counted, int most) : parser(of), count(counted) {
      if (++count > most) {
        --count;
        parser.fail_here(fmt::format("the template is nested more than {} deep", most), ErrorKind::over_budget);
      }
    }
    ~Level() { --count; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
  };

  template <typename... Parts>
  Pointer make(Expression::Kind kind, std::string text, Parts... parts) {
    auto result = std::make_unique<Expression>();
    result->kind = kind;
    result->line = peek().line;
    result->text = std::move(text);
    (add_part(*result, std::move(parts)), ...);
    return result;
  }

  void add_part(Expression& to, Pointer part) {
    if (part != nullptr) to.depth = std::max(to.depth, part->depth + 1);
    if (to.depth > kDeepestExpression)
      fail_here(fmt::format("an expression is nested more than {} deep", kDeepestExpression), ErrorKind::over_budget);
    to.parts.push_back(std::move(part));
  }

  void add_named(Expression& to, std::string name, Pointer part) {
    to.depth = std::max(to.depth, part->depth + 1);
    if (to.depth > kDeepestExpression)
      fail_here(fmt::format("an expression is nested more than {} deep", kDeepestExpression), ErrorKind::over_budget);
    to.named.emplace_back(std::move(name), std::move(part));
  }

  Pointer constant(TemplateValue value) {
    Pointer result = make(Expression::Kind::constant, "");
    result->value = std::move(value);
    return result;
  }

  Pointer parse_expression(bool with_condition = true) {
    const Level level(*this, depth_, kDeepestExpression);
    if (!with_condition) return parse_any();
    Pointer value = parse_any();
    while (skip_name("if")) {
      Pointer condition = parse_any();
      Pointer otherwise = skip_name("else") ? parse_expression() : nullptr;
      value = make(Expression::Kind::conditional, "", std::move(condition), std::move(value), std::move(otherwise));
    }
    return value;
  }

  Pointer parse_any() {
    Pointer left = parse_all();
    while (skip_name("or")) left = make(Expression::Kind::any, "", std::move(left), parse_all());
    return left;
  }

  Pointer parse_all() {
    Pointer left = parse_negation();
    while (skip_name("and")) left = make(Expression::Kind::all, "", std::move(left), parse_negation());
    return left;
  }

  Pointer parse_negation() {
    const Level level(*this, depth_, kDeepestExpression);
    if (skip_name("not")) return make(Expression::Kind::negation, "", parse_negation());
    return parse_comparison();
  }

  std::string comparison_operator() {
    for (const std::string_view sign : {"==", "!=", ">=", "<=", ">", "<"})
      if (skip_sign(sign)) return std::string(sign);
    if (skip_name("in")) return "in";
    if (peek().is_name("not") && peek(1).is_name("in")) {
      at_ += 2;
      return "not in";
    }
    return {};
  }

  Pointer parse_comparison() {
    Pointer left = parse_sum();
    std::string sign = comparison_operator();
    if (sign.empty()) return left;
    Pointer result = make(Expression::Kind::comparison, "", std::move(left));
    for (; !sign.empty(); sign = comparison_operator()) {
      result->operators.push_back(std::move(sign));
      add_part(*result, parse_sum());
    }
    return result;
  }

  Pointer parse_sum() {
    Pointer left = parse_joined();
    while (peek().is_sign("+") || peek().is_sign("-")) {
      const std::string sign = take().text;
      left = make(Expression::Kind::arithmetic, sign, std::move(left), parse_joined());
    }
    return left;
  }

  Pointer parse_joined() {
    Pointer left = parse_product();
    if (!peek().is_sign("~")) return left;
    Pointer result = make(Expression::Kind::joined, "", std::move(left));
    while (skip_sign("~")) add_part(*result, parse_product());
    return result;
  }

  Pointer parse_product() {
    Pointer left = parse_power();
    while (peek().is_sign("*") || peek().is_sign("/") || peek().is_sign("//") || peek().is_sign("%")) {
      const std::string sign = take().text;
      left = make(Expression::Kind::arithmetic, sign, std::move(left), parse_power());
    }
    return left;
  }

  Pointer parse_power() {
    Pointer left = parse_unary(true);
    while (skip_sign("**")) left = make(Expression::Kind::arithmetic, "**", std::move(left), parse_unary(true));
    return left;
  }

  Pointer parse_unary(bool with_filter) {
    const Level level(*this, depth_, kDeepestExpression);
    Pointer value;
    if (peek().is_sign("-") || peek().is_sign("+")) {
      const std::string sign = take().text;
      value = make(Expression::Kind::sign, sign, parse_unary(false));
    } else {
      value = parse_primary();
    }
    value = parse_postfix(std::move(value));
    return with_filter ? parse_filters(std::move(value)) : std::move(value);
  }

  Pointer parse_primary() {
    const TemplateToken token = peek();
    if (token.kind == Kind::name) {
      ++at_;
      if (token.text == "true" || token.text == "True") return constant(true);
      if (token.text == "false" || token.text == "False") return constant(false);
      if (token.text == "none" || token.text == "None") return constant(NoneValue());
      return make(Expression::Kind::name, token.text);
    }
    if (token.kind == Kind::text) {
      std::string text;
      while (peek().kind == Kind::text) text += take().text;
      return constant(make_constant_text(std::move(text)));
    }
    if (token.kind == Kind::integer) return ++at_, constant(token.integer);
    if (token.kind == Kind::number) return ++at_, constant(token.number);
    if (skip_sign("(")) {
      Pointer result = parse_tuple(true, true);
      expect_sign(")");
      return result;
    }
    if (skip_sign("[")) {
      Pointer result = make(Expression::Kind::list, "");
      while (!peek().is_sign("]")) {
        if (!result->parts.empty()) expect_sign(",");
        if (peek().is_sign("]")) break;
        add_part(*result, parse_expression());
      }
      expect_sign("]");
      return result;
    }
    if (skip_sign("{")) {
      Pointer result = make(Expression::Kind::dict, "");
      while (!peek().is_sign("}")) {
        if (!result->parts.empty()) expect_sign(",");
        if (peek().is_sign("}")) break;
        add_part(*result, parse_expression());
        expect_sign(":");
        add_part(*result, parse_expression());
      }
      expect_sign("}");
      return result;
    }
    fail_here(fmt::format("expected a value, found {}", shown()));
  }

  // One value, or several with commas between as a tuple.
  Pointer parse_tuple(bool with_condition, bool in_brackets = false) {
    const auto ends = [&] {
      return peek().kind == Kind::end_block || peek().kind == Kind::end_output || peek().is_sign(")") ||
             peek().is_name("in") || peek().is_name("recursive");
    };
    if (in_brackets && peek().is_sign(")")) return make(Expression::Kind::tuple, "");
    Pointer first = parse_expression(with_condition);
    if (!peek().is_sign(",")) return first;
    Pointer result = make(Expression::Kind::tuple, "", std::move(first));
    while (skip_sign(",")) {
      if (ends()) break;
      add_part(*result, parse_expression(with_condition));
    }
    return result;
  }

  Pointer parse_postfix(Pointer value) {
    while (true) {
      if (skip_sign(".")) {
        if (peek().kind == Kind::integer)
          value = make(Expression::Kind::item, "", std::move(value), constant(take().integer));
        else value = make(Expression::Kind::attribute, expect_any_name(), std::move(value));
      } else if (skip_sign("[")) {
        value = parse_item(std::move(value));
      } else if (peek().is_sign("(")) {
        value = make(Expression::Kind::call, "", std::move(value));
        parse_arguments(*value);
      } else {
        return value;
      }
    }
  }

  Pointer parse_item(Pointer value) {
    Pointer first = peek().is_sign(":") ? nullptr : parse_expression();
    if (skip_sign("]")) return make(Expression::Kind::item, "", std::move(value), std::move(first));
    if (peek().is_sign(",")) fail_here("several indices are not supported", ErrorKind::unsupported);
    expect_sign(":");
    const auto part = [&]() -> Pointer {
      return peek().is_sign(":") || peek().is_sign("]") ? nullptr : parse_expression();
    };
    Pointer last = part();
    Pointer step = skip_sign(":") ? part() : nullptr;
    expect_sign("]");
    return make(Expression::Kind::slice, "", std::move(value), std::move(first), std::move(last), std::move(step));
  }

  void parse_arguments(Expression& to) {
    expect_sign("(");
    for (bool first = true; !skip_sign(")"); first = false) {
      if (!first) {
        expect_sign(",");
        if (skip_sign(")")) return;
      }
      if (peek().is_sign("*") || peek().is_sign("**"))
        fail_here("arguments from a list or a dictionary (*) are not supported", ErrorKind::unsupported);
      if (peek().kind == Kind::name && peek(1).is_sign("=")) {
        std::string name = take().text;
        ++at_;
        add_named(to, std::move(name), parse_expression());
      } else {
        if (!to.named.empty()) fail_here("an argument without a name follows one with a name");
        add_part(to, parse_expression());
      }
    }
  }

  Pointer parse_filters(Pointer value) {
    while (true) {
      if (skip_sign("|")) {
        value = make(Expression::Kind::filter, expect_any_name(), std::move(value));
        if (peek().is_sign("(")) parse_arguments(*value);
      } else if (skip_name("is")) {
        value = parse_test(std::move(value));
      } else if (peek().is_sign("(")) {
        value = make(Expression::Kind::call, "", std::move(value));
        parse_arguments(*value);
      } else {
        return value;
      }
    }
  }

  Pointer parse_test(Pointer value) {
    const bool negated = skip_name("not");
    Pointer test = make(Expression::Kind::test, expect_any_name(), std::move(value));
    const TemplateToken& next = peek();
    const bool begins_argument =
        next.kind == Kind::text || next.kind == Kind::integer || next.kind == Kind::number || next.is_sign("[") ||
        next.is_sign("{") ||
        (next.kind == Kind::name && !next.is_name("else") && !next.is_name("or") && !next.is_name("and"));
    if (next.is_sign("(")) {
      parse_arguments(*test);
    } else if (begins_argument) {
      if (next.is_name("is")) fail_here("tests cannot follow each other with 'is'");
      add_part(*test, parse_postfix(parse_primary()));
    }
    return negated ? make(Expression::Kind::negation, "", std::move(test)) : std::move(test);
  }

  // A name, an attribute of a namespace, or a tuple of names.
  Pointer parse_target(bool with_attribute) {
    const auto one = [&] {
      if (skip_sign("(")) {
        Pointer inner = parse_target(false);
        expect_sign(")");
        return inner;
      }
      return make(Expression::Kind::name, expect_any_name());
    };
    const Level level(*this, depth_, kDeepestExpression);
    Pointer first = one();
    if (with_attribute && skip_sign(".")) return make(Expression::Kind::attribute, expect_any_name(), std::move(first));
    if (!peek().is_sign(",")) return first;
    Pointer result = make(Expression::Kind::tuple, "", std::move(first));
    while (skip_sign(",")) {
      if (peek().kind != Kind::name || peek().is_name("in")) break;
      add_part(*result, one());
    }
    return result;
  }

  // The statements up to a block with one of the names, which is left to the caller.
  Statement::Body parse_body(const std::vector<std::string_view>& ends) {
    const Level level(*this, blocks_, kDeepestBlock);
    Statement::Body body;
    while (peek().kind != Kind::end) {
      Statement statement;
      statement.line = peek().line;
      if (peek().kind == Kind::data) {
        statement.text = take().text;
      } else if (peek().kind == Kind::begin_output) {
        ++at_;
        statement.kind = Statement::Kind::output;
        statement.value = parse_tuple(true);
        if (peek().kind != Kind::end_output) fail_here(fmt::format("expected '}}}}', found {}", shown()));
        ++at_;
      } else {
        ++at_;  // the begin of a block
        if (peek().kind != Kind::name) fail_here(fmt::format("expected the name of a tag, found {}", shown()));
        if (std::ranges::find(ends, peek().text) != ends.end()) return body;
        parse_statement(statement);
      }
      body.push_back(std::move(statement));
    }
    if (!ends.empty()) fail_here(fmt::format("the template ends inside a block, expected '{}'", ends.back()));
    return body;
  }

  Statement::Body parse_body_to(std::string_view end) {
    expect_end_block();
    Statement::Body body = parse_body({end});
    expect_name(end);
    expect_end_block();
    return body;
  }

  void parse_statement(Statement& statement) {
    const std::string name = peek().text;
    const auto simple = [&](Statement::Kind kind) {
      statement.kind = kind;
      expect_end_block();
    };
    if (name.starts_with("end") || name == "elif" || name == "else") fail_here(fmt::format("unexpected '{}'", name));
    ++at_;
    if (name == "if") return parse_choice(statement);
    if (name == "for") return parse_loop(statement);
    if (name == "set") return parse_set(statement);
    if (name == "macro" || name == "call") return parse_macro(statement, name == "macro");
    if (name == "break" || name == "continue") {
      if (loops_ == 0) fail_here(fmt::format("'{}' stands outside of a loop", name));
      return simple(name == "break" ? Statement::Kind::break_loop : Statement::Kind::continue_loop);
    }
    if (name == "filter") {
      statement.kind = Statement::Kind::filter;
      statement.value = parse_block_filter();
      statement.bodies.push_back(parse_body_to("endfilter"));
      return;
    }
    if (name == "generation") {
      statement.kind = Statement::Kind::group;
      statement.bodies.push_back(parse_body_to("endgeneration"));
      return;
    }
    if (name == "with") {
      statement.kind = Statement::Kind::with;
      while (peek().kind != Kind::end_block) {
        if (!statement.parameters.empty()) expect_sign(",");
        std::string variable = expect_any_name();
        expect_sign("=");
        statement.parameters.emplace_back(std::move(variable), parse_expression());
      }
      statement.bodies.push_back(parse_body_to("endwith"));
      return;
    }
    --at_;
    fail_here(fmt::format("the tag '{}' is not supported", name), ErrorKind::unsupported);
  }

  // "upper | indent(2)" of a block, applied to its body.
  Pointer parse_block_filter() {
    Pointer value = make(Expression::Kind::filter, expect_any_name(), Pointer());
    if (peek().is_sign("(")) parse_arguments(*value);
    return parse_filters(std::move(value));
  }

  void parse_choice(Statement& statement) {
    statement.kind = Statement::Kind::choice;
    statement.conditions.push_back(parse_tuple(false));
    while (true) {
      expect_end_block();
      statement.bodies.push_back(parse_body({"elif", "else", "endif"}));
      if (skip_name("elif")) {
        statement.conditions.push_back(parse_tuple(false));
        continue;
      }
      if (skip_name("else")) {
        statement.conditions.push_back(nullptr);
        statement.bodies.push_back(parse_body_to("endif"));
        return;
      }
      expect_name("endif");
      expect_end_block();
      return;
    }
  }

  void parse_loop(Statement& statement) {
    statement.kind = Statement::Kind::loop;
    statement.target = parse_target(false);
    expect_name("in");
    statement.value = parse_tuple(false);
    if (skip_name("if")) statement.filter = parse_expression();
    if (peek().is_name("recursive")) fail_here("recursive loops are not supported", ErrorKind::unsupported);
    expect_end_block();
    ++loops_;
    statement.bodies.push_back(parse_body({"else", "endfor"}));
    --loops_;
    if (skip_name("else")) {
      statement.bodies.push_back(parse_body_to("endfor"));
      return;
    }
    expect_name("endfor");
    expect_end_block();
  }

  void parse_set(Statement& statement) {
    statement.target = parse_target(true);
    if (skip_sign("=")) {
      statement.kind = Statement::Kind::set;
      statement.value = parse_tuple(true);
      expect_end_block();
      return;
    }
    statement.kind = Statement::Kind::set_block;
    if (skip_sign("|")) statement.value = parse_block_filter();
    statement.bodies.push_back(parse_body_to("endset"));
  }

  void parse_macro(Statement& statement, bool is_macro) {
    statement.kind = is_macro ? Statement::Kind::macro : Statement::Kind::call;
    if (is_macro) statement.text = expect_any_name();
    if (is_macro || peek().is_sign("(")) {
      expect_sign("(");
      for (bool first = true; !skip_sign(")"); first = false) {
        if (!first) {
          expect_sign(",");
          if (skip_sign(")")) break;
        }
        std::string name = expect_any_name();
        statement.parameters.emplace_back(std::move(name), skip_sign("=") ? parse_expression() : nullptr);
      }
    }
    if (!is_macro) {
      statement.value = parse_unary(true);
      if (statement.value->kind != Expression::Kind::call) fail_here("the tag 'call' needs a call");
    }
    const int outer = std::exchange(loops_, 0);
    statement.bodies.push_back(parse_body_to(is_macro ? "endmacro" : "endcall"));
    loops_ = outer;
  }

  std::vector<TemplateToken> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0, blocks_ = 0, loops_ = 0;
};

}  // namespace

TemplateSyntax parse_template(std::string_view source) {
  return {TemplateParser(source).run()};
}

}  // namespace tessera::text
