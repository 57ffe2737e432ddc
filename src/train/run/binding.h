// Which field of the data feeds which input of the net.
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
  std::map<std::string, std::string> fields;  // of inputs, by the inputs' names
  std::vector<std::string> targets;           // the fields that losses compare with, each once
};

// Inputs take the fields of their names; a single input that is left takes the single field that is left, or the only
// field of the data, which is the target too then. Throws Error(invalid_argument), listing inputs and fields, where
// that does not give every input one field.
Binding bind_fields(const ir::Graph& model, const std::vector<Field>& fields, const std::vector<std::string>& targets);

// The net's output that the loss compares; null where it has several and none of that name.
const ir::ValueInfo* prediction_of(const ir::Graph& model, const LossOptions& loss);

// Throws Error(invalid_argument) unless test data have the fields of the training data that the binding takes.
void check_test_fields(const ir::Graph& model, const Binding& binding, const std::vector<Field>& fields);

// The forms that inputs and targets need, by field: inputs the net's element types, where bytes become [0, 1] for a
// float input; a target whole numbers where its loss takes labels (losses.h), else the element type of the
// prediction, numbers as they are. A target with a dimension of size 1 more, or fewer, than the prediction asks for
// gets its rank: [N] beside a prediction [N, 1], and [N, 1, H, W] as labels of [N, classes, H, W]. A target that is an
// input, too, has the input's form.
std::map<std::string, FieldForm> forms_of(const ir::Graph& model, const Binding& binding,
                                          const std::vector<Field>& fields, const std::vector<LossOptions>& losses);

// A batch as inputs. Fields that mixup added come under their own names.
NamedValues inputs_of(const Binding& binding, const std::map<std::string, Tensor>& batch);

// Throws Error(invalid_argument) where a batch of fields of these shapes does not fit the input that it feeds.
void check_shapes(const ir::Graph& model, const Binding& binding, const std::vector<Field>& fields, std::int64_t batch);

}  // namespace tessera::train
