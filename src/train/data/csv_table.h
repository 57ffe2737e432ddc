// A CSV file as columns of text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tessera::train {

struct CsvTable {
  std::vector<std::string> names;                 // of the columns, from the first line
  std::vector<std::vector<std::string>> columns;  // of cells, one vector a column
  std::vector<std::int64_t> row_numbers;          // in the file, counted from 1, the line of names included
  std::vector<std::string> faulty_rows;           // "row 12 has 3 cells, expected 5"; left out of the columns
  std::int64_t rows() const { return columns.empty() ? 0 : static_cast<std::int64_t>(columns[0].size()); }
  // The column of that name. Throws Error(invalid_argument) that lists the columns.
  std::size_t column(const std::string& name) const;
  std::string source;
};

// Reads comma-separated values with a line of names (RFC 4180: quotes, line breaks in quotes); `separator` may be
// another character. Throws Error: not_found, io, over_budget beyond 16 GiB, invalid_argument without a line of names
// or where a quoted cell does not end.
CsvTable read_csv(const std::filesystem::path& path, char separator = ',');

// The number that a cell holds, or nothing: for "12", " -3.5e2 ", "nan"; not for "" or "12 kg".
bool parse_number(const std::string& cell, double& number);

}  // namespace tessera::train
