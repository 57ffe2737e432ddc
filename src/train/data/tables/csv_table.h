// A file of separated values as columns of text.
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
  std::vector<std::string> names;                 // of the columns, from the first line; "" where it has none
  std::vector<std::vector<std::string>> columns;  // of cells, one vector a column
  std::vector<std::int64_t> lines;                // where each row begins in the file, counted from 1
  std::vector<FaultyRow> faulty_rows;             // rows of another length, left out of the columns
  std::int64_t rows() const { return columns.empty() ? 0 : static_cast<std::int64_t>(columns[0].size()); }
  // The column of that name. Throws Error(invalid_argument) that lists the columns.
  std::size_t column(const std::string& name) const;
};

// Reads separated values with a line of names (RFC 4180: quotes, line breaks in quotes). `separator` 0: that of the
// first lines, which may be a comma, a semicolon, a tab or a vertical bar, or what Excel's "sep=;" says. Columns of
// numbers with decimal commas (not in tables that commas separate) are given with decimal points: "1.234,5" as
// "1234.5". Throws Error: not_found, io, over_budget beyond 16 GiB, invalid_argument with the line for what is no such
// table: without names, with a name twice, with a quote that does not end or stands inside of a cell, or not in UTF-8.
CsvTable read_csv(const std::filesystem::path& path, char separator = 0);

// The number that a cell holds, or nothing: for "12", " -3.5e2 ", "nan"; not for "" or "12 kg".
bool parse_number(std::string_view cell, double& number);

// What tables write where a value is missing: "", "NA", "n/a", "NaN", "null", "None", "?", "-", "#N/A" and the like, in
// usual cases of letters.
const std::vector<std::string>& missing_spellings();
bool is_missing(std::string_view cell);
// Those of them that cannot be the name of a class: not "None", "-" or ".".
bool is_missing_class(std::string_view cell);

}  // namespace tessera::train
