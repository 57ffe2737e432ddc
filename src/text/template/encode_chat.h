// Conversations as the tokens that a chat model reads.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "tessera/tokenizer.h"
#include "text/template/chat_template.h"

namespace tessera::text {

// The tokens of what the template makes of the variables (ChatTemplate::render). In what users wrote, special tokens
// are not recognised. The token that begins a text comes once, whether the template, the tokenizer or both write it.
// Throws Error as ChatTemplate::render and Tokenizer::encode do.
std::vector<std::int64_t> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                                      const nlohmann::ordered_json& variables, const TemplateOptions& options = {});

}  // namespace tessera::text
