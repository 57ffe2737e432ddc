// Watermarks: marks in the weights of a model that prove where a copy of it comes from. docs/protect.md says what they
// survive and what removes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "tessera/export.h"
#include "tessera/model.h"

namespace tessera {

struct WatermarkReport {
  std::int64_t weights = 0;  // number of weights that carry the mark
  double strength = 0;       // each of them was changed by this share of its magnitude
  double score = 0;          // of the mark in the new weights, see WatermarkFinding
};

// Marks the floating-point weights of a model with an identity, such as the name of the customer who gets this copy.
// `key`: a symmetric key file ('tessera protect --new-key'); only who has it can find the mark. Throws
// Error(invalid_argument) for an empty or too long identity, another kind of key, a package, whose weights are packed,
// and a model with too few weights to carry a mark.
TESSERA_API Model add_watermark(const Model& model, const std::string& identity, const std::filesystem::path& key,
                                WatermarkReport* report = nullptr);

struct WatermarkFinding {
  std::string identity;
  // Without the mark, the score of any model is above t with a probability of at most exp(-t²/2), over the choice of
  // the key.
  double score = 0;
  double threshold = 0;  // which the score of an unmarked model exceeds with a probability of 1e-9 at most
  bool is_found = false;
};

// Looks for the marks of some identities in a model, without needing the model from before it was marked. `weights`, if
// not null, receives the number of weights that were looked at. Throws Error(invalid_argument) as above, and for a
// model without weights that could carry a mark.
TESSERA_API std::vector<WatermarkFinding> find_watermarks(const Model& model, std::span<const std::string> identities,
                                                          const std::filesystem::path& key,
                                                          std::int64_t* weights = nullptr);

}  // namespace tessera
