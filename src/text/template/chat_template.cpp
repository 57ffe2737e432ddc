#include "text/template/chat_template.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json_nesting.h"
#include "text/template/template_evaluator.h"
#include "text/template/template_syntax.h"

namespace tessera::text {
namespace {

constexpr int kDeepestVariable = 100;
constexpr std::size_t kMostSourceBytes = std::size_t{4} << 20;

TemplateValue value_of(const nlohmann::ordered_json& json, bool from_user, int depth) {
  require(depth < kDeepestVariable, ErrorKind::over_budget,
          "a variable of the chat template is nested more than {} deep", kDeepestVariable);
  if (json.is_string()) return make_constant_text(json.get<std::string>(), from_user);
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
    return json.get<double>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_array()) {
    std::vector<TemplateValue> items;
    for (const auto& item : json) items.push_back(value_of(item, from_user, depth + 1));
    return TemplateValue::List(std::make_shared<const TemplateList>(std::move(items), false, nullptr));
  }
  if (json.is_object()) {
    const auto dict = std::make_shared<TemplateDict>(nullptr);
    for (const auto& [key, item] : json.items())
      dict->set(make_constant_text(key, from_user), value_of(item, from_user, depth + 1));
    return TemplateValue::Dict(dict);
  }
  return NoneValue();
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source) {
  require(source.size() <= kMostSourceBytes, ErrorKind::over_budget,
          "the chat template has {} bytes, expected at most {}", source.size(), kMostSourceBytes);
  syntax_ = std::make_shared<const TemplateSyntax>(parse_template(source));
}

RenderedChat ChatTemplate::render(const nlohmann::ordered_json& variables, const TemplateOptions& options) const {
  require(variables.is_object(), ErrorKind::invalid_argument, "the variables of a chat template are a JSON object");
  TemplateEvaluator evaluator(options);
  for (const auto& [name, value] : variables.items()) {
    const bool from_user = std::ranges::find(options.user_variables, name) != options.user_variables.end();
    evaluator.set_variable(name, value_of(value, from_user, 0));
  }
  return evaluator.run(*syntax_);
}

RenderedChat ChatTemplate::render_json(std::string_view variables, const TemplateOptions& options) const {
  io::check_json_nesting(variables, "the variables of a chat template");
  nlohmann::ordered_json parsed;
  try {
    parsed = nlohmann::ordered_json::parse(variables);
  } catch (const nlohmann::json::exception&) {
    fail(ErrorKind::invalid_argument, "the variables of a chat template are no JSON");
  }
  return render(parsed, options);
}

}  // namespace tessera::text
