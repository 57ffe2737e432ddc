// Options that say which data a compressed model is calibrated and measured on.
#pragma once

#include <CLI/CLI.hpp>

#include "tessera/quantise.h"

namespace tessera::apps {

// --data --labels --normalise --batch --samples. `purpose`: what the data are for, "Inputs to …".
void add_calibration_options(CLI::App& verb, CalibrationData& data, const char* purpose);

// --metric
void add_metric_option(CLI::App& verb, std::string& metric);

}  // namespace tessera::apps
