// Trains a student net with the outputs of a teacher (TeacherOptions of tessera/train.h). The teacher's forward pass is
// part of the training step, with constant weights and without gradients.
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
  ir::Graph graph;  // in inference form, with the batch size of the student
  TeacherOptions options;
};

// Reads the table [teacher] of a configuration. Throws Error(invalid_argument).
TeacherOptions read_teacher(io::TomlTable table);

// The teacher's net with the weights that the options name. Throws the errors of loading, and Error(invalid_argument)
// for options out of range, for a net with variables and for a checkpoint of another net.
Model load_teacher(const TeacherOptions& options);

// Adds the student's values that are compared with the teacher's to its outputs, so that passes keep them. Throws
// Error(invalid_argument) for a value that the student does not have.
void keep_maps(ir::Graph& student, const Teacher& teacher);

// Values of the student in the graph of a step. `inputs` are those of the net alone.
struct StudentValues {
  std::span<const ir::ValueId> inputs;
  ir::ValueId logits;
  ir::ValueId labels_loss;
  ir::Dims target_dims;  // of the labels
};

// Adds the teacher to the graph, which reads the student's inputs of the same names (or the only one), and returns the
// total loss. Maps are found by their names. Throws Error(invalid_argument) if inputs, logits or maps do not fit.
ir::ValueId add_distillation(ops::GraphBuilder& builder, const StudentValues& student, const Teacher& teacher);

}  // namespace tessera::train
