// What a model's settings mean for its session, its job and its queue.
#pragma once

#include <string>
#include <vector>

#include "serve/core/request_queue.h"
#include "serve/core/servable.h"

namespace tessera::serve {

SessionOptions session_options(const ModelSettings& settings);
JobOptions job_options(const ModelSettings& settings, const std::string& version);
BatchingRule batching_rule(const ModelSettings& settings);
// Describes a model's inputs or outputs to clients. `batched`: the first dimension is the batch.
std::vector<TensorInfo> infos(const std::vector<ValueDescription>& values, bool batched);

}  // namespace tessera::serve
