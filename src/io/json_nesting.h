// How deep the lists and objects of a JSON text are nested: programs that walk parsed JSON call themselves once for
// each level, so that a text which is nested without end would overrun their stack.
#pragma once

#include <string_view>

namespace tessera::io {

inline constexpr int kMostJsonNesting = 100;

// The deepest nesting in a text, at most `most`. The text need not be valid JSON.
int json_nesting(std::string_view text, int most);

// Throws Error(over_budget), which names the text as `what`, when it is nested deeper than kMostJsonNesting.
void check_json_nesting(std::string_view text, std::string_view what);

}  // namespace tessera::io
