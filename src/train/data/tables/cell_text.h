// Interprets the cells of a table as text.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "train/data/tables/csv_table.h"

namespace tessera::train {

// The position of the first byte that is not valid UTF-8.
std::optional<std::size_t> first_not_utf8(std::string_view text);

// Rewrites columns of numbers with decimal commas to decimal points. A column counts as one if at least nine in ten of
// its non-missing cells are such numbers ("12,5", "1.234,5" or "-3"), and at least one has a comma. Warns of columns
// beside them whose points are ambiguous, as in "1.234".
void use_decimal_points(CsvTable& table);

}  // namespace tessera::train
