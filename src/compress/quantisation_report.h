// What a quantisation did, as text, JSON and a page.
#pragma once

#include <string>

#include "tessera/quantise.h"

namespace tessera::compress {

// Two names of files stand for the model before and after.
struct QuantisationFiles {
  std::string before, after;
};

std::string quantisation_text(const QuantiseReport& report, const QuantisationFiles& files, std::size_t most_layers);
std::string quantisation_json(const QuantiseReport& report, const QuantisationFiles& files);
std::string quantisation_html(const QuantiseReport& report, const QuantisationFiles& files);

// Fills in the predicted and measured times of both on inputs of one sample, interleaved runs. Leaves out what cannot
// be predicted.
void add_latency(QuantiseReport& report, const Model& before, const Model& after, const NamedValues& inputs,
                 const SessionOptions& session);

}  // namespace tessera::compress
