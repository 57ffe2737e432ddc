// Work on marked texts that filters, methods and expressions share.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "text/template/template_evaluator.h"
#include "text/unicode.h"

namespace tessera::text {

std::vector<std::pair<std::size_t, std::size_t>> characters_of_text(std::string_view bytes) {
  std::vector<std::pair<std::size_t, std::size_t>> result;
  for (std::size_t first = 0; first < bytes.size();) {
    std::size_t last = first + 1;
    while (last < bytes.size() && (static_cast<unsigned char>(bytes[last]) & 0xC0) == 0x80) ++last;
    result.emplace_back(first, last);
    first = last;
  }
  return result;
}

MarkedText stripped_text(const MarkedText& text, const TemplateValue* characters, bool left, bool right) {
  std::u32string stripped;
  const bool by_space = characters == nullptr || characters->is_none();
  if (!by_space) {
    require(characters->is_text(), ErrorKind::failed, "the characters to strip are a value of the type {}",
            type_name(*characters));
    stripped = decode_utf8(characters->text().bytes);
  }
  // Python counts the separators of ASCII as white space.
  const auto goes = [&](char32_t c) {
    return by_space ? is_white_space(c) || (c >= 0x1C && c <= 0x1F) : stripped.find(c) != stripped.npos;
  };
  const std::u32string whole = decode_utf8(text.bytes);
  const auto bytes_of = [](char32_t c) -> std::size_t { return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4; };
  std::size_t first = 0, last = whole.size(), begin = 0, end = text.bytes.size();
  while (left && first < last && goes(whole[first])) begin += bytes_of(whole[first++]);
  while (right && last > first && goes(whole[last - 1])) end -= bytes_of(whole[--last]);
  return text.part(begin, end - begin);
}

MarkedText replaced_text(TemplateEvaluator& evaluator, const MarkedText& text, const MarkedText& from,
                         const MarkedText& to, std::int64_t most) {
  MarkedText result;
  std::size_t done = 0;
  const auto add = [&](const MarkedText& more, std::size_t first, std::size_t bytes) {
    result.append(more, first, bytes);
    evaluator.charge(1);
    require(result.bytes.size() <= evaluator.most_text_bytes(), ErrorKind::over_budget,
            "a text is longer than {} bytes", evaluator.most_text_bytes());
  };
  if (from.bytes.empty()) {
    for (const auto& [first, last] : characters_of_text(text.bytes)) {
      if (most == 0) break;
      --most;
      add(to, 0, to.bytes.size());
      add(text, first, last - first);
      done = last;
    }
    if (most != 0) add(to, 0, to.bytes.size());
  } else {
    for (std::size_t at = text.bytes.find(from.bytes); at != std::string::npos && most != 0;
         at = text.bytes.find(from.bytes, done)) {
      --most;
      add(text, done, at - done);
      add(to, 0, to.bytes.size());
      done = at + from.bytes.size();
    }
  }
  add(text, done, text.bytes.size() - done);
  return result;
}

std::vector<MarkedText> lines_of(const MarkedText& text) {
  std::vector<MarkedText> lines;
  std::size_t done = 0;
  for (std::size_t i = 0; i < text.bytes.size(); ++i) {
    const std::string_view rest = std::string_view(text.bytes).substr(i);
    std::size_t width = 0;
    const char c = rest[0];
    if (rest.starts_with("\r\n")) width = 2;
    else if ((c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E)) width = 1;
    else if (rest.starts_with("\u0085")) width = 2;
    else if (rest.starts_with("\u2028") || rest.starts_with("\u2029")) width = 3;
    if (width == 0) continue;
    lines.push_back(text.part(done, i - done));
    done = i + width;
    i = done - 1;
  }
  if (done < text.bytes.size()) lines.push_back(text.part(done, text.bytes.size() - done));
  return lines;
}

std::string changed_case(std::string_view bytes, bool upper) {
  const std::u32string characters = decode_utf8(bytes);
  return encode_utf8(upper ? upper_case(characters) : lower_case(characters));
}

MarkedText percent_formatted(TemplateEvaluator& evaluator, const MarkedText& format,
                             std::span<const TemplateValue> values) {
  MarkedText result;
  std::size_t next = 0;
  const std::string& bytes = format.bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != '%') {
      result.append(format, i, 1);
      continue;
    }
    require(++i < bytes.size(), ErrorKind::failed, "a format ends with '%'");
    if (bytes[i] == '%') {
      result.append("%");
      continue;
    }
    std::string flags;
    while (i < bytes.size() && std::string_view("0123456789.-+ ").find(bytes[i]) != std::string_view::npos &&
           flags.size() < 8)
      flags.push_back(bytes[i++]);
    const char kind = i < bytes.size() ? bytes[i] : '\0';
    require(next < values.size(), ErrorKind::failed, "a format has too few arguments");
    const TemplateValue& value = values[next++];
    if (kind == 's' && flags.empty()) {
      result.append(evaluator.printed_text(value));
    } else if ((kind == 'd' || kind == 'i') && value.is_number()) {
      const auto integer = value.is<double>() ? static_cast<long long>(std::clamp(value.as<double>(), -9e18, 9e18))
                                              : static_cast<long long>(value.integer());
      char shown[512];
      require(flags.find('.') == flags.npos &&
                  std::atoi(flags.c_str() +
                            flags.find_first_not_of("-+ 0") * (flags.find_first_not_of("-+ 0") != flags.npos)) < 100,
              ErrorKind::unsupported, "the format '%{}{}' is not supported", flags, kind);
      std::snprintf(shown, sizeof shown, ("%" + flags + "lld").c_str(), integer);
      result.append(shown);
    } else {
      fail(ErrorKind::unsupported, "the format '%{}{}' of a value of the type {} is not supported", flags,
           std::string(1, kind), type_name(value));
    }
    require(result.bytes.size() <= evaluator.most_text_bytes(), ErrorKind::over_budget,
            "a text is longer than {} bytes", evaluator.most_text_bytes());
  }
  require(next == values.size(), ErrorKind::failed, "a format has too many arguments");
  return result;
}

}  // namespace tessera::text
