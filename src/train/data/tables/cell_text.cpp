#include "train/data/tables/cell_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "base/error.h"
#include "base/log.h"

namespace tessera::train {
namespace {

std::string_view trimmed(std::string_view cell) {
  const std::size_t begin = cell.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return cell.substr(begin, cell.find_last_not_of(" \t") + 1 - begin);
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// The number "12,5", "1.234,5" or "1.234.567" with a decimal point; nothing if the cell has neither a comma nor such
// groups of digits.
std::optional<std::string> with_decimal_point(std::string_view cell) {
  cell = trimmed(cell);
  std::string number;
  if (!cell.empty() && (cell[0] == '-' || cell[0] == '+')) {
    if (cell[0] == '-') number = "-";
    cell.remove_prefix(1);
  }
  const std::size_t comma = cell.find(',');
  const std::string_view whole = cell.substr(0, comma);
  std::size_t group = 0, groups = 0;  // digits of the current group, and number of points before it
  for (const char c : whole) {
    if (c == '.') {
      if (group == 0 || group > 3 || (groups > 0 && group != 3)) return std::nullopt;
      group = 0;
      ++groups;
    } else if (is_digit(c)) {
      ++group;
      number += c;
    } else {
      return std::nullopt;
    }
  }
  if (groups > 0 && group != 3) return std::nullopt;
  if (comma == std::string_view::npos) return groups > 0 ? std::optional(number) : std::nullopt;
  const std::string_view rest = cell.substr(comma + 1);
  if (rest.empty() || !is_digit(rest[0]) || rest.find_first_not_of("0123456789eE+-") != std::string_view::npos)
    return std::nullopt;
  number += "." + std::string(rest);
  double value = 0;
  return parse_number(number, value) ? std::optional(number) : std::nullopt;
}

struct DecimalCounts {
  std::size_t cells = 0, commas = 0, groups = 0, points = 0, wholes = 0;
};

DecimalCounts count_decimals(const std::vector<std::string>& cells) {
  DecimalCounts counts;
  for (const std::string& cell : cells) {
    if (is_missing(cell)) continue;
    ++counts.cells;
    double number = 0;
    const bool comma = cell.find(',') != std::string::npos;
    if (with_decimal_point(cell)) ++(comma ? counts.commas : counts.groups);
    else if (parse_number(cell, number)) ++(cell.find('.') != std::string::npos ? counts.points : counts.wholes);
  }
  return counts;
}

}  // namespace

std::optional<std::size_t> first_not_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    if (first < 0x80) {
      ++i;
      continue;
    }
    const std::size_t bytes = first >= 0xC2 && first < 0xE0   ? 2
                              : first >> 4 == 14              ? 3
                              : first >= 0xF0 && first < 0xF5 ? 4
                                                              : 0;
    if (bytes == 0 || i + bytes > text.size()) return i;
    for (std::size_t k = 1; k < bytes; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xC0) != 0x80) return i;
    }
    i += bytes;
  }
  return std::nullopt;
}

void use_decimal_points(CsvTable& table) {
  std::vector<DecimalCounts> counts;
  for (const auto& column : table.columns) counts.push_back(count_decimals(column));
  const bool any = std::ranges::any_of(counts, [](const DecimalCounts& each) { return each.commas > 0; });
  for (std::size_t i = 0; any && i < counts.size(); ++i) {
    const DecimalCounts& each = counts[i];
    const bool numbers = 10 * (each.commas + each.groups + each.wholes) >= 9 * each.cells;
    if (each.commas > 0 && each.points == 0 && numbers) {
      for (std::string& cell : table.columns[i]) cell = with_decimal_point(cell).value_or(cell);
    } else if (each.groups > 0 && each.commas == 0 && numbers) {
      warn("'{}', column '{}': points are read as decimal points, though other columns have decimal commas",
           table.source, table.names[i]);
    }
  }
}

bool parse_number(std::string_view cell, double& number) {
  cell = trimmed(cell);
  if (cell.starts_with('+')) cell.remove_prefix(1);
  const auto [stop, error] = std::from_chars(cell.data(), cell.data() + cell.size(), number);
  return error == std::errc() && stop == cell.data() + cell.size() && !cell.empty();
}

const std::vector<std::string>& missing_spellings() {
  static const std::vector<std::string> spellings = {
      "",    "NA",   "na",     "Na",      "N/A",     "n/a",   "N/a",   "N.A.",    "n.a.",   "NaN",  "nan",
      "NAN", "Nan",  "-nan",   "-NaN",    "NULL",    "null",  "Null",  "None",    "none",   "NONE", "nil",
      "NIL", "<NA>", "<na>",   "#N/A",    "#n/a",    "#NA",   "NaT",   "?",       "-",      "--",   "---",
      ".",   "\\N",  "#NULL!", "#VALUE!", "#DIV/0!", "#REF!", "#NUM!", "1.#QNAN", "-1.#IND"};
  return spellings;
}

bool is_missing(std::string_view cell) {
  constexpr std::size_t kLongest = 8;
  cell = trimmed(cell);
  if (cell.empty()) return true;
  // For most cells, the first character shows that they are no spelling of a missing value.
  if (cell.size() > kLongest || std::string_view("nN<#?-.\\1").find(cell[0]) == std::string_view::npos) return false;
  if ((cell[0] == '1' || cell[0] == '-') && cell.size() > 1 && is_digit(cell[1])) return false;
  const auto& spellings = missing_spellings();
  return std::ranges::find(spellings, cell) != spellings.end();
}

bool is_missing_class(std::string_view cell) {
  constexpr std::array<std::string_view, 9> kWords = {"None", "none", "NONE", "nil", "NIL", "-", "--", "---", "."};
  return is_missing(cell) && std::ranges::find(kWords, trimmed(cell)) == kWords.end();
}

}  // namespace tessera::train
