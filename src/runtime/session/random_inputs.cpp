#include "runtime/session/random_inputs.h"

#include <algorithm>

#include "backends/host/numeric.h"
#include "base/cpu_info.h"
#include "base/error.h"
#include "base/numbers/philox.h"
#include "base/numbers/units.h"

namespace tessera::runtime {
namespace {

// Elements made at a time, so that the wide ones take no room beside the tensor.
constexpr std::int64_t kChunk = 1 << 16;

Tensor random_tensor(const ValueDescription& input, std::uint64_t seed, std::uint64_t stream,
                     std::int64_t& bytes_left) {
  require(input.dtype != DType::undefined, ErrorKind::unsupported,
          "input '{}' is {}: give it a value, only tensors can be made up", input.name, input.type);
  require(input.rank_known, ErrorKind::unsupported, "input '{}' has no known rank: give it a value", input.name);
  Shape shape;
  for (std::int64_t dim : input.dims) shape.push_back(std::max<std::int64_t>(dim, dim < 0 ? 1 : 0));
  const std::int64_t bytes = byte_count(input.dtype, shape);
  require(bytes <= bytes_left, ErrorKind::over_budget,
          "input '{}' of {} takes {}, more than there is to make it up: give it a value, or fix its dimensions",
          input.name, input.type, base::format_bytes(bytes));
  bytes_left -= bytes;
  Tensor tensor(input.dtype, shape);
  if (input.dtype == DType::string) {
    std::fill_n(tensor.mutable_data<std::string>(), tensor.elements(), "text");
    return tensor;
  }
  base::Philox random(seed, stream);
  for (std::int64_t done = 0; done < tensor.elements(); done += kChunk) {
    std::vector<double> values(static_cast<std::size_t>(std::min(kChunk, tensor.elements() - done)));
    for (double& value : values)
      value = is_float(input.dtype) ? random.next_uniform() : static_cast<double>(random.next_u32() & 1);
    Tensor chunk(input.dtype, {static_cast<std::int64_t>(values.size())},
                 static_cast<std::byte*>(tensor.mutable_raw()) + done * bits_of(input.dtype) / 8, nullptr);
    backends::host::write(values, chunk);
  }
  return tensor;
}

}  // namespace

NamedValues random_inputs(const Model& model, std::uint64_t seed, std::int64_t max_bytes) {
  NamedValues inputs;
  std::int64_t bytes_left = max_bytes > 0 ? max_bytes : base::usable_memory_bytes() / 10 * 9;
  std::uint64_t stream = 0;
  for (const ValueDescription& input : model.inputs())
    inputs[input.name] = random_tensor(input, seed, stream++, bytes_left);
  return inputs;
}

}  // namespace tessera::runtime
