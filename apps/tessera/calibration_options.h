// Options for the data on which a compressed model is calibrated and measured.
#pragma once

#include <CLI/CLI.hpp>

#include "tessera/quantise.h"

namespace tessera::apps {

// Adds --data --labels --normalise --batch --samples. `purpose` says what the data are for, "Inputs to …".
void add_calibration_options(CLI::App& verb, CalibrationData& data, const char* purpose);

// Adds --metric.
void add_metric_option(CLI::App& verb, std::string& metric);

}  // namespace tessera::apps
