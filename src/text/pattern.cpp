#include "text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/unicode.h"

namespace tessera::text {
namespace {

constexpr std::uint32_t kMostSteps = 200'000;  // of backtracking, for one match in a short text
constexpr std::size_t kStepsOfByte = 4, kMostStepsOfText = std::size_t{1} << 28;  // for one match in a long text
constexpr std::chrono::seconds kMostTime{5};                                      // for all matches in a text
constexpr std::uint32_t kMostHeapKib = 64 << 10;

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// Unicode's white space. PCRE2's \s has U+180E as well, which Unicode took out in version 6.3.
constexpr const char* kWhiteSpace = "\\t-\\r\\x{85}\\p{Z}";

// The expression with \s and, outside of classes, \S replaced.
std::string with_unicode_spaces(std::string_view expression) {
  std::string result;
  bool in_class = false;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const char character = expression[i];
    const char next = character == '\\' && i + 1 < expression.size() ? expression[i + 1] : '\0';
    if (next == 's') result += in_class ? kWhiteSpace : fmt::format("[{}]", kWhiteSpace);
    else if (next == 'S' && !in_class) result += fmt::format("[^{}]", kWhiteSpace);
    else if (next != '\0') result.append(expression, i, 2);
    else result.push_back(character);
    if (next != '\0') ++i;
    else if (character == '[') in_class = true;
    else if (character == ']') in_class = false;
  }
  return result;
}

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

}  // namespace

struct Pattern::Regex {
  std::unique_ptr<pcre2_code, Free> code;
  std::unique_ptr<pcre2_match_context, Free> limits{pcre2_match_context_create(nullptr)};

  explicit Regex(const std::string& given) {
    int error = 0;
    PCRE2_SIZE position = 0;
    const std::string expression = with_unicode_spaces(given);
    code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &position, nullptr));
    require(code != nullptr, ErrorKind::invalid_argument, "the regular expression '{}' is wrong at byte {}: {}",
            expression, position, message_of(error));
    if (limits == nullptr) throw std::bad_alloc();
    pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // where that is not possible it is interpreted
    pcre2_set_heap_limit(limits.get(), kMostHeapKib);
  }
};

Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

Pattern::Pattern(const nlohmann::json& json) {
  if (json.is_object() && json.contains("Regex")) {
    regex_ = std::make_unique<Regex>(json.at("Regex").get<std::string>());
    return;
  }
  literal_ = decode_utf8(json.is_object() ? json.at("String").get<std::string>() : json.get<std::string>());
}

Pattern Pattern::regex(const std::string& expression) {
  Pattern result;
  result.regex_ = std::make_unique<Regex>(expression);
  return result;
}

std::vector<Span> Pattern::find(std::u32string_view text) const {
  std::vector<Span> found;
  if (regex_ == nullptr) {
    if (literal_.empty()) return found;
    for (std::size_t at = text.find(literal_); at != std::u32string_view::npos;
         at = text.find(literal_, at + literal_.size()))
      found.emplace_back(at, at + literal_.size());
    return found;
  }
  const std::string bytes = encode_utf8(text);
  const std::unique_ptr<pcre2_match_data, Free> match(
      pcre2_match_data_create_from_pattern(regex_->code.get(), nullptr));
  const std::unique_ptr<pcre2_match_context, Free> limits(pcre2_match_context_copy(regex_->limits.get()));
  if (match == nullptr || limits == nullptr) throw std::bad_alloc();
  // A run of white space as long as the text takes a step for each of its characters.
  const std::size_t steps = std::clamp<std::size_t>(bytes.size() * kStepsOfByte, kMostSteps, kMostStepsOfText);
  pcre2_set_match_limit(limits.get(), static_cast<std::uint32_t>(steps));
  // Matches are in bytes: `character` counts the characters before `byte`.
  std::size_t byte = 0, character = 0;
  const auto character_at = [&](std::size_t position) {
    for (; byte < position; ++byte) character += (static_cast<unsigned char>(bytes[byte]) & 0xC0) != 0x80 ? 1 : 0;
    return character;
  };
  const auto deadline = std::chrono::steady_clock::now() + kMostTime;
  for (PCRE2_SIZE start = 0; start <= bytes.size();) {
    const int status = pcre2_match(regex_->code.get(), reinterpret_cast<PCRE2_SPTR>(bytes.data()), bytes.size(), start,
                                   PCRE2_NO_UTF_CHECK, match.get(), limits.get());
    if (status == PCRE2_ERROR_NOMATCH) break;
    require(std::chrono::steady_clock::now() < deadline, ErrorKind::over_budget,
            "a regular expression of the tokenizer takes more than {} seconds for a text of {} bytes",
            kMostTime.count(), bytes.size());
    require(status > 0, ErrorKind::over_budget,
            "a regular expression of the tokenizer gives up on a text of {} bytes: {}", bytes.size(),
            message_of(status));
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match.get());
    const PCRE2_SIZE first = ends[0], last = ends[1];
    // A match of nothing tells nothing, and the search goes on behind the next character.
    if (last > first) {
      const std::size_t begin = character_at(first);
      found.emplace_back(begin, character_at(last));
      start = last;
      continue;
    }
    start = std::max(last, start) + 1;
    while (start < bytes.size() && (static_cast<unsigned char>(bytes[start]) & 0xC0) == 0x80) ++start;
  }
  return found;
}

}  // namespace tessera::text
