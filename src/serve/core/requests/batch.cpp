#include "serve/core/requests/batch.h"

#include <atomic>
#include <cstring>

#include "base/error.h"
#include "serve/core/requests/staging.h"

namespace tessera::serve {

// A tensor of this shape with any contents.
Tensor Gatherer::room(const std::string& name, DType type, const Shape& shape) {
  if (type == DType::string) return Tensor(type, shape);
  std::shared_ptr<Tensor>& kept = kept_[name];
  const std::int64_t bytes = byte_count(type, shape);
  if (kept == nullptr || kept.use_count() > 1 || kept->bytes() < bytes) {
    kept.reset();  // before the larger one is made
    kept = std::make_shared<Tensor>(DType::u8, Shape{bytes});
  }
  // Whoever let go of the tensor last may have been another thread, which had read it until then.
  std::atomic_thread_fence(std::memory_order_acquire);
  return Tensor(type, shape, kept->mutable_raw(), kept);
}

Tensor Gatherer::concatenate(std::span<const QueuedCall> batch, const std::string& name, std::int64_t rows) {
  const Tensor& like = batch.front().inputs.find(name)->second.tensor();
  Shape shape = like.shape();
  shape[0] = rows;
  Tensor joined = room(name, like.dtype(), shape);
  if (like.dtype() == DType::string) {
    auto next = joined.mutable_values<std::string>().begin();
    for (const QueuedCall& queued : batch) {
      const auto values = queued.inputs.find(name)->second.tensor().values<std::string>();
      next = std::copy(values.begin(), values.end(), next);
    }
    return joined;
  }
  auto* next = static_cast<std::byte*>(joined.mutable_raw());
  for (const QueuedCall& queued : batch) {
    const Tensor& part = queued.inputs.find(name)->second.tensor();
    if (part.bytes() == 0) continue;
    std::memcpy(next, part.raw(), static_cast<std::size_t>(part.bytes()));
    next += part.bytes();
  }
  return joined;
}

NamedValues Gatherer::gather(std::span<QueuedCall> batch) {
  if (batch.size() == 1) return batch.front().inputs;
  if (NamedValues staged = staged_inputs(batch); !staged.empty()) return staged;
  std::int64_t rows = 0;
  for (const QueuedCall& queued : batch) rows += queued.rows;
  NamedValues inputs;
  for (const auto& [name, value] : batch.front().inputs) inputs.emplace(name, concatenate(batch, name, rows));
  return inputs;
}

Tensor rows_of(const std::string& name, const Tensor& tensor, std::int64_t rows, std::int64_t first,
               std::int64_t count) {
  require(tensor.rank() > 0 && tensor.shape()[0] == rows, ErrorKind::failed,
          "output '{}' has the shape {} for a batch of {}: set max_batch_size to 0 for this model", name,
          to_string(tensor.shape()), rows);
  if (count == rows) return tensor;
  Shape shape = tensor.shape();
  shape[0] = count;
  if (tensor.dtype() == DType::string) {
    const std::int64_t each = tensor.elements() / rows;
    const auto values = tensor.values<std::string>();
    return Tensor::from<std::string>(
        shape, values.subspan(static_cast<std::size_t>(first * each), static_cast<std::size_t>(count * each)));
  }
  const std::int64_t each = tensor.bytes() / rows;
  auto* const bytes = static_cast<std::byte*>(const_cast<void*>(tensor.raw()));
  // The owner is the whole result, which may be a view itself.
  auto owner = std::make_shared<Tensor>(tensor);
  return Tensor(tensor.dtype(), shape, bytes + first * each, owner);
}

}  // namespace tessera::serve
