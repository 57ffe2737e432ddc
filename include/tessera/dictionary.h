// Convolutions by a dictionary (Bagherinezhad, Rastegari and Farhadi, "LCNN: Lookup-based Convolutional Neural
// Network", arXiv:1611.06473): kernels become sparse combinations of a few vectors, so that sums of looked-up responses
// replace most of the arithmetic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/model.h"

namespace tessera {

struct DictionaryOptions {
  std::int64_t vectors = 16;         // in each layer's dictionary; at least 1
  std::int64_t terms = 2;            // vectors combined for each output at each position of its window; at least 1
  double least_saved = 1.5;          // a layer is left unchanged unless it takes so many times fewer multiply-adds
  std::vector<std::string> exclude;  // patterns of names of weights whose layers are left unchanged
};

struct DictionaryLayer {
  std::string name;  // of the weights
  std::int64_t channels = 0, outputs = 0, taps = 0;
  std::int64_t vectors = 0, terms = 0;                       // 0: the layer is unchanged …
  std::string kept;                                          // … for this reason
  double error = 0;                                          // |W − W'| / |W| of the weights, in the Frobenius norm
  double multiply_adds_before = 0, multiply_adds_after = 0;  // for one sample
};

struct DictionaryReport {
  std::vector<DictionaryLayer> layers;                       // of all convolutions with constant weights
  double multiply_adds_before = 0, multiply_adds_after = 0;  // of all layers of the model, for one sample
};

// Returns the model with dictionaries in place of the weights of convolutions without groups that are float32
// constants. The weights NAME become the constants NAME/dictionary [vectors, channels], NAME/indices and
// NAME/coefficients [outputs, terms, kernel...], from which training can continue. Throws Error(invalid_argument):
// options out of range, a pattern that matches nothing, no layer that gains.
Model with_dictionaries(const Model& model, const DictionaryOptions& options = {}, DictionaryReport* report = nullptr);

// The multiply-adds of all convolutions and products of the model for one sample: open dimensions count as 1, and zero
// coefficients of dictionaries cost nothing.
double count_multiply_adds(const Model& model);

}  // namespace tessera
