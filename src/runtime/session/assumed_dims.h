// Sizes for the dimensions of inputs that a model leaves open, for whoever explains, measures or tries it without being
// told them.
#pragma once

#include <map>
#include <string>

#include "ir/graph.h"
#include "tessera/model.h"

namespace tessera::runtime {

// How the user fixes a dimension of an input: by its symbol, or as INPUT.AXIS where it has none.
std::string dim_name(const ir::ValueInfo& input, std::size_t axis);

struct AssumedDims {
  Model model;                               // with all of them fixed
  std::map<std::string, std::int64_t> dims;  // by dim_name; empty where nothing was open
  std::string note;          // "assuming height=224, width=224, batch=1; change with --dim NAME=N", or ""
  bool only_batches = true;  // whether all are batches, of 1
};

// Batches are 1, channels of pictures 3, the other axes of pictures (inputs of rank 4 and 5) 224, all else (sequences)
// 128, if type inference accepts the model so with what its shape arithmetic computes; else sizes are tried, of
// pictures multiples of 32 from the smallest. Throws Error(invalid_argument) that names the dimensions where none fit.
// A dimension of an input without a known rank stays open.
AssumedDims assume_dims(const Model& model);

}  // namespace tessera::runtime
