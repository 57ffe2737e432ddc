#include "train/data/column_encoding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "train/data/csv_table.h"

namespace tessera::train {
namespace {

constexpr std::array<std::pair<EncodingKind, std::string_view>, 5> kNames = {{
    {EncodingKind::as_is, "as_is"},
    {EncodingKind::min_max, "min_max"},
    {EncodingKind::z_score, "z_score"},
    {EncodingKind::one_hot, "one_hot"},
    {EncodingKind::ordinal, "ordinal"},
}};

constexpr std::size_t kMostCategories = 4096, kMostOneHot = 64;

double number_of(const std::string& column, const std::string& cell) {
  double number = 0;
  require(parse_number(cell, number), ErrorKind::invalid_argument,
          "column '{}' holds '{}', which is no number; encode it by one_hot or ordinal", column, cell);
  require(std::isfinite(number), ErrorKind::invalid_argument, "column '{}' holds '{}', which is not finite", column,
          cell);
  return number;
}

// The q-quantile of sorted numbers, interpolated between neighbours.
double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

void fit_numbers(ColumnEncoding& encoding, const std::vector<std::string>& cells, double clip_quantile) {
  std::vector<double> numbers;
  for (const std::string& cell : cells) {
    if (!cell.empty()) numbers.push_back(number_of(encoding.column, cell));
  }
  require(!numbers.empty(), ErrorKind::invalid_argument, "column '{}' is empty", encoding.column);
  std::ranges::sort(numbers);
  if (clip_quantile > 0) {
    encoding.clips = true;
    encoding.low = quantile(numbers, clip_quantile);
    encoding.high = quantile(numbers, 1 - clip_quantile);
    for (double& number : numbers) number = std::clamp(number, encoding.low, encoding.high);
  }
  const auto count = static_cast<double>(numbers.size());
  const double mean = std::accumulate(numbers.begin(), numbers.end(), 0.0) / count;
  encoding.missing = mean;
  if (encoding.kind == EncodingKind::as_is) return;
  double spread = numbers.back() - numbers.front();
  encoding.offset = numbers.front();
  if (encoding.kind == EncodingKind::z_score) {
    const double squares = std::accumulate(numbers.begin(), numbers.end(), 0.0, [&](double sum, double number) {
      return sum + (number - mean) * (number - mean);
    });
    spread = std::sqrt(squares / count);
    encoding.offset = mean;
  }
  require(spread > 0, ErrorKind::invalid_argument,
          "column '{}' has the same value in all rows and cannot be encoded by {}", encoding.column,
          name_of(encoding.kind));
  encoding.scale = 1 / spread;
}

}  // namespace

EncodingKind encoding_kind(std::string_view name) {
  for (const auto& [kind, known] : kNames) {
    if (known == name) return kind;
  }
  fail(ErrorKind::invalid_argument, "unknown encoding '{}'; there are as_is, min_max, z_score, one_hot and ordinal",
       name);
}

std::string_view name_of(EncodingKind kind) {
  return kNames[static_cast<std::size_t>(kind)].second;
}

void ColumnEncoding::encode(const std::string& cell, float* to) const {
  if (!is_categorical()) {
    double number = cell.empty() ? missing : number_of(column, cell);
    if (clips) number = std::clamp(number, low, high);
    *to = static_cast<float>((number - offset) * scale);
    return;
  }
  const auto found = std::ranges::lower_bound(categories, cell);
  const bool known = found != categories.end() && *found == cell;
  const auto place = found - categories.begin();
  if (kind == EncodingKind::ordinal) {
    *to = known ? static_cast<float>(place) : -1.0f;
  } else {
    std::fill_n(to, width(), 0.0f);
    if (known) to[place] = 1;
  }
}

ColumnEncoding fit_encoding(std::string column, EncodingKind kind, const std::vector<std::string>& cells,
                            double clip_quantile) {
  require(clip_quantile >= 0 && clip_quantile < 0.5, ErrorKind::invalid_argument,
          "column '{}': outliers are clipped to a quantile below 0.5, not {}", column, clip_quantile);
  ColumnEncoding encoding;
  encoding.column = std::move(column);
  encoding.kind = kind;
  if (!encoding.is_categorical()) {
    fit_numbers(encoding, cells, clip_quantile);
    return encoding;
  }
  const std::set<std::string> categories(cells.begin(), cells.end());
  require(categories.size() <= kMostCategories, ErrorKind::invalid_argument,
          "column '{}' has {} different values, more than the {} that can be encoded by {}", encoding.column,
          categories.size(), kMostCategories, name_of(kind));
  encoding.categories.assign(categories.begin(), categories.end());
  return encoding;
}

EncodingKind default_encoding(const std::vector<std::string>& cells) {
  double number = 0, first = 0;
  bool any = false, differ = false;
  for (const std::string& cell : cells) {
    if (cell.empty()) continue;
    if (!parse_number(cell, number)) {
      const std::set<std::string> categories(cells.begin(), cells.end());
      return categories.size() <= kMostOneHot ? EncodingKind::one_hot : EncodingKind::ordinal;
    }
    differ = differ || (any && number != first);
    if (!any) first = number;
    any = true;
  }
  return differ ? EncodingKind::z_score : EncodingKind::as_is;
}

}  // namespace tessera::train
