#include "text/template/encode_chat.h"

namespace tessera::text {

std::vector<std::int64_t> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                                      const nlohmann::ordered_json& variables, const TemplateOptions& options) {
  const RenderedChat chat = chat_template.render(variables, options);
  TokenizerOptions how;
  how.literal = chat.user_ranges;
  how.merge_bos = true;
  return tokenizer.encode_ids(chat.text, how);
}

}  // namespace tessera::text
