// Opens the data that a configuration names.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tessera/train.h"
#include "train/data/dataset.h"
#include "train/data/tables/csv_dataset.h"
#include "train/data/text/text_dataset.h"

namespace tessera::train {

struct DataSource {
  std::shared_ptr<const Dataset> train, test, validation;  // null if there are none
  std::optional<TableEncoding> table;                      // how the columns of a .csv file were encoded
  std::optional<TrainedVocabulary> vocabulary;             // of a text
};

// Opens, caches and holds out data as the options say. Encodings and vocabularies are learnt from the training data
// alone. Throws Error(not_found), Error(io), and Error(invalid_argument) for options that do not fit the files.
DataSource open_data(const TrainingData& data);

}  // namespace tessera::train
