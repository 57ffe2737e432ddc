#include "cost/convergence.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/text.h"

namespace tessera::cost {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::optional<double> positive_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(value) && value > 0
             ? std::optional(value)
             : std::nullopt;
}

// "65", or "75-80" for its middle.
std::optional<double> epochs_of(std::string_view text) {
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) return positive_number(text);
  const std::optional<double> low = positive_number(trimmed(text.substr(0, dash))),
                              high = positive_number(trimmed(text.substr(dash + 1)));
  return low && high && *low <= *high ? std::optional((*low + *high) / 2) : std::nullopt;
}

[[noreturn]] void refuse(std::string_view entry) {
  fail(ErrorKind::invalid_argument,
       "a convergence table has entries BATCH:EPOCHS such as 2048:65 or 3072:75-80, found '{}'",
       base::printable(base::shown(entry)));
}

ConvergencePoint parse_point(std::string_view entry) {
  const std::size_t colon = entry.find(':');
  if (colon == std::string_view::npos) refuse(entry);
  const std::string_view number = trimmed(entry.substr(0, colon));
  ConvergencePoint point;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), point.batch);
  const std::optional<double> epochs = epochs_of(trimmed(entry.substr(colon + 1)));
  if (error != std::errc() || end != number.data() + number.size() || point.batch <= 0 || !epochs) refuse(entry);
  point.epochs = *epochs;
  return point;
}

}  // namespace

std::vector<ConvergencePoint> parse_convergence(std::string_view text) {
  std::vector<ConvergencePoint> table;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    while (!line.empty()) {
      const std::size_t comma = std::min(line.find(','), line.size());
      const std::string_view entry = trimmed(line.substr(0, comma));
      line.remove_prefix(std::min(comma + 1, line.size()));
      if (!entry.empty()) table.push_back(parse_point(entry));
    }
  }
  require(!table.empty(), ErrorKind::invalid_argument,
          "the convergence table is empty; expected entries BATCH:EPOCHS such as 2048:65");
  return table;
}

BatchChoice choose_batch(std::vector<ConvergencePoint> table, double samples,
                         const std::function<double(std::int64_t batch)>& iteration_seconds) {
  require(!table.empty(), ErrorKind::invalid_argument, "the convergence table is empty");
  std::ranges::sort(table, {}, &ConvergencePoint::batch);
  BatchChoice choice;
  for (const ConvergencePoint& point : table) {
    require(choice.rows.empty() || choice.rows.back().batch != point.batch, ErrorKind::invalid_argument,
            "the convergence table names batch {} twice", point.batch);
    BatchChoice::Row row{.batch = point.batch,
                         .epochs = point.epochs,
                         .iterations = point.epochs * samples / static_cast<double>(point.batch)};
    row.iteration_seconds = iteration_seconds(point.batch);
    row.seconds = row.iteration_seconds * row.iterations;
    choice.rows.push_back(row);
    if (row.seconds < choice.rows[choice.best].seconds) choice.best = choice.rows.size() - 1;
  }
  return choice;
}

}  // namespace tessera::cost
