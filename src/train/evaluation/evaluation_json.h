// Writes evaluations as JSON, for the log and the command line.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tessera/train.h"

namespace tessera::train {

// Adds {"DATA_METRIC": …, "DATA_loss": …, "samples"} to the object, where DATA is test, validation or train. Numbers
// that are not finite become null. Existing members are kept.
void add_evaluation(nlohmann::ordered_json& json, const EvaluationReport& report);

// Adds "classes": [{"name", "precision", "recall", "f1", "support"}, …] and "confusion", with one list per label of how
// often each class was predicted, if the report has them and there are at most `most` classes.
void add_classes(nlohmann::ordered_json& json, const EvaluationReport& report, std::size_t most);

// A JSON list of the names of classes, as in the metadata "class_names" of exported models.
std::string class_names_text(const std::vector<std::string>& names);

}  // namespace tessera::train
