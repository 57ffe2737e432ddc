// Options of a model's session, job and queue, from its settings.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "serve/core/config/tensor_reshape.h"
#include "serve/core/models/servable.h"
#include "serve/core/requests/request_queue.h"

namespace tessera::serve {

SessionOptions session_options(const ModelSettings& settings);
JobOptions job_options(const ModelSettings& settings, const std::string& version);
BatchingRule batching_rule(const ModelSettings& settings);
// Describes a model's inputs or outputs to clients, with the sizes that the completed configuration gives them.
// `batched`: the first dimension is the batch.
using Inputs = google::protobuf::RepeatedPtrField<inference::ModelInput>;
using Outputs = google::protobuf::RepeatedPtrField<inference::ModelOutput>;
std::vector<TensorInfo> infos(const std::vector<ValueDescription>& values, const Inputs& inputs, bool batched);
std::vector<TensorInfo> infos(const std::vector<ValueDescription>& values, const Outputs& outputs, bool batched);
// Reshapes of the tensors that the configuration reshapes, by their names: from what a client sends to what the model
// takes, and from what the model makes to what a client gets.
std::map<std::string, TensorReshape> reshapes(const Inputs& inputs);
std::map<std::string, TensorReshape> reshapes(const Outputs& outputs);

}  // namespace tessera::serve
