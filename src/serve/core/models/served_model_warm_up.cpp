// The runs of a model before its first request.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "serve/core/models/served_model.h"
#include "serve/core/operations/log.h"

namespace tessera::serve {

NamedValues ServedModel::zeros(std::int64_t rows) const {
  NamedValues inputs;
  for (const TensorInfo& info : info_.inputs) {
    Shape shape = info.shape;
    if (batched_) shape[0] = rows;
    if (std::ranges::any_of(shape, [](std::int64_t size) { return size < 0; })) return {};
    Tensor tensor(info.dtype, shape);
    if (info.dtype != DType::string && tensor.bytes() > 0)
      std::memset(tensor.mutable_raw(), 0, static_cast<std::size_t>(tensor.bytes()));
    inputs.emplace(info.name, for_model(info.name, tensor));
  }
  return inputs;
}

void ServedModel::warm_up() {
  std::vector<std::int64_t> sizes{1};
  if (batched_ && info_.settings.config.has_dynamic_batching()) {
    for (const std::int32_t size : info_.settings.config.dynamic_batching().preferred_batch_size())
      sizes.push_back(size);
    sizes.push_back(info_.settings.config.max_batch_size());
  }
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  for (const std::int64_t rows : sizes) {
    const NamedValues inputs = zeros(rows);
    if (inputs.empty()) return;
    try {
      job_.run(session_, inputs);  // plans
      const std::int64_t start_ns = now_ns();
      job_.run(session_, inputs);
      const std::int64_t end_ns = now_ns();
      times_.add(rows, end_ns - start_ns, end_ns);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::failed) throw;
      log(Level::info, "a warm-up run failed on zeros", {{"model", info_.name}, {"why", error.what()}});
      return;
    }
  }
}

}  // namespace tessera::serve
