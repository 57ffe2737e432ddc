// Operators that compute otherwise while a net is trained: Dropout and BatchNormalization.
#pragma once

#include "ir/graph.h"

namespace tessera::train {

// The model as it computes outside training, whatever the file says (exporters keep the mode in which the program was):
// BatchNormalization normalises by its running statistics and Dropout drops nothing. A BatchNormalization whose new
// statistics something reads stays as it is, and so does a Dropout whose mode is computed.
ir::Graph inference_form(ir::Graph model);

// Lets each Dropout whose mode is not computed drop elements: with the probability that it has in the model, or with
// `ratio` where that is not negative (0: none drops anything). Throws Error(invalid_argument) where a ratio above 0 is
// given, but there is no Dropout.
void train_dropout(ir::Graph& graph, double ratio);

}  // namespace tessera::train
