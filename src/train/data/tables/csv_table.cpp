#include "train/data/tables/csv_table.h"

#include <csv.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.h"
#include "io/file.h"
#include "train/data/tables/cell_text.h"

namespace tessera::train {
namespace {

constexpr std::int64_t kMostTableBytes = std::int64_t{16} << 30;

// Collects what libcsv passes to its callbacks. Exceptions must not pass through libcsv, so the first one is kept.
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

  // The first line of the row that is being read, counted from 1.
  std::int64_t first_line() const { return first_line_; }
  // To be called before and after each line is parsed.
  void begin_line(std::int64_t line) {
    if (!in_row_) first_line_ = line;
    row_ended_ = false;
  }
  void end_line(bool is_blank) { in_row_ = !row_ended_ && (in_row_ || !is_blank); }

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
    row_ended_ = true;
    const std::size_t expected = table_.names.size();
    if (expected == 0) {
      table_.names = std::move(row_);
      table_.columns.resize(table_.names.size());
    } else {
      // A separator at the end of each line does not begin a cell.
      if (row_.size() == expected + 1 && row_.back().empty()) row_.pop_back();
      if (row_.size() != expected) {
        table_.faulty_rows.push_back({first_line_, fmt::format("{} cells, expected {}", row_.size(), expected)});
      } else {
        for (std::size_t i = 0; i < row_.size(); ++i) table_.columns[i].push_back(std::move(row_[i]));
        table_.lines.push_back(first_line_);
      }
    }
    row_.clear();
  }

  CsvTable& table_;
  std::vector<std::string> row_;
  std::int64_t first_line_ = 1;
  bool in_row_ = false, row_ended_ = false;
  std::exception_ptr error_;
};

// The line that begins here, including its line break.
std::string_view line_at(std::string_view text, std::size_t begin) {
  const std::size_t end = text.find_first_of("\r\n", begin);
  if (end == std::string_view::npos) return text.substr(begin);
  const bool two = text[end] == '\r' && end + 1 < text.size() && text[end + 1] == '\n';
  return text.substr(begin, end + (two ? 2 : 1) - begin);
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// The separator for which most of the first rows have as many cells as the row of names.
char separator_of(const std::filesystem::path& path, std::string_view text) {
  constexpr std::string_view kSeparators = "\t;|,";  // in order of preference: commas also occur in texts and numbers
  constexpr std::size_t kMostRows = 64, kMostBytes = 1 << 20;
  std::vector<std::vector<std::int64_t>> counts(1, std::vector<std::int64_t>(kSeparators.size()));
  bool quoted = false, any = false;
  for (const char c : text.substr(0, kMostBytes)) {
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '\n' || c == '\r') {
      if (any && counts.size() == kMostRows) break;
      if (any) counts.emplace_back(kSeparators.size());
      any = false;
      continue;
    }
    any = true;
    const std::size_t which = kSeparators.find(c);
    if (which != std::string_view::npos) ++counts.back()[which];
  }
  if (!any && counts.size() > 1) counts.pop_back();
  char best = path.extension() == ".tsv" ? '\t' : ',';
  std::int64_t most_agree = -1, most_cells = 0;
  for (std::size_t i = 0; i < kSeparators.size(); ++i) {
    const std::int64_t cells = counts[0][i];
    if (cells == 0) continue;
    const std::int64_t agree = std::ranges::count_if(counts, [&](const auto& row) { return row[i] == cells; });
    if (agree < most_agree || (agree == most_agree && cells <= most_cells)) continue;
    best = kSeparators[i];
    most_agree = agree;
    most_cells = cells;
  }
  return best;
}

// Throws if the text is not UTF-8; its first bytes tell which encoding it probably has.
void check_encoding(const CsvTable& table, std::string_view text) {
  const bool is_utf16 = text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF");
  require(!is_utf16, ErrorKind::invalid_argument,
          "'{}' is in UTF-16, expected UTF-8; convert it, as by iconv -f utf-16 -t utf-8", table.source);
  require(text.find('\0') == std::string_view::npos, ErrorKind::invalid_argument,
          "'{}' holds zero bytes: it is no text, such as that of a spreadsheet saved as CSV", table.source);
  const std::optional<std::size_t> wrong = first_not_utf8(text);
  require(!wrong, ErrorKind::invalid_argument,
          "'{}' line {}: not in UTF-8; convert the file, as by iconv -f windows-1252 -t utf-8", table.source,
          wrong ? 1 + std::ranges::count(text.substr(0, *wrong), '\n') : 0);
}

void parse(CsvTable& table, std::string_view text, std::int64_t line) {
  csv_parser parser;
  require(csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) == 0, ErrorKind::over_budget, "no memory to read '{}'",
          table.source);
  const std::unique_ptr<csv_parser, void (*)(csv_parser*)> guard(&parser, csv_free);
  csv_set_delim(&parser, static_cast<unsigned char>(table.separator));
  Gatherer gatherer(table);
  for (std::size_t at = 0; at < text.size(); ++line) {
    const std::string_view part = line_at(text, at);
    gatherer.begin_line(line);
    const std::size_t done = csv_parse(&parser, part.data(), part.size(), Gatherer::cell, Gatherer::row, &gatherer);
    gatherer.rethrow();
    require(done == part.size(), ErrorKind::invalid_argument,
            "'{}' line {}, character {}: a quote inside of a cell; put the whole cell in quotes and write its own "
            "quotes twice",
            table.source, line, done);
    gatherer.end_line(is_blank(part));
    at += part.size();
  }
  const bool ended = csv_fini(&parser, Gatherer::cell, Gatherer::row, &gatherer) == 0;
  gatherer.rethrow();
  require(ended, ErrorKind::invalid_argument, "'{}' ends inside of a quoted cell of the row that begins in line {}",
          table.source, gatherer.first_line());
}

void check_names(const CsvTable& table) {
  require(!table.names.empty(), ErrorKind::invalid_argument, "'{}' is empty; expected a line of column names",
          table.source);
  for (std::size_t i = 0; i < table.names.size(); ++i) {
    const auto other =
        std::find(table.names.begin(), table.names.begin() + static_cast<std::ptrdiff_t>(i), table.names[i]);
    require(table.names[i].empty() || other == table.names.begin() + static_cast<std::ptrdiff_t>(i),
            ErrorKind::invalid_argument, "'{}': the columns {} and {} are both named '{}'", table.source,
            other - table.names.begin() + 1, i + 1, table.names[i]);
  }
}

}  // namespace

std::size_t CsvTable::column(const std::string& name) const {
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  std::string known;
  double number = 0;
  for (const std::string& other : names) known += (known.empty() ? "'" : ", '") + other + "'";
  const bool numbers = std::ranges::any_of(names, [&](const std::string& each) { return parse_number(each, number); });
  fail(ErrorKind::invalid_argument, "'{}' has no column '{}'; its columns are {}{}", source, name, known,
       numbers ? ": the first line must hold names" : "");
}

CsvTable read_csv(const std::filesystem::path& path, char separator) {
  CsvTable table;
  table.source = path.string();
  const std::vector<std::byte> bytes = io::read_file(path, kMostTableBytes);
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  check_encoding(table, text);
  // A byte order mark is not part of the first name.
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::int64_t line = 1;
  const std::string_view first = line_at(text, 0);
  if (first.starts_with("sep=") && first.size() > 5 && is_blank(first.substr(5))) {
    if (separator == 0) separator = first[4];
    text.remove_prefix(first.size());
    line = 2;
  }
  table.separator = separator != 0 ? separator : separator_of(path, text);
  parse(table, text, line);
  check_names(table);
  if (table.separator != ',') use_decimal_points(table);
  return table;
}

}  // namespace tessera::train
