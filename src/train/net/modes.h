// Switches operators that compute differently in training: Dropout and BatchNormalization.
#pragma once

#include "ir/graph.h"

namespace tessera::train {

// The model in inference form, whatever mode the file has (exporters keep that of the program): BatchNormalization
// normalises by its running statistics and Dropout drops nothing. A BatchNormalization whose new statistics are used is
// not changed, nor is a Dropout whose mode is computed.
ir::Graph inference_form(ir::Graph model);

// Makes each Dropout whose mode is not computed drop elements, with the probability that it has in the model, or with
// `ratio` if that is not negative (0: none drops anything). Throws Error(invalid_argument) for a ratio above 0 if there
// is no Dropout.
void train_dropout(ir::Graph& graph, double ratio);

}  // namespace tessera::train
