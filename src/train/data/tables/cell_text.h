// What the cells of a table say, as text.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "train/data/tables/csv_table.h"

namespace tessera::train {

// Where the first byte stands that is no UTF-8.
std::optional<std::size_t> first_not_utf8(std::string_view text);

// Writes columns of numbers with decimal commas with decimal points. A column is one when at least nine in ten of its
// cells that are not missing are numbers so written, "12,5", "1.234,5" or "-3", and at least one has a comma. Warns of
// columns beside them whose points could be either, as in "1.234".
void use_decimal_points(CsvTable& table);

}  // namespace tessera::train
