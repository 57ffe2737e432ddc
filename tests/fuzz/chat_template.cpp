// A chat template, a zero byte, and variables as JSON: what the template makes of them.
#include "text/template/chat_template.h"

#include <algorithm>

#include "target.h"
#include "tessera/error.h"

namespace tessera::fuzz {

void chat_template(std::span<const std::byte> input) {
  const std::string_view all(reinterpret_cast<const char*>(input.data()), input.size());
  const std::size_t end = std::min(all.find('\0'), all.size());
  const std::string_view variables =
      end < all.size() ? all.substr(end + 1)
                       : R"({"messages": [{"role": "user", "content": "a <b> c"}], "add_generation_prompt": true})";
  try {
    const text::ChatTemplate made(all.substr(0, end));
    text::TemplateOptions options;
    options.most_steps = 200'000;
    options.now = 0;
    const text::RenderedChat chat = made.render_json(variables, options);
    std::size_t done = 0;
    for (const TextRange& range : chat.user_ranges) {
      if (range.begin < done || range.end <= range.begin || range.end > chat.text.size())
        finding("the ranges of users' text are not ascending within it");
      done = range.end;
    }
  } catch (const Error&) {
  }
}

}  // namespace tessera::fuzz
