// Quantisation into a file, as the command and the Python package do it.
#pragma once

#include <string>

#include "tessera/quantise.h"

namespace tessera::compress {

// Quantises the model and writes it to `output` (.onnx, or .tsr for this machine). The report has the file's size and,
// where `times` is set and there are calibration data, the predicted and measured times of both models. Throws Error as
// quantise() does, and, before any work, invalid_argument for other endings and io for a file that cannot be written.
// `file_bytes_before`: of the file that the model was read from, or 0.
QuantisedModel quantise_to_file(const Model& model, const QuantiseOptions& options, const std::string& output,
                                bool times, std::int64_t file_bytes_before = 0);

// Of a model's file, with what it keeps in other files (external data); 0 where there is none of that name.
std::int64_t file_bytes_of(const std::string& path, const Model& model);

}  // namespace tessera::compress
