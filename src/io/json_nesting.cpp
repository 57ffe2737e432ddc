#include "io/json_nesting.h"

#include <algorithm>

#include "base/error.h"

namespace tessera::io {

int json_nesting(std::string_view text, int most) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size() && deepest < most; ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      else if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      depth = std::max(depth - 1, 0);
    }
  }
  return deepest;
}

void check_json_nesting(std::string_view text, std::string_view what) {
  require(json_nesting(text, kMostJsonNesting + 1) <= kMostJsonNesting, ErrorKind::over_budget,
          "lists and objects in {} are nested deeper than {}", what, kMostJsonNesting);
}

}  // namespace tessera::io
