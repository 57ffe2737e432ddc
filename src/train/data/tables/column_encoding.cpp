#include "train/data/tables/column_encoding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "train/data/tables/csv_table.h"

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
  for (std::size_t row = 0; row < cells.size(); ++row) {
    if (encoding.is_missing_cell(cells[row])) {
      ++encoding.missing_cells;
      continue;
    }
    try {
      numbers.push_back(number_of(encoding.column, cells[row]));
    } catch (const Error& error) {
      throw CellFault(error.message(), static_cast<std::int64_t>(row));
    }
  }
  require(!numbers.empty(), ErrorKind::invalid_argument,
          "column '{}' has no value in any row that is trained on; name it in data.ignored_columns", encoding.column);
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
          "column '{}' has the same value in all rows that are trained on and cannot be encoded by {}", encoding.column,
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

bool ColumnEncoding::is_missing_cell(const std::string& cell) const {
  return is_missing(cell) || std::ranges::find(missing_words, cell) != missing_words.end();
}

bool ColumnEncoding::is_known(const std::string& cell) const {
  return !is_categorical() || std::ranges::binary_search(categories, cell) ||
         (missing_category && is_missing_cell(cell));
}

void ColumnEncoding::encode(const std::string& cell, float* to) const {
  if (!is_categorical()) {
    double number = is_missing_cell(cell) ? missing : number_of(column, cell);
    if (clips) number = std::clamp(number, low, high);
    *to = static_cast<float>((number - offset) * scale);
    return;
  }
  auto found = std::ranges::lower_bound(categories, cell);
  bool known = found != categories.end() && *found == cell;
  if (!known && missing_category && is_missing_cell(cell)) {
    found = std::ranges::lower_bound(categories, *missing_category);
    known = true;
  }
  const auto place = found - categories.begin();
  if (kind == EncodingKind::ordinal) {
    *to = known ? static_cast<float>(place) : -1.0f;
  } else {
    std::fill_n(to, width(), 0.0f);
    if (known) to[place] = 1;
  }
}

std::string ColumnEncoding::describe() const {
  std::string text = fmt::format("{}", name_of(kind));
  if (is_categorical()) {
    constexpr std::size_t kShown = 5;
    std::vector<std::string> names;
    for (std::size_t i = 0; i < std::min(kShown, categories.size()); ++i)
      names.push_back(is_missing(categories[i]) ? fmt::format("'{}' (missing)", categories[i])
                                                : base::printable(base::shown(categories[i])));
    return fmt::format("{} of {} categories: {}{}", text, categories.size(), fmt::join(names, ", "),
                       categories.size() > kShown ? ", …" : "");
  }
  if (kind == EncodingKind::z_score)
    text += fmt::format(" of numbers with mean {:.6g} and deviation {:.6g}", offset, 1 / scale);
  else if (kind == EncodingKind::min_max)
    text += fmt::format(" of numbers from {:.6g} to {:.6g}", offset, offset + 1 / scale);
  else text += fmt::format(" of numbers with mean {:.6g}", missing);
  if (clips) text += fmt::format(", clipped to {:.6g} to {:.6g}", low, high);
  if (missing_cells > 0) text += fmt::format("; {} missing values count as {:.6g}", missing_cells, missing);
  return text;
}

ColumnEncoding fit_encoding(std::string column, EncodingKind kind, const std::vector<std::string>& cells,
                            double clip_quantile, const std::vector<std::string>& missing_words) {
  require(clip_quantile >= 0 && clip_quantile < 0.5, ErrorKind::invalid_argument,
          "column '{}': outliers are clipped to a quantile below 0.5, not {}", column, clip_quantile);
  ColumnEncoding encoding;
  encoding.column = std::move(column);
  encoding.kind = kind;
  encoding.missing_words = missing_words;
  if (!encoding.is_categorical()) {
    fit_numbers(encoding, cells, clip_quantile);
    return encoding;
  }
  const std::set<std::string> categories(cells.begin(), cells.end());
  require(
      categories.size() <= kMostCategories, ErrorKind::invalid_argument,
      "column '{}' has {} different values, more than the {} that can be encoded by {}; data.ignored_columns leaves "
      "it out",
      encoding.column, categories.size(), kMostCategories, name_of(kind));
  encoding.categories.assign(categories.begin(), categories.end());
  std::map<std::string, std::int64_t> missing;
  for (const std::string& cell : cells) {
    if (encoding.is_missing_cell(cell)) ++missing[cell], ++encoding.missing_cells;
  }
  if (!missing.empty()) {
    encoding.missing_category =
        std::ranges::max_element(missing, {}, [](const auto& entry) { return entry.second; })->first;
  }
  return encoding;
}

DefaultEncoding default_encoding(const std::vector<std::string>& cells, const std::vector<std::string>& missing_words) {
  constexpr std::size_t kMostCounted = 11;  // different numbers; more need not be counted
  constexpr std::int64_t kNumbersOfAWord = 9;
  DefaultEncoding result;
  ColumnEncoding missing;
  missing.missing_words = missing_words;
  std::set<double> different;
  for (std::size_t row = 0; row < cells.size(); ++row) {
    double number = 0;
    if (missing.is_missing_cell(cells[row])) continue;
    if (parse_number(cells[row], number)) {
      ++result.numbers;
      if (different.size() < kMostCounted) different.insert(number);
    } else {
      result.words.push_back(static_cast<std::int64_t>(row));
    }
  }
  result.others = static_cast<std::int64_t>(result.words.size());
  if (result.others == 0) {
    result.kind = different.size() > 1 ? EncodingKind::z_score : EncodingKind::as_is;
  } else if (different.size() == kMostCounted && result.numbers >= kNumbersOfAWord * result.others) {
    result.kind = EncodingKind::z_score;
  } else {
    result.words.clear();
    const std::set<std::string> categories(cells.begin(), cells.end());
    result.kind = categories.size() <= kMostOneHot ? EncodingKind::one_hot : EncodingKind::ordinal;
  }
  return result;
}

}  // namespace tessera::train
