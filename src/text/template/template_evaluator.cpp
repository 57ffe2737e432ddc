#include "text/template/template_evaluator.h"

#include <algorithm>
#include <ctime>

#include "base/error.h"
#include "text/template/template_lexer.h"

namespace tessera::text {
namespace {

constexpr int kDeepestEvaluation = 1000;
constexpr std::size_t kBytesOfStep = 256;
constexpr std::size_t kStepsOfIteration = 4;  // a scope is made for each

UndefinedValue undefined(std::string reason) {
  return {std::make_shared<const std::string>(std::move(reason))};
}

}  // namespace

// A scope while a block is executed.
struct TemplateEvaluator::Inner {
  TemplateEvaluator& evaluator;
  TemplateScope scope;
  TemplateScope* outer;

  Inner(TemplateEvaluator& of, TemplateScope* parent) : evaluator(of), outer(of.scope_) {
    scope.parent = parent;
    scope.number = ++evaluator.scopes_made_;
    evaluator.scopes_.push_back(&scope);
    evaluator.scope_ = &scope;
  }
  ~Inner() {
    evaluator.scopes_.pop_back();
    evaluator.scope_ = outer;
  }
  Inner(const Inner&) = delete;
  Inner& operator=(const Inner&) = delete;
};

TemplateEvaluator::TemplateEvaluator(const TemplateOptions& options) : options_(options) {
  ledger_.most_bytes = options.most_memory_bytes;
  scopes_.push_back(&root_);
  scope_ = &root_;
}

TemplateEvaluator::~TemplateEvaluator() {
  for (const TemplateValue::Namespace& space : namespaces_) space->items.clear();
}

void TemplateEvaluator::set_variable(const std::string& name, TemplateValue value) {
  root_.variables[name] = std::move(value);
}

RenderedChat TemplateEvaluator::run(const TemplateSyntax& syntax) {
  MarkedText output;
  out_ = &output;
  try {
    execute(syntax.body);
  } catch (Error& error) {
    error.add_context(template_place(line_));
    throw;
  }
  return {std::move(output.bytes), std::move(output.user)};
}

void TemplateEvaluator::charge(std::size_t steps) {
  steps_ += static_cast<std::int64_t>(std::min<std::size_t>(steps, std::size_t{1} << 40));
  require(steps_ <= options_.most_steps, ErrorKind::over_budget, "the template takes more than {} steps",
          options_.most_steps);
}

TemplateValue TemplateEvaluator::text(MarkedText text) {
  charge(text.bytes.size() / kBytesOfStep);
  return TemplateValue::Text(std::make_shared<const ChargedText>(std::move(text), &ledger_));
}

TemplateValue TemplateEvaluator::list(std::vector<TemplateValue> items, bool is_tuple) {
  charge(items.size() / 8);
  return TemplateValue::List(std::make_shared<const TemplateList>(std::move(items), is_tuple, &ledger_));
}

std::shared_ptr<TemplateDict> TemplateEvaluator::new_dict() {
  return std::make_shared<TemplateDict>(&ledger_);
}

MarkedText TemplateEvaluator::printed_text(const TemplateValue& value) {
  charge(weight_of(value));
  MarkedText result = printed(value, most_text_bytes());
  charge(result.bytes.size() / kBytesOfStep);
  return result;
}

void TemplateEvaluator::emit(const MarkedText& text) {
  charge(text.bytes.size() / kBytesOfStep);
  require(
      text.bytes.size() <= options_.most_output_bytes && buffered_ <= options_.most_output_bytes - text.bytes.size(),
      ErrorKind::over_budget, "the template makes a text of more than {} bytes", options_.most_output_bytes);
  buffered_ += text.bytes.size();
  out_->append(text);
}

MarkedText TemplateEvaluator::output_of(const TemplateStatement::Body& body) {
  MarkedText output;
  MarkedText* const outer = std::exchange(out_, &output);
  execute(body);
  out_ = outer;
  buffered_ -= output.bytes.size();
  return output;
}

TemplateEvaluator::Flow TemplateEvaluator::execute(const TemplateStatement::Body& body) {
  for (const TemplateStatement& statement : body)
    if (const Flow flow = execute(statement); flow != Flow::normal) return flow;
  return Flow::normal;
}

TemplateEvaluator::Flow TemplateEvaluator::execute(const TemplateStatement& statement) {
  using Kind = TemplateStatement::Kind;
  charge(1);
  line_ = statement.line;
  require(++depth_ <= kDeepestEvaluation, ErrorKind::over_budget, "the template's blocks are nested more than {} deep",
          kDeepestEvaluation);
  Flow flow = Flow::normal;
  switch (statement.kind) {
    case Kind::data:
      emit({statement.text, {}});
      break;
    case Kind::output:
      emit(printed_text(evaluate(*statement.value)));
      break;
    case Kind::choice:
      flow = choose(statement);
      break;
    case Kind::loop:
      flow = loop(statement);
      break;
    case Kind::set:
      assign(*statement.target, evaluate(*statement.value));
      break;
    case Kind::set_block: {
      TemplateValue value;
      {
        const Inner inner(*this, scope_);
        value = text(output_of(statement.bodies[0]));
      }
      if (statement.value != nullptr) {
        block_value_ = value;
        value = evaluate(*statement.value);
      }
      assign(*statement.target, std::move(value));
      break;
    }
    case Kind::macro:
      define_macro(statement);
      break;
    case Kind::call:
      call_block(statement);
      break;
    case Kind::filter: {
      const Inner inner(*this, scope_);
      block_value_ = text(output_of(statement.bodies[0]));
      emit(printed_text(evaluate(*statement.value)));
      break;
    }
    case Kind::with: {
      std::vector<TemplateValue> values;
      for (const auto& [name, value] : statement.parameters) values.push_back(evaluate(*value));
      Inner inner(*this, scope_);
      for (std::size_t i = 0; i < values.size(); ++i)
        inner.scope.variables[statement.parameters[i].first] = std::move(values[i]);
      flow = execute(statement.bodies[0]);
      break;
    }
    case Kind::group: {
      const Inner inner(*this, scope_);
      flow = execute(statement.bodies[0]);
      break;
    }
    case Kind::break_loop:
      flow = Flow::ends_loop;
      break;
    case Kind::continue_loop:
      flow = Flow::ends_iteration;
      break;
  }
  --depth_;
  return flow;
}

TemplateEvaluator::Flow TemplateEvaluator::choose(const TemplateStatement& statement) {
  for (std::size_t i = 0; i < statement.conditions.size(); ++i)
    if (statement.conditions[i] == nullptr || is_true(evaluate(*statement.conditions[i])))
      return execute(statement.bodies[i]);
  return Flow::normal;
}

TemplateEvaluator::Flow TemplateEvaluator::loop(const TemplateStatement& statement) {
  TemplateValue::List items = items_of(evaluate(*statement.value));
  if (statement.filter != nullptr) {
    std::vector<TemplateValue> kept;
    for (const TemplateValue& item : items->items) {
      const Inner inner(*this, scope_);
      assign(*statement.target, item);
      if (is_true(evaluate(*statement.filter))) kept.push_back(item);
    }
    items = list(std::move(kept)).as<TemplateValue::List>();
  }
  // A loop that outlives its block, in a namespace, has no elements.
  static const std::vector<TemplateValue> none;
  const auto state = std::make_shared<TemplateLoop>();
  state->items = &items->items;
  const auto end = [](TemplateLoop* loop) {
    loop->items = &none;
    loop->changed.reset();
  };
  const std::unique_ptr<TemplateLoop, decltype(end)> ended(state.get(), end);
  Flow flow = Flow::normal;
  for (; state->index < items->items.size() && flow != Flow::ends_loop; ++state->index) {
    charge(kStepsOfIteration);
    Inner inner(*this, scope_);
    inner.scope.variables["loop"] = TemplateValue::Loop(state);
    assign(*statement.target, items->items[state->index]);
    flow = execute(statement.bodies[0]);
  }
  if (!items->items.empty() || statement.bodies.size() < 2) return Flow::normal;
  const Inner inner(*this, scope_);
  return execute(statement.bodies[1]);
}

void TemplateEvaluator::define_macro(const TemplateStatement& statement) {
  auto macro = std::make_shared<TemplateCallable>();
  macro->kind = TemplateCallable::Kind::macro;
  macro->name = statement.text;
  macro->macro = &statement;
  macro->scope_place = static_cast<std::size_t>(std::ranges::find(scopes_, scope_) - scopes_.begin());
  macro->scope_number = scope_->number;
  scope_->variables[statement.text] = TemplateValue::Callable(macro);
}

void TemplateEvaluator::call_block(const TemplateStatement& statement) {
  auto caller = std::make_shared<TemplateCallable>();
  caller->kind = TemplateCallable::Kind::caller;
  caller->name = "caller";
  caller->macro = &statement;
  caller->scope_place = scopes_.size() - 1;
  caller->scope_number = scopes_.back()->number;
  const TemplateExpression& expression = *statement.value;
  const TemplateValue callee = evaluate(*expression.parts[0]);
  TemplateArguments arguments = arguments_of(expression, 1);
  caller_ = TemplateValue::Callable(std::move(caller));
  emit(printed_text(call(callee, std::move(arguments))));
  caller_.reset();
}

void TemplateEvaluator::assign(const TemplateExpression& target, TemplateValue value) {
  using Kind = TemplateExpression::Kind;
  if (target.kind == Kind::name) {
    scope_->variables[target.text] = std::move(value);
    return;
  }
  if (target.kind == Kind::attribute) {
    const TemplateValue space = evaluate(*target.parts[0]);
    require(space.is<TemplateValue::Namespace>(), ErrorKind::failed,
            "an attribute can be set of a namespace only, not of a value of the type {}", type_name(space));
    auto& items = space.as<TemplateValue::Namespace>()->items;
    const auto found = std::ranges::find(items, target.text, [](const auto& item) { return item.first; });
    if (found != items.end()) found->second = std::move(value);
    else {
      ledger_.add(sizeof(items[0]) + target.text.size());
      items.emplace_back(target.text, std::move(value));
    }
    return;
  }
  const TemplateValue::List items = items_of(value);
  require(items->items.size() == target.parts.size(), ErrorKind::failed, "{} values cannot be given to {} names",
          items->items.size(), target.parts.size());
  for (std::size_t i = 0; i < target.parts.size(); ++i) assign(*target.parts[i], items->items[i]);
}

TemplateValue TemplateEvaluator::call(const TemplateValue& callee, TemplateArguments arguments) {
  require(!callee.is_undefined(), ErrorKind::failed, "{}, so that it cannot be called",
          callee.is_undefined() && callee.as<UndefinedValue>().reason ? *callee.as<UndefinedValue>().reason
                                                                      : "a value is undefined");
  require(callee.is<TemplateValue::Callable>(), ErrorKind::failed, "a value of the type {} cannot be called",
          type_name(callee));
  const TemplateCallable& callable = *callee.as<TemplateValue::Callable>();
  if (callable.kind == TemplateCallable::Kind::method) return call_method(*callable.self, callable.name, arguments);
  if (callable.kind != TemplateCallable::Kind::global) return call_macro(callable, arguments);
  if (callable.name != "namespace") return call_global(callable.name, arguments);
  auto space = std::make_shared<TemplateNamespace>();
  ledger_.add(sizeof(TemplateNamespace) + 64);
  namespaces_.push_back(space);
  if (!arguments.values.empty()) {
    require(arguments.values[0].is<TemplateValue::Dict>(), ErrorKind::failed, "a namespace is made of a dictionary");
    for (const auto& [key, value] : arguments.values[0].as<TemplateValue::Dict>()->items)
      space->items.emplace_back(printed_text(key).bytes, value);
  }
  for (auto& [name, value] : arguments.named) {
    ledger_.add(sizeof(space->items[0]) + name.size());
    space->items.emplace_back(name, std::move(value));
  }
  return space;
}

TemplateValue TemplateEvaluator::call_macro(const TemplateCallable& macro, const TemplateArguments& arguments) {
  const TemplateStatement& statement = *macro.macro;
  require(macro.scope_place < scopes_.size() && scopes_[macro.scope_place]->number == macro.scope_number,
          ErrorKind::unsupported, "the macro '{}' is called outside of the block that defines it", macro.name);
  require(arguments.values.size() <= statement.parameters.size(), ErrorKind::failed,
          "the macro '{}' takes {} arguments, not {}", macro.name, statement.parameters.size(),
          arguments.values.size());
  for (const auto& [name, value] : arguments.named)
    require(std::ranges::any_of(statement.parameters, [&](const auto& each) { return each.first == name; }),
            ErrorKind::failed, "the macro '{}' takes no argument '{}'", macro.name, name);
  std::optional<TemplateValue> caller = std::exchange(caller_, std::nullopt);
  require(++depth_ <= kDeepestEvaluation, ErrorKind::over_budget, "the template's macros are nested more than {} deep",
          kDeepestEvaluation);
  Inner inner(*this, scopes_[macro.scope_place]);
  if (caller) inner.scope.variables["caller"] = std::move(*caller);
  for (std::size_t i = 0; i < statement.parameters.size(); ++i) {
    const auto& [name, otherwise] = statement.parameters[i];
    const TemplateValue* given = arguments.find(i, name);
    TemplateValue value = undefined(fmt::format("the parameter '{}' was not given", name));
    if (given != nullptr) value = *given;
    else if (otherwise != nullptr) value = evaluate(*otherwise);
    inner.scope.variables[name] = std::move(value);
  }
  TemplateValue result = text(output_of(statement.bodies[0]));
  --depth_;
  return result;
}

TemplateValue TemplateEvaluator::evaluate_name(const std::string& name) {
  for (const TemplateScope* scope = scope_; scope != nullptr; scope = scope->parent)
    if (const auto found = scope->variables.find(name); found != scope->variables.end()) return found->second;
  if (!is_global(name)) return undefined(fmt::format("'{}' is undefined", name));
  auto global = std::make_shared<TemplateCallable>();
  global->name = name;
  return TemplateValue::Callable(std::move(global));
}

const TemplateValue* TemplateArguments::find(std::size_t place, std::string_view name) const {
  if (place < values.size()) return &values[place];
  for (const auto& [key, value] : named)
    if (key == name) return &value;
  return nullptr;
}

std::int64_t TemplateArguments::integer(std::size_t place, std::string_view name, std::int64_t otherwise) const {
  const TemplateValue* value = find(place, name);
  if (value == nullptr || value->is_none()) return otherwise;
  require(value->is_integer(), ErrorKind::failed, "the argument '{}' is of the type {}, expected int", name,
          type_name(*value));
  return value->integer();
}

bool TemplateArguments::flag(std::size_t place, std::string_view name, bool otherwise) const {
  const TemplateValue* value = find(place, name);
  return value == nullptr ? otherwise : is_true(*value);
}

std::string TemplateArguments::string(std::size_t place, std::string_view name, std::string otherwise) const {
  const TemplateValue* value = find(place, name);
  if (value == nullptr) return otherwise;
  require(value->is_text(), ErrorKind::failed, "the argument '{}' is of the type {}, expected str", name,
          type_name(*value));
  return value->text().bytes;
}

}  // namespace tessera::text
