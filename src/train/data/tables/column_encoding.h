// Encodes a column of a table as numbers; the encoding is learnt from the training data and applied to all other data.
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
  min_max,  // (x − min) / (max − min), which is in [0, 1] on the training data
  z_score,  // (x − mean) / standard deviation
  one_hot,  // a vector with a 1 at the category; all zeros for a category that the training data do not have
  ordinal,  // the number of the category, from 0; −1 for a category that the training data do not have
};

// "as_is", "min_max", "z_score", "one_hot", "ordinal". Throws Error(invalid_argument) that lists them.
EncodingKind encoding_kind(std::string_view name);
std::string_view name_of(EncodingKind kind);

struct ColumnEncoding {
  std::string column;
  EncodingKind kind = EncodingKind::as_is;
  // For columns of numbers: these are clipped to [low, high] first (outliers), and a missing value counts as `missing`.
  double low = 0, high = 0, missing = 0;
  std::vector<std::string> missing_words;  // stand for a missing value, in addition to the usual spellings
  std::int64_t missing_cells = 0;          // number in the training data
  bool clips = false;
  double offset = 0, scale = 1;  // encoded = (clipped − offset) · scale
  // of one_hot and ordinal, sorted; each spelling of a missing value is a category of its own
  std::vector<std::string> categories;
  // The category of a missing value in a spelling that the training data do not have. Nothing if they have no missing
  // values.
  std::optional<std::string> missing_category;

  bool is_categorical() const { return kind == EncodingKind::one_hot || kind == EncodingKind::ordinal; }
  // The number of features that the column becomes.
  std::int64_t width() const {
    return kind == EncodingKind::one_hot ? static_cast<std::int64_t>(categories.size()) : 1;
  }
  bool is_missing_cell(const std::string& cell) const;
  // For columns of categories, whether the training data have the cell's category or one that it counts as.
  bool is_known(const std::string& cell) const;
  // Writes width() numbers. Throws Error(invalid_argument) if the cell is no number where one is expected.
  void encode(const std::string& cell, float* to) const;
  // "z_score of numbers with mean 38.6 and deviation 13.6; 12 missing values count as 38.6", "one_hot of 3 categories:
  // blue, green, red".
  std::string describe() const;
};

// Learns an encoding from the cells of a column. With a `clip_quantile` q in (0, 0.5), numbers are clipped to the
// column's quantiles q and 1 − q; with 0, they are not clipped. A missing value (see is_missing, or one of
// `missing_words`) counts as the mean of the present numbers; among categories it is a category of its own. Throws
// CellFault for a cell that is no number, and Error(invalid_argument) for a column of a single value (min_max,
// z_score), a column without values, or more than 4096 categories.
ColumnEncoding fit_encoding(std::string column, EncodingKind kind, const std::vector<std::string>& cells,
                            double clip_quantile = 0, const std::vector<std::string>& missing_words = {});

// A cell that its column's encoding cannot take. `row` counts from 0.
class CellFault : public Error {
 public:
  CellFault(std::string message, std::int64_t row) : Error(ErrorKind::invalid_argument, std::move(message)), row(row) {}
  std::int64_t row;
};

// The encoding of a column for which none is given. Missing cells do not count. If all others are numbers, it is
// z_score, or as_is if they are all equal. Otherwise it is one_hot for up to 64 categories, and ordinal for more. But a
// column of more than 10 different numbers in which at most one cell in ten is a word counts as a column of numbers,
// and its words stand for missing values.
struct DefaultEncoding {
  EncodingKind kind = EncodingKind::as_is;
  std::vector<std::int64_t> words;       // for a column of numbers: rows of cells that are not numbers
  std::int64_t numbers = 0, others = 0;  // numbers of cells
};
DefaultEncoding default_encoding(const std::vector<std::string>& cells,
                                 const std::vector<std::string>& missing_words = {});

}  // namespace tessera::train
