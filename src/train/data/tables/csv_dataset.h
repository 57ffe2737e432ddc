// Samples that are rows of a CSV file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "train/data/dataset.h"
#include "train/data/tables/column_encoding.h"

namespace tessera::train {

struct CsvOptions {
  std::string target;                             // the column to predict; required
  bool target_is_number = false;                  // if true, y is f32 (a regression); else the number of the class
  std::map<std::string, EncodingKind> encodings;  // by column; other columns have their default_encoding
  std::vector<std::string> ignored;               // columns
  std::vector<std::string> missing;               // stand for missing values, in addition to the usual spellings
  double clip_quantile = 0;                       // for outliers, see fit_encoding
  char separator = 0;                             // 0 to detect it, see read_csv
};

// How the rows of a table are encoded as the fields x f32 [features] and y (i64 [] or f32 [1]).
struct TableEncoding {
  std::vector<ColumnEncoding> columns;  // in the order of their features
  std::string target;
  bool target_is_number = false;
  std::vector<std::string> classes;  // sorted as numbers if all of them are numbers, else as text

  std::int64_t features() const;
};

// Returns the samples out of `size` that are trained on when others are held out, in ascending order.
using TrainedSamples = std::function<std::vector<std::int64_t>(std::int64_t size)>;

// Learns from the rows of a table that are trained on and whose target has a value. The rows that are trained on are
// those that `trained` names, numbered as in open_csv_dataset, or all if it is null. The classes are those of all rows.
// Warns of words in columns of numbers, and of a column without a name that only counts the rows, which is left out.
// Throws Error(invalid_argument), which names file, line and column, for unknown columns, for other columns without a
// name, for a target without values, and as fit_encoding does.
TableEncoding fit_table(const std::filesystem::path& path, const CsvOptions& options,
                        const TrainedSamples& trained = nullptr);

// The rows under an encoding that was learnt from the training data. Rows with a cell that cannot be encoded, with a
// missing or unknown target, or with another number of cells are unreadable (Dataset::unreadable).
std::unique_ptr<Dataset> open_csv_dataset(const std::filesystem::path& path, const TableEncoding& encoding,
                                          char separator = 0);

}  // namespace tessera::train
