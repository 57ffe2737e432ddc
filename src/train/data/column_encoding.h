// How a column of a table becomes numbers, learnt from the training data and applied everywhere else alike.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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
  // Of numbers: they are clipped to [low, high] before anything else (outliers); an empty cell counts as `missing`.
  double low = 0, high = 0, missing = 0;
  bool clips = false;
  double offset = 0, scale = 1;         // encoded = (clipped − offset) · scale
  std::vector<std::string> categories;  // of one_hot and ordinal, sorted; "" is the empty cell

  bool is_categorical() const { return kind == EncodingKind::one_hot || kind == EncodingKind::ordinal; }
  // How many numbers the column becomes.
  std::int64_t width() const {
    return kind == EncodingKind::one_hot ? static_cast<std::int64_t>(categories.size()) : 1;
  }
  // Writes width() numbers. Throws Error(invalid_argument) for a cell that is no number where one is expected.
  void encode(const std::string& cell, float* to) const;
};

// Learns an encoding from the cells of a column. `clip_quantile` q in (0, 0.5): numbers are clipped to the quantiles q
// and 1 − q of the column; 0: not at all. The missing value of a number is the mean of the others. Throws
// Error(invalid_argument) for a cell that is no number, a column of one value only (min_max, z_score), or more than
// 4096 categories.
ColumnEncoding fit_encoding(std::string column, EncodingKind kind, const std::vector<std::string>& cells,
                            double clip_quantile = 0);

// What a column is encoded by when nothing is said: z_score where all cells are numbers (as_is if they are all the
// same), one_hot for up to 64 categories, else ordinal.
EncodingKind default_encoding(const std::vector<std::string>& cells);

}  // namespace tessera::train
