#include "runtime/random_inputs.h"

#include <algorithm>

#include "backends/reference/numeric.h"
#include "base/error.h"
#include "base/philox.h"

namespace tessera::runtime {
namespace {

Tensor random_tensor(const ValueDescription& input, std::uint64_t seed, std::uint64_t stream) {
  require(input.dtype != DType::undefined, ErrorKind::unsupported, "input '{}' is {}: give it a value, only tensors can be made up", input.name, input.type);
  require(input.rank_known, ErrorKind::unsupported, "input '{}' has no known rank: give it a value", input.name);
  Shape shape;
  for (std::int64_t dim : input.dims) shape.push_back(std::max<std::int64_t>(dim, dim < 0 ? 1 : 0));
  Tensor tensor(input.dtype, shape);
  if (input.dtype == DType::string) {
    std::fill_n(tensor.mutable_data<std::string>(), tensor.elements(), "text");
    return tensor;
  }
  base::Philox random(seed, stream);
  std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
  for (double& value : values) value = is_float(input.dtype) ? random.next_uniform() : static_cast<double>(random.next_u32() & 1);
  backends::reference::write(values, tensor);
  return tensor;
}

}  // namespace

NamedValues random_inputs(const Model& model, std::uint64_t seed) {
  NamedValues inputs;
  std::uint64_t stream = 0;
  for (const ValueDescription& input : model.inputs()) inputs[input.name] = random_tensor(input, seed, stream++);
  return inputs;
}

}  // namespace tessera::runtime
