// Operators that run subgraphs: If, Loop, Scan and SequenceMap. Only their types and shapes are defined here; the
// runtime runs them, so devices have no kernels for them.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef if_op;
extern const OpDef loop;
extern const OpDef scan;
extern const OpDef sequence_map;

// The dimensions of the iteration number (input 0) and the condition (input 1) in a Loop's body: none, or [1] where the
// body declares one dimension, as some exporters do.
ir::Dims loop_scalar_dims(const ir::Graph& body, std::size_t input);

// The axes and directions of a Scan node, with defaults filled in and all counts and axes checked. Throws
// Error(invalid_model).
struct ScanPlan {
  std::size_t states = 0;
  std::size_t scan_inputs = 0;
  std::size_t scan_outputs = 0;
  std::vector<std::int64_t> input_axes, output_axes;    // as written, possibly negative
  std::vector<bool> input_backwards, output_backwards;  // output_backwards: each result is put before the earlier ones
};
ScanPlan read_scan(const AttributeReader& reader, std::size_t input_count);

}  // namespace tessera::ops
