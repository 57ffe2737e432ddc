#include "text/split_rules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"

namespace tessera::text {
namespace {

constexpr std::size_t kMostExpressions = 5;

// The expressions work one after the other: each splits what those before it left.
struct Rules {
  std::string_view name;
  std::array<std::string_view, kMostExpressions> expressions;  // the last ones may be empty
  bool takes_whole_words = false;
  bool adds_bos = false;
};

// GPT-2's words: contractions, letters, numbers and other marks with the space before them, white space.
constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// Llama 3's: contractions in any case, letters with any one character before them, up to three digits, other marks with
// the line ends behind them, line ends, white space.
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)"
    R"(|\s+(?!\S)|\s+)";
// Llama 3's with single digits.
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)"
    R"(|\s+(?!\S)|\s+)";
// Qwen 2's, where marks belong to letters.
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDigits = R"(\p{N})";

constexpr std::array kRules{
    Rules{"gpt-2", {kGpt2}},
    Rules{"mpt", {kGpt2}},
    Rules{"smollm", {kDigits, kGpt2}},
    Rules{"starcoder", {kDigits, kGpt2}},
    Rules{"refact", {kDigits, kGpt2}},
    Rules{"command-r", {kDigits, kGpt2}},
    Rules{"falcon", {R"([\p{P}$+<=>^~|`]+)", kGpt2, "[0-9][0-9][0-9]"}},
    Rules{"deepseek-coder",
          {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", R"([\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+)",
           kDigits}},
    Rules{"llama-bpe", {kLlama3}, true, true},
    Rules{"llama3", {kLlama3}, true, true},
    Rules{"llama-v3", {kLlama3}, true, true},
    Rules{"qwen2", {kQwen2}},
    Rules{"deepseek-r1-qwen", {kQwen2}},
    Rules{"qwen35", {kQwen35}},
};

}  // namespace

SplitRules split_rules(const std::string& name) {
  const auto* found = std::ranges::find(kRules, name, &Rules::name);
  if (found == kRules.end()) {
    std::vector<std::string_view> names;
    for (const Rules& rules : kRules) names.push_back(rules.name);
    fail(ErrorKind::unsupported, "the tokenizer splits text by the rules '{}' (its key 'pre'), expected one of {}",
         name, fmt::format("{}", fmt::join(names, ", ")));
  }
  std::vector<PreTokenizer> members;
  for (const std::string_view expression : found->expressions)
    if (!expression.empty()) members.push_back(isolate_matches(std::string(expression)));
  members.push_back(write_bytes());
  return {in_turn(std::move(members)), found->takes_whole_words, found->adds_bos};
}

}  // namespace tessera::text
