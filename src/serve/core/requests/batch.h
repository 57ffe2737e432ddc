// Requests of one kind as one run: their rows one behind the other, and the results apart again.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "serve/core/requests/request_queue.h"

namespace tessera::serve {

// Puts the inputs of requests one behind the other, in memory that it keeps for the next batch: the first touch of
// fresh memory takes longer than the copy into it. Not thread-safe.
class Gatherer {
 public:
  // The inputs of all, concatenated along the first dimension in the order in which the requests stand then; those of a
  // request that is alone as they are. Memory of earlier batches is written to only if nobody holds their tensors or
  // views of them any more.
  NamedValues gather(std::span<QueuedCall> batch);
  bool keeps_memory() const { return !kept_.empty(); }
  void release() { kept_.clear(); }

 private:
  Tensor room(const std::string& name, DType type, const Shape& shape);
  Tensor concatenate(std::span<const QueuedCall> batch, const std::string& name, std::int64_t rows);

  std::map<std::string, std::shared_ptr<Tensor>> kept_;  // the longest tensor so far, by the name of the input
};

// A view of `count` rows from `first` on of a result of `rows`. Throws Error(failed) for a result whose first dimension
// is not `rows`: the model does not compute rows apart.
Tensor rows_of(const std::string& name, const Tensor& tensor, std::int64_t rows, std::int64_t first,
               std::int64_t count);

}  // namespace tessera::serve
