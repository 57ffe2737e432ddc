// The versions and files in the folder of a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "serve/core/config/model_settings.h"
#include "serve/core/models/served_model.h"

namespace tessera::serve {

// Whether a model can have this name: letters, digits, '_', '-' and '.', of which the last is not the first.
bool is_name(std::string_view name);
// The number of the version whose folder has this name, or 0 for a name that is no number above 0.
std::int64_t version_number(std::string_view name);
// The versions on disk that the policy asks for, ascending.
std::vector<std::int64_t> chosen_versions(const std::filesystem::path& folder, const ModelSettings& settings);
// Reads the labels of the outputs whose configuration names a file in the model's folder. Throws Error as io::InputFile
// does, and over_budget for a large file.
Labels read_labels(const std::filesystem::path& folder, const ModelSettings& settings);
// The model's file in the folder of a version. Throws Error(not_found, invalid_argument).
std::filesystem::path model_file(const std::filesystem::path& folder, const ModelSettings& settings);

}  // namespace tessera::serve
