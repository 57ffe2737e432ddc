#include "train/data/csv_dataset.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"
#include "train/data/csv_table.h"

namespace tessera::train {
namespace {

// Classes by their numbers where all are numbers, so that "10" comes behind "9".
std::vector<std::string> classes_of(const CsvTable& table, std::size_t target) {
  const std::set<std::string> found(table.columns[target].begin(), table.columns[target].end());
  require(!found.contains(""), ErrorKind::invalid_argument, "'{}': column '{}', the target, has empty cells",
          table.source, table.names[target]);
  std::vector<std::string> classes(found.begin(), found.end());
  double number = 0;
  if (std::ranges::all_of(classes, [&](const std::string& name) { return parse_number(name, number); })) {
    std::ranges::stable_sort(classes, {}, [](const std::string& name) {
      double value = 0;
      parse_number(name, value);
      return value;
    });
  }
  return classes;
}

class CsvDataset final : public Dataset {
 public:
  CsvDataset(CsvTable table, TableEncoding encoding) : table_(std::move(table)), encoding_(std::move(encoding)) {
    for (const ColumnEncoding& column : encoding_.columns) columns_.push_back(table_.column(column.column));
    target_ = table_.column(encoding_.target);
    fields_ = {{"x", DType::f32, {encoding_.features()}},
               encoding_.target_is_number ? Field{"y", DType::f32, {1}} : Field{"y", DType::i64, {}}};
  }

  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t size() const override { return table_.rows() + static_cast<std::int64_t>(table_.faulty_rows.size()); }
  std::vector<std::string> class_names() const override { return encoding_.classes; }
  std::string describe(std::int64_t index) const override {
    if (index >= table_.rows()) return table_.source;
    return fmt::format("{} row {}", table_.source, table_.row_numbers[static_cast<std::size_t>(index)]);
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
      fail(ErrorKind::invalid_argument, "{}", table_.faulty_rows[static_cast<std::size_t>(index - table_.rows())]);
    const auto row = static_cast<std::size_t>(index);
    auto* x = reinterpret_cast<float*>(to[0]);
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      encoding_.columns[i].encode(table_.columns[columns_[i]][row], x);
      x += encoding_.columns[i].width();
    }
    const std::string& target = table_.columns[target_][row];
    if (encoding_.target_is_number) {
      double number = 0;
      require(parse_number(target, number), ErrorKind::invalid_argument, "the target '{}' is no number", target);
      const auto y = static_cast<float>(number);
      std::memcpy(to[1], &y, sizeof(y));
    } else {
      const auto found = std::ranges::find(encoding_.classes, target);
      require(found != encoding_.classes.end(), ErrorKind::invalid_argument,
              "the class '{}' is not among those of the training data", target);
      const std::int64_t y = found - encoding_.classes.begin();
      std::memcpy(to[1], &y, sizeof(y));
    }
  }

 private:
  CsvTable table_;
  TableEncoding encoding_;
  std::vector<std::size_t> columns_;
  std::size_t target_ = 0;
  std::vector<Field> fields_;
};

}  // namespace

std::int64_t TableEncoding::features() const {
  std::int64_t features = 0;
  for (const ColumnEncoding& column : columns) features += column.width();
  return features;
}

TableEncoding fit_table(const std::filesystem::path& path, const CsvOptions& options) {
  const CsvTable table = read_csv(path, options.separator);
  require(!options.target.empty(), ErrorKind::invalid_argument, "'{}': say which column is the target", table.source);
  require(table.rows() > 0, ErrorKind::invalid_argument, "'{}' has no rows", table.source);
  const std::size_t target = table.column(options.target);
  for (const auto& [name, kind] : options.encodings) table.column(name);
  for (const std::string& name : options.ignored) table.column(name);
  TableEncoding encoding;
  encoding.target = options.target;
  encoding.target_is_number = options.target_is_number;
  if (!options.target_is_number) encoding.classes = classes_of(table, target);
  for (std::size_t i = 0; i < table.names.size(); ++i) {
    if (i == target || std::ranges::find(options.ignored, table.names[i]) != options.ignored.end()) continue;
    const auto given = options.encodings.find(table.names[i]);
    const EncodingKind kind = given != options.encodings.end() ? given->second : default_encoding(table.columns[i]);
    encoding.columns.push_back(fit_encoding(table.names[i], kind, table.columns[i], options.clip_quantile));
  }
  require(!encoding.columns.empty(), ErrorKind::invalid_argument, "'{}' has no column beside the target", table.source);
  return encoding;
}

std::unique_ptr<Dataset> open_csv_dataset(const std::filesystem::path& path, const TableEncoding& encoding,
                                          char separator) {
  return std::make_unique<CsvDataset>(read_csv(path, separator), encoding);
}

}  // namespace tessera::train
