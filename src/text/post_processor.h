// Special tokens around the tokens of a text or of a pair of texts: [CLS] … [SEP].
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tessera::text {

// A part of the template: a token of its own, or the tokens of a text.
struct FramePart {
  int text = -1;        // 0, 1: the first or second text; −1: the token
  std::int64_t id = 0;  // of the token
  std::int64_t type = 0;
};

struct TokenFrame {
  std::vector<FramePart> single{{.text = 0}};
  std::vector<FramePart> pair{{.text = 0}, {.text = 1, .type = 1}};
};

// Reads the part "post_processor" of a tokenizer.json; null adds nothing. Throws Error: unsupported for an unknown
// type, invalid_argument for an invalid part.
TokenFrame make_frame(const nlohmann::json& part, int depth = 0);

}  // namespace tessera::text
