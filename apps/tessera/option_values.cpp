#include "option_values.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>
#include <optional>

namespace tessera::apps {
namespace {

// Parses the whole text as a number, which consists only of digits, sign, point and exponent.
template <typename Number>
std::optional<Number> parse(std::string_view text) {
  Number value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Options live as long as the program.
std::map<const CLI::Option*, std::vector<std::string>>& all_suggestions() {
  static std::map<const CLI::Option*, std::vector<std::string>> suggestions;
  return suggestions;
}

}  // namespace

CLI::Validator whole_number(std::uint64_t least, std::uint64_t most) {
  const auto check = [=](std::string& text) {
    const std::optional<std::uint64_t> value = parse<std::uint64_t>(text);
    return value && *value >= least && *value <= most
               ? std::string()
               : fmt::format("expects a whole number from {} to {}, got '{}'", least, most, text);
  };
  return {check, fmt::format("{}..{}", least, most), "whole number"};
}

CLI::Validator number(double least, double most) {
  const auto check = [=](std::string& text) {
    const std::optional<double> value = parse<double>(text);
    return value && *value >= least && *value <= most
               ? std::string()
               : fmt::format("expects a number from {} to {}, got '{}'", least, most, text);
  };
  return {check, fmt::format("{}..{}", least, most), "number"};
}

CLI::Validator duration() {
  const auto transform = [](std::string& text) {
    static const std::map<std::string_view, double> units{
        {"", 1.0}, {"s", 1.0}, {"ms", 1e-3}, {"m", 60.0}, {"h", 3600.0}};
    const std::size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
    const std::optional<double> value = parse<double>(std::string_view(text).substr(0, end));
    const auto unit = units.find(std::string_view(text).substr(end));
    if (!value || unit == units.end() || *value * unit->second > 1e9)
      return fmt::format("expects a time such as 10, 0.5s, 250ms, 2m or 1h, got '{}'", text);
    text = fmt::format("{}", *value * unit->second);
    return std::string();
  };
  return {transform, "TIME", "duration"};
}

CLI::Option* suggest(CLI::Option* option, std::vector<std::string> values) {
  all_suggestions()[option] = std::move(values);
  return option;
}

std::vector<std::string> suggested_values(const CLI::Option& option) {
  if (const auto found = all_suggestions().find(&option); found != all_suggestions().end()) return found->second;
  // The type of an option with CLI::IsMember ends with its members: TEXT:{f32,bf16}.
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{'), end = type.rfind('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  return CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

}  // namespace tessera::apps
