// How a column of a table becomes numbers, learnt from the training data and applied everywhere else alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/error.h"

namespace tessera::train {

enum class EncodingKind : std::uint8_t {
  as_is,    // the number itself
  min_max,  // (x − min) / (max − min), so [0, 1] on the training data
  z_score,  // (x − mean) / standard deviation
  one_hot,  // a vector with a 1 at the category; all zeros for one that the training data do not have
  ordinal,  // the number of the category, from 0; −1 for one that the training data do not have
};

// "as_is", "min_max", "z_score", "one_hot", "ordinal". Throws Error(invalid_argument) that lists them.
EncodingKind encoding_kind(std::string_view name);
std::string_view name_of(EncodingKind kind);

struct ColumnEncoding {
  std::string column;
  EncodingKind kind = EncodingKind::as_is;
  // Of numbers: they are clipped to [low, high] before anything else (outliers); a missing value counts as `missing`.
  double low = 0, high = 0, missing = 0;
  std::vector<std::string> missing_words;  // that stand for a missing value beside the usual spellings
  std::int64_t missing_cells = 0;          // of the training data
  bool clips = false;
  double offset = 0, scale = 1;         // encoded = (clipped − offset) · scale
  std::vector<std::string> categories;  // of one_hot and ordinal, sorted; each spelling of a missing value is its own
  // The category of missing values: of spellings that the training data do not have. Nothing where they have none.
  std::optional<std::string> missing_category;

  bool is_categorical() const { return kind == EncodingKind::one_hot || kind == EncodingKind::ordinal; }
  // How many numbers the column becomes.
  std::int64_t width() const {
    return kind == EncodingKind::one_hot ? static_cast<std::int64_t>(categories.size()) : 1;
  }
  bool is_missing_cell(const std::string& cell) const;
  // Whether the cell is a category of the training data, or counts as one, where the column has categories.
  bool is_known(const std::string& cell) const;
  // Writes width() numbers. Throws Error(invalid_argument) for a cell that is no number where one is expected.
  void encode(const std::string& cell, float* to) const;
  // "z_score of numbers with mean 38.6 and deviation 13.6; 12 missing values count as 38.6", "one_hot of 3 categories:
  // blue, green, red".
  std::string describe() const;
};

// Learns an encoding from the cells of a column. `clip_quantile` q in (0, 0.5): numbers are clipped to the quantiles q
// and 1 − q of the column; 0: not at all. A missing value, in the usual spellings (is_missing) or as one of
// `missing_words`, counts as the mean of the numbers that are there; among categories it is one of its own. Throws
// Error(invalid_argument) for a cell that is no number (CellFault, with its place), a column of one value only
// (min_max, z_score) or of none, or more than 4096 categories.
ColumnEncoding fit_encoding(std::string column, EncodingKind kind, const std::vector<std::string>& cells,
                            double clip_quantile = 0, const std::vector<std::string>& missing_words = {});

// A cell that its column's encoding cannot take; `row` counts from 0.
class CellFault : public Error {
 public:
  CellFault(std::string message, std::int64_t row) : Error(ErrorKind::invalid_argument, std::move(message)), row(row) {}
  std::int64_t row;
};

// What a column is encoded by when nothing is said. Cells that are missing do not count. Where all others are numbers:
// z_score, or as_is if they are all the same. Else one_hot for up to 64 categories, and ordinal for more; but a column
// of more than 10 different numbers with at most one word in ten cells is one of numbers, and its words stand for
// missing values.
struct DefaultEncoding {
  EncodingKind kind = EncodingKind::as_is;
  std::vector<std::int64_t> words;       // rows of cells that are no numbers, of a column of numbers
  std::int64_t numbers = 0, others = 0;  // cells
};
DefaultEncoding default_encoding(const std::vector<std::string>& cells,
                                 const std::vector<std::string>& missing_words = {});

}  // namespace tessera::train
