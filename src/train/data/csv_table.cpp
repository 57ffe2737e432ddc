#include "train/data/csv_table.h"

#include <csv.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "base/error.h"
#include "io/file.h"

namespace tessera::train {
namespace {

constexpr std::int64_t kMostTableBytes = std::int64_t{16} << 30;
constexpr std::size_t kPartBytes = std::size_t{1} << 20;

// Gathers what libcsv calls back with; exceptions must not pass through it, so the first one is kept.
class Gatherer {
 public:
  explicit Gatherer(CsvTable& table) : table_(table) {}

  static void cell(void* text, std::size_t length, void* self) {
    auto& gatherer = *static_cast<Gatherer*>(self);
    gatherer.keep([&] { gatherer.row_.emplace_back(static_cast<const char*>(text), length); });
  }
  static void row(int, void* self) {
    auto& gatherer = *static_cast<Gatherer*>(self);
    gatherer.keep([&] { gatherer.end_row(); });
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  template <typename Action>
  void keep(Action action) {
    if (error_) return;
    try {
      action();
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  void end_row() {
    const std::int64_t number = ++rows_;
    if (table_.names.empty()) {
      table_.names = std::move(row_);
      table_.columns.resize(table_.names.size());
    } else if (row_.size() != table_.names.size()) {
      table_.faulty_rows.push_back(
          fmt::format("row {} has {} cells, expected {}", number, row_.size(), table_.names.size()));
    } else {
      for (std::size_t i = 0; i < row_.size(); ++i) table_.columns[i].push_back(std::move(row_[i]));
      table_.row_numbers.push_back(number);
    }
    row_.clear();
  }

  CsvTable& table_;
  std::vector<std::string> row_;
  std::int64_t rows_ = 0;
  std::exception_ptr error_;
};

}  // namespace

std::size_t CsvTable::column(const std::string& name) const {
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  std::string known;
  for (const std::string& other : names) known += (known.empty() ? "'" : ", '") + other + "'";
  fail(ErrorKind::invalid_argument, "'{}' has no column '{}'; its columns are {}", source, name, known);
}

CsvTable read_csv(const std::filesystem::path& path, char separator) {
  CsvTable table;
  table.source = path.string();
  const std::vector<std::byte> text = io::read_file(path, kMostTableBytes);
  csv_parser parser;
  require(csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) == 0, ErrorKind::over_budget, "no memory to read '{}'",
          table.source);
  const std::unique_ptr<csv_parser, void (*)(csv_parser*)> guard(&parser, csv_free);
  csv_set_delim(&parser, static_cast<unsigned char>(separator));
  Gatherer gatherer(table);
  std::size_t at = 0;
  // A byte order mark is no part of the first name.
  if (text.size() >= 3 && text[0] == std::byte{0xEF} && text[1] == std::byte{0xBB} && text[2] == std::byte{0xBF})
    at = 3;
  while (at < text.size()) {
    const std::size_t part = std::min(kPartBytes, text.size() - at);
    const std::size_t done = csv_parse(&parser, text.data() + at, part, Gatherer::cell, Gatherer::row, &gatherer);
    gatherer.rethrow();
    require(done == part, ErrorKind::invalid_argument, "'{}' is no CSV file: {} at byte {}", table.source,
            csv_strerror(csv_error(&parser)), at + done);
    at += part;
  }
  const bool ended = csv_fini(&parser, Gatherer::cell, Gatherer::row, &gatherer) == 0;
  gatherer.rethrow();
  require(ended, ErrorKind::invalid_argument, "'{}' ends inside of a quoted cell", table.source);
  require(!table.names.empty(), ErrorKind::invalid_argument, "'{}' is empty; expected a line of column names",
          table.source);
  return table;
}

bool parse_number(const std::string& cell, double& number) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  const char *begin = cell.data(), *end = begin + cell.size();
  while (begin < end && is_space(*begin)) ++begin;
  while (begin < end && is_space(end[-1])) --end;
  if (begin < end && *begin == '+') ++begin;
  const auto [stop, error] = std::from_chars(begin, end, number);
  return error == std::errc() && stop == end && begin < end;
}

}  // namespace tessera::train
