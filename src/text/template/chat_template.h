// Chat templates: the Jinja templates of language models, which make one text of a conversation. They come with models
// and are hostile like these: steps, memory, output and nesting are bounded.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/tokenizer.h"

namespace tessera::text {

struct TemplateOptions {
  std::int64_t most_steps = 2'000'000;  // evaluations of a part of the template, and work on texts and lists
  std::size_t most_output_bytes = std::size_t{16} << 20;
  std::size_t most_memory_bytes = std::size_t{64} << 20;  // of the values that the template makes
  // Variables whose texts users wrote: see RenderedChat::user_ranges.
  std::vector<std::string> user_variables{"messages", "tools", "documents"};
  // Seconds since 1970 that strftime_now shows in local time; absent: the current time.
  std::optional<std::int64_t> now;
};

struct RenderedChat {
  std::string text;
  // The bytes that came from users' variables, ascending and apart. TokenizerOptions::literal takes them, so that what
  // users wrote is no special token.
  std::vector<TextRange> user_ranges;
};

// A template of Jinja as Hugging Face's transformers sets it up: blocks take the line end behind them and the white
// space before them, loops have break and continue, nothing is escaped, lists and dictionaries cannot be changed.
// Immutable and thread-safe; copies share it.
class ChatTemplate {
 public:
  // Throws Error: invalid_model for a fault of syntax, unsupported for a part of Jinja that is not known, over_budget
  // for nesting that is too deep; each with the line.
  explicit ChatTemplate(std::string_view source);

  // Renders with the variables of a JSON object, in the order of its keys; a variable that is absent is undefined.
  // transformers gives messages, tools and documents (null where there are none), add_generation_prompt, and the
  // special tokens by name. Throws Error with the line: invalid_argument with the template's own message where it calls
  // raise_exception, failed for what the template does wrong, over_budget beyond the limits.
  RenderedChat render(const nlohmann::ordered_json& variables, const TemplateOptions& options = {}) const;
  // Renders with variables in JSON text. Throws Error(invalid_argument) where it is none.
  RenderedChat render_json(std::string_view variables, const TemplateOptions& options = {}) const;

 private:
  std::shared_ptr<const struct TemplateSyntax> syntax_;
};

}  // namespace tessera::text
