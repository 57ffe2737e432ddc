// Evaluations as JSON, as the log and the command line write them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tessera/train.h"

namespace tessera::train {

// {"DATA_METRIC": …, "DATA_loss": …, "samples"}, DATA being test, validation or train; numbers that are not finite are
// null. What is there is kept.
void add_evaluation(nlohmann::ordered_json& json, const EvaluationReport& report);

// Adds "classes": [{"name", "precision", "recall", "f1", "support"}, …] and "confusion": one list for each label of how
// often each class was predicted, where the report has them and they are at most `most` classes.
void add_classes(nlohmann::ordered_json& json, const EvaluationReport& report, std::size_t most);

// A JSON list of the names of classes, as exported models have it under "class_names" in their metadata.
std::string class_names_text(const std::vector<std::string>& names);

}  // namespace tessera::train
