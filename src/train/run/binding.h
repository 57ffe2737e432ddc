// Decides which field of the data feeds which input of the net.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "tessera/session.h"
#include "tessera/train.h"
#include "train/data/converted_dataset.h"
#include "train/data/dataset.h"

namespace tessera::train {

struct Binding {
  std::map<std::string, std::string> fields;  // the field of each input, by the inputs' names
  std::vector<std::string> targets;           // the fields that losses compare with, without duplicates
};

// Inputs take the fields of their names. A single remaining input takes the single remaining field, or the only field
// of the data, which is then the target too. Throws Error(invalid_argument) that lists inputs and fields if this does
// not give every input one field.
Binding bind_fields(const ir::Graph& model, const std::vector<Field>& fields, const std::vector<std::string>& targets);

// The net's only output, or the one that the loss names; null if there are several and none of that name.
const ir::ValueInfo* prediction_of(const ir::Graph& model, const LossOptions& loss);

// Throws Error(invalid_argument) unless the test data have the fields of the training data that the binding takes.
void check_test_fields(const ir::Graph& model, const Binding& binding, const std::vector<Field>& fields);

// The types and shapes that inputs and targets need, by field. Inputs have the net's element types, and bytes are
// scaled to [0, 1] for a float input. A target consists of whole numbers if its loss takes labels (losses.h), else it
// has the element type of the prediction, without scaling. A target with one dimension of size 1 more or fewer than the
// prediction requires gets that rank: [N] for a prediction [N, 1], and [N, 1, H, W] as labels of [N, classes, H, W]. A
// target that is also an input has the input's form.
std::map<std::string, FieldForm> forms_of(const ir::Graph& model, const Binding& binding,
                                          const std::vector<Field>& fields, const std::vector<LossOptions>& losses);

// The inputs for a batch. Fields that mixup added keep their names.
NamedValues inputs_of(const Binding& binding, const std::map<std::string, Tensor>& batch);

// Throws Error(invalid_argument) if a batch of fields of these shapes does not fit the inputs that they feed.
void check_shapes(const ir::Graph& model, const Binding& binding, const std::vector<Field>& fields, std::int64_t batch);

}  // namespace tessera::train
