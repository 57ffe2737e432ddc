// Quantises a model into a file, for the command and the Python package.
#pragma once

#include <string>

#include "tessera/quantise.h"

namespace tessera::compress {

// Quantises the model and writes it to `output` (.onnx, or .tsr for this machine). The report has the file's size and,
// if `times` is set and there are calibration data, the predicted and measured times of both models.
// `file_bytes_before` is the size of the file that the model was read from, or 0. Throws Error as quantise() does, and,
// before any work, Error(invalid_argument) for other endings and Error(io) for a file that cannot be written.
QuantisedModel quantise_to_file(const Model& model, const QuantiseOptions& options, const std::string& output,
                                bool times, std::int64_t file_bytes_before = 0);

// The size of a model's file, including the files of its external data; 0 if there is no file of that name.
std::int64_t file_bytes_of(const std::string& path, const Model& model);

}  // namespace tessera::compress
