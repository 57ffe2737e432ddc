#include "train/data/tables/csv_dataset.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "train/data/tables/csv_table.h"

namespace tessera::train {
namespace {

// The classes in ascending order, by their values if all are numbers, so that "10" comes behind "9".
std::vector<std::string> classes_of(const CsvTable& table, std::size_t target) {
  std::set<std::string> found(table.columns[target].begin(), table.columns[target].end());
  std::erase_if(found, [](const std::string& name) { return is_missing_class(name); });
  require(!found.empty(), ErrorKind::invalid_argument, "'{}': column '{}', the target, has no value in any row",
          table.source, table.names[target]);
  std::vector<std::string> classes(found.begin(), found.end());
  double number = 0;
  if (std::ranges::all_of(classes, [&](const std::string& name) { return parse_number(name, number); })) {
    const auto value_of = [](const std::string& name) {
      double value = 0;
      parse_number(name, value);
      return value;
    };
    std::ranges::stable_sort(classes, {}, value_of);
    // "1" and "1.0" are the same class.
    const auto [begin, end] = std::ranges::unique(classes, {}, value_of);
    classes.erase(begin, end);
    constexpr std::size_t kMany = 64;
    if (classes.size() > kMany)
      warn(
          "'{}': column '{}', the target, has {} different numbers, each taken as a class; data.target_is_number = "
          "true is for a number to predict",
          table.source, table.names[target], classes.size());
  }
  return classes;
}

// The class of a cell, found by its text, or else by its number.
std::optional<std::int64_t> class_of(const std::vector<std::string>& classes, const std::string& cell) {
  auto found = std::ranges::find(classes, cell);
  double number = 0;
  if (found == classes.end() && parse_number(cell, number)) {
    found = std::ranges::find_if(classes, [&](const std::string& name) {
      double other = 0;
      return parse_number(name, other) && other == number;
    });
  }
  if (found == classes.end()) return std::nullopt;
  return found - classes.begin();
}

// Whether a row with that target can be trained on, by the rules of CsvDataset::read.
bool has_target(const std::string& cell, bool is_number) {
  double number = 0;
  return is_number ? !is_missing(cell) && parse_number(cell, number) : !is_missing_class(cell);
}

// Removes all other rows from the table. `rows` are in ascending order.
void keep_rows(CsvTable& table, const std::vector<std::int64_t>& rows) {
  const auto keep = [&](auto& cells) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto from = static_cast<std::size_t>(rows[i]);
      if (from != i) cells[i] = std::move(cells[from]);
    }
    cells.resize(rows.size());
  };
  for (auto& column : table.columns) keep(column);
  keep(table.lines);
}

// Keeps only the rows that are trained on. If no row has a target, reading the samples reports it.
void keep_trained_rows(CsvTable& table, std::size_t target, bool is_number, const TrainedSamples& trained) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(table.rows()));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  if (trained) {
    rows = trained(table.rows() + static_cast<std::int64_t>(table.faulty_rows.size()));
    std::erase_if(rows, [&](std::int64_t row) { return row >= table.rows(); });
    require(!rows.empty(), ErrorKind::invalid_argument, "'{}': all rows that can be read are held out", table.source);
  }
  std::vector<std::int64_t> readable = rows;
  std::erase_if(readable, [&](std::int64_t row) {
    return !has_target(table.columns[target][static_cast<std::size_t>(row)], is_number);
  });
  keep_rows(table, readable.empty() ? rows : readable);
}

class CsvDataset final : public Dataset {
 public:
  CsvDataset(CsvTable table, TableEncoding encoding) : table_(std::move(table)), encoding_(std::move(encoding)) {
    for (const ColumnEncoding& column : encoding_.columns) columns_.push_back(table_.column(column.column));
    target_ = table_.column(encoding_.target);
    fields_ = {{"x", DType::f32, {encoding_.features()}},
               encoding_.target_is_number ? Field{"y", DType::f32, {1}} : Field{"y", DType::i64, {}}};
    find_unreadable();
    for (std::size_t i = 0; i < columns_.size(); ++i) announce_unknown(encoding_.columns[i], columns_[i]);
  }

  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t size() const override { return table_.rows() + static_cast<std::int64_t>(table_.faulty_rows.size()); }
  std::vector<std::string> class_names() const override { return encoding_.classes; }
  std::vector<std::pair<std::int64_t, std::string>> unreadable() const override { return unreadable_; }
  std::string describe(std::int64_t index) const override {
    const std::int64_t rows = table_.rows();
    const std::int64_t line = index < rows ? table_.lines[static_cast<std::size_t>(index)]
                                           : table_.faulty_rows[static_cast<std::size_t>(index - rows)].line;
    return fmt::format("{} line {}", table_.source, line);
  }
  std::int64_t memory_bytes() const override {
    std::int64_t bytes = 0;
    for (const auto& column : table_.columns) {
      for (const std::string& cell : column) bytes += static_cast<std::int64_t>(sizeof(cell) + cell.capacity());
    }
    return bytes;
  }

  void read(std::int64_t index, std::span<std::byte* const> to) const override {
    if (index >= table_.rows())
      fail(ErrorKind::invalid_argument, "{}",
           table_.faulty_rows[static_cast<std::size_t>(index - table_.rows())].fault);
    const auto row = static_cast<std::size_t>(index);
    auto* x = reinterpret_cast<float*>(to[0]);
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      encoding_.columns[i].encode(table_.columns[columns_[i]][row], x);
      x += encoding_.columns[i].width();
    }
    const std::string& target = table_.columns[target_][row];
    if (encoding_.target_is_number) {
      double number = 0;
      require(!is_missing(target), ErrorKind::invalid_argument, "column '{}', the target, has no value",
              encoding_.target);
      require(parse_number(target, number), ErrorKind::invalid_argument,
              "column '{}', the target, holds '{}', which is no number", encoding_.target, target);
      const auto y = static_cast<float>(number);
      std::memcpy(to[1], &y, sizeof(y));
    } else {
      const std::optional<std::int64_t> found = class_of(encoding_.classes, target);
      require(found.has_value() || !is_missing_class(target), ErrorKind::invalid_argument,
              "column '{}', the target, has no value", encoding_.target);
      require(found.has_value(), ErrorKind::invalid_argument,
              "column '{}', the target, holds '{}', which is not among the classes of the training data",
              encoding_.target, target);
      std::memcpy(to[1], &*found, sizeof(*found));
    }
  }

 private:
  void find_unreadable() {
    std::vector<float> x(static_cast<std::size_t>(encoding_.features()));
    std::int64_t y = 0;
    const std::vector<std::byte*> to = {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(&y)};
    for (std::int64_t i = 0; i < size(); ++i) {
      try {
        read(i, to);
      } catch (const Error& error) {
        unreadable_.emplace_back(i, fmt::format("{}: {}", describe(i), error.message()));
      }
    }
  }

  // Warns of readable rows with categories that the training data do not have.
  void announce_unknown(const ColumnEncoding& encoding, std::size_t column) const {
    const auto& cells = table_.columns[column];
    std::size_t first = 0;
    std::int64_t count = 0;
    auto unreadable = unreadable_.begin();
    for (std::size_t row = 0; row < cells.size(); ++row) {
      if (unreadable != unreadable_.end() && unreadable->first == static_cast<std::int64_t>(row)) ++unreadable;
      else if (!encoding.is_known(cells[row]) && count++ == 0) first = row;
    }
    if (count == 0) return;
    warn("'{}' line {}, column '{}': the training data have no category '{}'; {} such cells count as {}", table_.source,
         table_.lines[first], encoding.column, cells[first], count,
         encoding.kind == EncodingKind::ordinal ? "-1" : "none of the categories");
  }

  CsvTable table_;
  TableEncoding encoding_;
  std::vector<std::size_t> columns_;
  std::size_t target_ = 0;
  std::vector<Field> fields_;
  std::vector<std::pair<std::int64_t, std::string>> unreadable_;
};

// Whether the cells count the rows from 0 or 1, like the index of a data frame.
bool counts_rows(const std::vector<std::string>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    double number = 0, first = 0;
    if (!parse_number(cells[0], first) || !parse_number(cells[i], number)) return false;
    if ((first != 0 && first != 1) || number != first + static_cast<double>(i)) return false;
  }
  return true;
}

// Whether the column has no name and holds nothing to learn from, so that it is left out.
bool is_left_out(const CsvTable& table, std::size_t column) {
  if (!table.names[column].empty()) return false;
  const bool counts = counts_rows(table.columns[column]);
  require(counts || std::ranges::all_of(table.columns[column], is_missing), ErrorKind::invalid_argument,
          "'{}': column {} has no name; give it one in the first line, or name \"\" in data.ignored_columns",
          table.source, column + 1);
  if (counts) warn("'{}': column {} has no name and counts the rows; it is left out", table.source, column + 1);
  return true;
}

class TableFit {
 public:
  TableFit(const CsvTable& table, const CsvOptions& options) : table_(table), options_(options) {}

  ColumnEncoding fit(std::size_t column) const {
    const std::string& name = table_.names[column];
    const auto given = options_.encodings.find(name);
    EncodingKind kind = EncodingKind::as_is;
    std::vector<std::string> missing = options_.missing;
    if (given != options_.encodings.end()) {
      kind = given->second;
    } else {
      const DefaultEncoding found = default_encoding(table_.columns[column], options_.missing);
      kind = found.kind;
      announce(column, found);
      for (const std::int64_t row : found.words) missing.push_back(cell(column, row));
      std::ranges::sort(missing);
      const auto [begin, end] = std::ranges::unique(missing);
      missing.erase(begin, end);
    }
    try {
      return fit_encoding(name, kind, table_.columns[column], options_.clip_quantile, missing);
    } catch (CellFault& fault) {
      fault.add_context(fmt::format("'{}' line {}", table_.source, table_.lines[static_cast<std::size_t>(fault.row)]));
      throw;
    } catch (Error& error) {
      error.add_context(fmt::format("'{}'", table_.source));
      throw;
    }
  }

 private:
  const std::string& cell(std::size_t column, std::int64_t row) const {
    return table_.columns[column][static_cast<std::size_t>(row)];
  }

  // Warns of a column that holds both numbers and words, or very many different words.
  void announce(std::size_t column, const DefaultEncoding& found) const {
    const std::string& name = table_.names[column];
    if (!found.words.empty()) {
      const std::int64_t row = found.words.front();
      warn(
          "'{}' line {}, column '{}': '{}' is no number, as {} others are: {} such cells count as missing values; "
          "data.encodings.{} = \"one_hot\" makes categories of them all",
          table_.source, table_.lines[static_cast<std::size_t>(row)], name, cell(column, row), found.numbers,
          found.others, name);
    } else if (found.kind == EncodingKind::ordinal) {
      const auto& cells = table_.columns[column];
      const auto word = std::ranges::find_if_not(cells, is_missing);
      warn(
          "'{}', column '{}': its many different values, such as '{}' in line {}, are no numbers and are counted in "
          "alphabetical order; data.encodings or data.ignored_columns decides otherwise",
          table_.source, name, *word, table_.lines[static_cast<std::size_t>(word - cells.begin())]);
    } else if (found.others > 0 && found.numbers > found.others) {
      const auto& cells = table_.columns[column];
      double number = 0;
      const auto word = std::ranges::find_if(
          cells, [&](const std::string& each) { return !is_missing(each) && !parse_number(each, number); });
      warn("'{}' line {}, column '{}': '{}' is no number, as {} others are: all cells are taken as categories",
           table_.source, table_.lines[static_cast<std::size_t>(word - cells.begin())], name, *word, found.numbers);
    }
  }

  const CsvTable& table_;
  const CsvOptions& options_;
};

}  // namespace

std::int64_t TableEncoding::features() const {
  std::int64_t features = 0;
  for (const ColumnEncoding& column : columns) features += column.width();
  return features;
}

TableEncoding fit_table(const std::filesystem::path& path, const CsvOptions& options, const TrainedSamples& trained) {
  CsvTable table = read_csv(path, options.separator);
  require(!options.target.empty(), ErrorKind::invalid_argument, "'{}': say which column is the target", table.source);
  const std::size_t target = table.column(options.target);
  require(table.rows() > 0, ErrorKind::invalid_argument, "'{}' has no rows{}", table.source,
          table.faulty_rows.empty() ? ""
                                    : fmt::format(" that can be read; the first one, in line {}, has {}",
                                                  table.faulty_rows[0].line, table.faulty_rows[0].fault));
  for (const auto& [name, kind] : options.encodings) table.column(name);
  for (const std::string& name : options.ignored) table.column(name);
  TableEncoding encoding;
  encoding.target = options.target;
  encoding.target_is_number = options.target_is_number;
  if (!options.target_is_number) encoding.classes = classes_of(table, target);
  std::vector<std::size_t> columns;
  for (std::size_t i = 0; i < table.names.size(); ++i) {
    if (i == target || std::ranges::find(options.ignored, table.names[i]) != options.ignored.end()) continue;
    if (!is_left_out(table, i)) columns.push_back(i);
  }
  keep_trained_rows(table, target, options.target_is_number, trained);
  const TableFit fit(table, options);
  for (const std::size_t column : columns) encoding.columns.push_back(fit.fit(column));
  require(!encoding.columns.empty(), ErrorKind::invalid_argument, "'{}' has no column beside the target", table.source);
  return encoding;
}

std::unique_ptr<Dataset> open_csv_dataset(const std::filesystem::path& path, const TableEncoding& encoding,
                                          char separator) {
  return std::make_unique<CsvDataset>(read_csv(path, separator), encoding);
}

}  // namespace tessera::train
