// Requests of one kind as one run: their rows one behind the other, and the results apart again.
#pragma once

#include <span>

#include "serve/core/request_queue.h"

namespace tessera::serve {

// The inputs of all, concatenated along the first dimension.
NamedValues gather(std::span<const QueuedCall> batch);

// Of a result of `rows` rows those from `first` on, as a view. Throws Error(failed) for a result whose first dimension
// is not `rows`: the model does not compute rows apart.
Tensor rows_of(const std::string& name, const Tensor& tensor, std::int64_t rows, std::int64_t first,
               std::int64_t count);

}  // namespace tessera::serve
