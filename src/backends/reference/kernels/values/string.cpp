#include "ops/values/string.h"

#include <locale.h>
#include <re2/re2.h>

#include <algorithm>
#include <clocale>
#include <cwctype>
#include <limits>
#include <set>

#include "backends/backend.h"
#include "backends/host/movement.h"
#include "backends/host/numeric.h"
#include "base/error.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// The code point at `i`, which is advanced behind it; a byte that is not UTF-8 stands for itself, with a negative sign.
std::int64_t next_code_point(std::string_view text, std::size_t& i) {
  const unsigned char lead = static_cast<unsigned char>(text[i]);
  const std::size_t length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
  if (length == 0 || i + length > text.size()) return ++i, -static_cast<std::int64_t>(lead);
  std::int64_t point = length == 1 ? lead : lead & (0x7F >> length);
  for (std::size_t k = 1; k < length; ++k) {
    const unsigned char next = static_cast<unsigned char>(text[i + k]);
    if (next >> 6 != 2) return ++i, -static_cast<std::int64_t>(lead);
    point = point << 6 | (next & 0x3F);
  }
  i += length;
  return point;
}

void append_code_point(std::string& text, std::int64_t point) {
  const auto put = [&](std::int64_t byte) { text.push_back(static_cast<char>(byte)); };
  if (point < 0x80) return put(point < 0 ? -point : point);
  if (point < 0x800) return put(0xC0 | point >> 6), put(0x80 | (point & 0x3F));
  if (point < 0x10000) return put(0xE0 | point >> 12), put(0x80 | (point >> 6 & 0x3F)), put(0x80 | (point & 0x3F));
  put(0xF0 | point >> 18), put(0x80 | (point >> 12 & 0x3F)), put(0x80 | (point >> 6 & 0x3F)),
      put(0x80 | (point & 0x3F));
}

enum class Case { keep, lower, upper };

// Maps the case of every code point; of ASCII only if the system has no UTF-8 locale.
std::string change_case(std::string_view text, Case wanted) {
  if (wanted == Case::keep) return std::string(text);
  static const locale_t unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const std::int64_t point = next_code_point(text, i);
    const bool mapped = point >= 0 && (point < 0x80 || unicode != nullptr);
    const wint_t wide = static_cast<wint_t>(mapped ? point : 0);
    if (!mapped) append_code_point(result, point);
    else if (unicode == nullptr)
      append_code_point(
          result, wanted == Case::lower ? std::tolower(static_cast<int>(wide)) : std::toupper(static_cast<int>(wide)));
    else
      append_code_point(result, static_cast<std::int64_t>(wanted == Case::lower ? towlower_l(wide, unicode)
                                                                                : towupper_l(wide, unicode)));
  }
  return result;
}

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= 0x1F);
}

// As Python's str.split: without a delimiter, words are separated by runs of white space, and the text's ends are
// trimmed.
std::vector<std::string> split_text(std::string_view text, const std::string& delimiter, std::int64_t most) {
  std::vector<std::string> parts;
  if (!delimiter.empty()) {
    std::size_t start = 0;
    for (std::size_t at = text.find(delimiter);
         at != std::string_view::npos && static_cast<std::int64_t>(parts.size()) < most;
         at = text.find(delimiter, start)) {
      parts.emplace_back(text.substr(start, at - start));
      start = at + delimiter.size();
    }
    parts.emplace_back(text.substr(start));
    return parts;
  }
  std::size_t i = 0;
  while (true) {
    while (i < text.size() && is_space(text[i])) ++i;
    if (i == text.size()) return parts;
    std::size_t end = i;
    if (static_cast<std::int64_t>(parts.size()) == most) {
      // The last part keeps its white space, except at its beginning.
      end = text.size();
    } else {
      while (end < text.size() && !is_space(text[end])) ++end;
    }
    parts.emplace_back(text.substr(i, end - i));
    i = end;
  }
}

}  // namespace

void string_concat(KernelContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(1);
  Tensor& output = context.output(0);
  const std::vector<std::int64_t> a_strides = broadcast_strides(a.shape(), output.shape()),
                                  b_strides = broadcast_strides(b.shape(), output.shape());
  for_each_index(output.shape(), [&](const std::vector<std::int64_t>& index, std::int64_t position) {
    std::int64_t from_a = 0, from_b = 0;
    for (std::size_t i = 0; i < index.size(); ++i) {
      from_a += index[i] * a_strides[i];
      from_b += index[i] * b_strides[i];
    }
    output.mutable_data<std::string>()[position] = a.data<std::string>()[from_a] + b.data<std::string>()[from_b];
  });
}

void string_normalizer(KernelContext& context) {
  const Tensor& input = context.input(0);
  const std::string& action = context.text("case_change_action");
  const Case wanted = action == "LOWER" ? Case::lower : action == "UPPER" ? Case::upper : Case::keep;
  const bool sensitive = context.integer("is_case_sensitive") != 0;
  const auto comparable = [&](const std::string& word) {
    return change_case(word, sensitive ? Case::keep : Case::lower);
  };
  std::set<std::string> stops;
  if (context.has_attribute("stopwords")) {
    for (const std::string& word : context.texts("stopwords")) stops.insert(comparable(word));
  }
  std::vector<std::string> words;
  for (const std::string& word : input.values<std::string>()) {
    if (!stops.contains(comparable(word))) words.push_back(change_case(word, wanted));
  }
  if (words.empty()) words.emplace_back();
  Shape shape = input.shape();
  shape.back() = static_cast<std::int64_t>(words.size());
  if (shape.size() == 2) shape[0] = 1;
  std::copy(words.begin(), words.end(), context.allocate_output(0, shape).mutable_data<std::string>());
}

void string_split(KernelContext& context) {
  const Tensor& input = context.input(0);
  const std::string delimiter = context.has_attribute("delimiter") ? context.text("delimiter") : "";
  std::int64_t most = context.has_attribute("maxsplit") ? context.integer("maxsplit") : -1;
  if (most < 0) most = std::numeric_limits<std::int64_t>::max();
  std::vector<std::vector<std::string>> parts;
  std::size_t longest = 0;
  for (const std::string& text : input.values<std::string>()) {
    parts.push_back(split_text(text, delimiter, most));
    longest = std::max(longest, parts.back().size());
  }
  Shape shape = input.shape();
  if (context.wants_output(1)) {
    std::int64_t* counts = context.allocate_output(1, shape).mutable_data<std::int64_t>();
    for (std::size_t i = 0; i < parts.size(); ++i) counts[i] = static_cast<std::int64_t>(parts[i].size());
  }
  if (!context.wants_output(0)) return;
  shape.push_back(static_cast<std::int64_t>(longest));
  std::string* output = context.allocate_output(0, shape).mutable_data<std::string>();
  for (std::size_t i = 0; i < parts.size(); ++i) std::copy(parts[i].begin(), parts[i].end(), output + i * longest);
}

void regex_full_match(KernelContext& context) {
  RE2::Options options;
  options.set_log_errors(false);
  const RE2 pattern(context.text("pattern"), options);
  require(pattern.ok(), ErrorKind::invalid_model, "pattern '{}': {}", context.text("pattern"), pattern.error());
  const std::span<const std::string> texts = context.input(0).values<std::string>();
  bool* output = context.output(0).mutable_data<bool>();
  for (std::size_t i = 0; i < texts.size(); ++i) output[i] = RE2::FullMatch(texts[i], pattern);
}

}  // namespace tessera::backends::reference
