// Rows of a CSV file as samples.
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
  std::string target;                             // the column to predict; must be given
  bool target_is_number = false;                  // y is f32, a regression; else the class's number
  std::map<std::string, EncodingKind> encodings;  // of columns; others have their default_encoding
  std::vector<std::string> ignored;               // columns
  std::vector<std::string> missing;               // words that stand for missing values beside the usual spellings
  double clip_quantile = 0;                       // of outliers, see fit_encoding
  char separator = 0;                             // 0: found out, see read_csv
};

// How a table becomes the fields x f32 [features] and y (i64 [] or f32 [1]).
struct TableEncoding {
  std::vector<ColumnEncoding> columns;  // in the order of their features
  std::string target;
  bool target_is_number = false;
  std::vector<std::string> classes;  // sorted as numbers if they all are, else as text

  std::int64_t features() const;
};

// The samples, in ascending order, out of so many that are trained on where others are held out.
using TrainedSamples = std::function<std::vector<std::int64_t>(std::int64_t size)>;

// Learns from the rows of a table that are trained on: those that `trained` names, numbered as in open_csv_dataset
// (null: all of them), and whose target has a value. The classes are those of all rows. Warns of cells that are no
// numbers in columns where most are, and of a column without a name that counts the rows, which is left out. Throws
// Error(invalid_argument), naming file, line and column, for unknown columns, other columns without a name, as
// fit_encoding does, and for a target without values.
TableEncoding fit_table(const std::filesystem::path& path, const CsvOptions& options,
                        const TrainedSamples& trained = nullptr);

// The rows under an encoding that was learnt from the training data. A row with a cell that cannot be encoded, a target
// that is missing or unknown, or another number of cells cannot be read (Dataset::unreadable).
std::unique_ptr<Dataset> open_csv_dataset(const std::filesystem::path& path, const TableEncoding& encoding,
                                          char separator = 0);

}  // namespace tessera::train
