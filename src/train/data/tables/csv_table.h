// Reads a file of separated values as columns of text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::train {

struct CsvTable {
  struct FaultyRow {
    std::int64_t line;
    std::string fault;  // "3 cells, expected 5"
  };
  std::string source;
  char separator = ',';
  std::vector<std::string> names;                 // of the columns, from the first line; "" for a column without a name
  std::vector<std::vector<std::string>> columns;  // of cells, one vector per column
  std::vector<std::int64_t> lines;                // the line in the file where each row begins, counted from 1
  std::vector<FaultyRow> faulty_rows;             // rows with another number of cells, which the columns leave out
  std::int64_t rows() const { return columns.empty() ? 0 : static_cast<std::int64_t>(columns[0].size()); }
  // The index of the column of that name. Throws Error(invalid_argument) that lists the columns.
  std::size_t column(const std::string& name) const;
};

// Reads separated values with a line of names (RFC 4180: quotes, line breaks in quotes). If `separator` is 0, it is
// detected from the first lines: a comma, a semicolon, a tab, a vertical bar, or the one in Excel's "sep=;". In columns
// of numbers with decimal commas (unless commas separate the cells), these become decimal points: "1.234,5" becomes
// "1234.5". Throws Error(not_found), Error(io), Error(over_budget) beyond 16 GiB, and Error(invalid_argument) with the
// line for invalid tables: without names, with a name twice, with a quote that does not end or is within a cell, or not
// in UTF-8.
CsvTable read_csv(const std::filesystem::path& path, char separator = 0);

// Parses the number in a cell, such as "12", " -3.5e2 " or "nan". Returns false for others, such as "" or "12 kg".
bool parse_number(std::string_view cell, double& number);

// Spellings of a missing value in tables: "", "NA", "n/a", "NaN", "null", "None", "?", "-", "#N/A" and similar ones, in
// the usual letter cases.
const std::vector<std::string>& missing_spellings();
bool is_missing(std::string_view cell);
// Whether the cell is one of them that cannot be the name of a class: not "None", "-" or ".".
bool is_missing_class(std::string_view cell);

}  // namespace tessera::train
