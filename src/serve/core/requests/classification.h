// The largest elements of an output with their labels (the classification extension of the Open Inference Protocol).
#pragma once

#include <string>
#include <vector>

#include "tessera/tensor.h"

namespace tessera::serve {

// BYTES: "value:index" of the `classes` largest elements in descending order, or "value:index:label" where there is a
// label for the index; of each row if `by_row`, else of the whole tensor. Throws Failure(bad_request) for a tensor that
// is not of f32, f64, or integers.
Tensor classify(const Tensor& scores, std::int64_t classes, bool by_row, const std::vector<std::string>* labels);

// One label a line; the last line may end without a newline.
std::vector<std::string> parse_labels(const std::string& text);

}  // namespace tessera::serve
