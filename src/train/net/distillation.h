// A student that learns from a teacher (TeacherOptions of tessera/train.h): the teacher's forward is part of the
// training step, with constant weights and without gradients.
#pragma once

#include <span>

#include "ir/graph.h"
#include "ops/core/builder.h"
#include "tessera/train.h"

namespace tessera::io {
class TomlTable;
}  // namespace tessera::io

namespace tessera::train {

struct Teacher {
  ir::Graph graph;  // for inference, with the sizes of the student's batches
  TeacherOptions options;
};

// From the table [teacher] of a configuration. Throws Error(invalid_argument).
TeacherOptions read_teacher(io::TomlTable table);

// The teacher's net with the weights that the options name. Throws Error as loading does; invalid_argument for options
// out of range, for a net with variables and for a checkpoint of another net.
Model load_teacher(const TeacherOptions& options);

// Adds the values of the student that follow the teacher's to its outputs, so that passes keep them. Throws
// Error(invalid_argument) for a value that the student has not.
void keep_maps(ir::Graph& student, const Teacher& teacher);

// What a student computes, in the graph of a step. Inputs are those of the net alone.
struct StudentValues {
  std::span<const ir::ValueId> inputs;
  ir::ValueId logits;
  ir::ValueId labels_loss;
  ir::Dims target_dims;  // of the labels
};

// Appends the teacher, which reads the student's inputs of the same names (or the only one), and returns the whole
// loss. The maps are found by their names. Throws Error(invalid_argument) where inputs, logits or maps do not fit.
ir::ValueId add_distillation(ops::GraphBuilder& builder, const StudentValues& student, const Teacher& teacher);

}  // namespace tessera::train
