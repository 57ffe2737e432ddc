// Writes the encoding of a table's columns as a graph, so that an exported model takes the columns as they are.
#pragma once

#include "ir/graph.h"
#include "train/data/tables/csv_dataset.h"

namespace tessera::train {

// The model with the encoding in front of it. Its inputs are the columns by name: columns of numbers as f64 [batch, 1],
// where NaN stands for a missing value, and columns of categories as strings [batch, 1]. Its outputs are those of the
// model. The encoded values are bit for bit those of open_csv_dataset. The model must have one input, f32 [batch,
// encoding.features()], and no variables; otherwise throws Error(invalid_argument).
ir::Graph with_raw_columns(const ir::Graph& model, const TableEncoding& encoding);

}  // namespace tessera::train
