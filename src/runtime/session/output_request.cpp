#include "runtime/session/output_request.h"

#include <algorithm>
#include <functional>

#include "base/error.h"

namespace tessera::runtime {
namespace {

std::string known_outputs(const ir::Graph& graph) {
  std::string names;
  for (ir::ValueId id : graph.outputs()) names += (names.empty() ? "'" : ", '") + graph.value(id).name + "'";
  return names.empty() ? "none" : names;
}

void check_memory(const OutputRequest& request, const ir::ValueType& declared) {
  const Tensor& memory = request.into;
  if (!memory.has_value()) return;
  require(!memory.is_deferred(), ErrorKind::invalid_argument,
          "output '{}' is bound to a tensor without memory of its own", request.name);
  require(memory.has_data() || memory.bytes() == 0, ErrorKind::invalid_argument,
          "output '{}' is bound to a null pointer", request.name);
  if (!declared.is_tensor() || declared.dtype == DType::string || memory.dtype() == DType::string)
    fail(ErrorKind::invalid_argument, "output '{}' is {}: only tensors of numbers can be bound to memory", request.name,
         ir::to_string(declared));
  if (declared.dtype != DType::undefined && declared.dtype != memory.dtype())
    fail(ErrorKind::invalid_argument, "output '{}' is {}, but is bound to memory of {}{}", request.name,
         ir::to_string(declared), name_of(memory.dtype()), to_string(memory.shape()));
}

}  // namespace

std::vector<std::size_t> find_outputs(const ir::Graph& graph, const std::vector<OutputRequest>& requests) {
  std::vector<std::size_t> indices;
  for (std::size_t r = 0; r < requests.size(); ++r) {
    const OutputRequest& request = requests[r];
    const std::vector<ir::ValueId>& outputs = graph.outputs();
    const auto found = std::find_if(outputs.begin(), outputs.end(),
                                    [&](ir::ValueId id) { return graph.value(id).name == request.name; });
    if (found == outputs.end())
      fail(ErrorKind::invalid_argument, "the model has no output '{}'; its outputs are {}", request.name,
           known_outputs(graph));
    const auto index = static_cast<std::size_t>(found - outputs.begin());
    require(std::find(indices.begin(), indices.end(), index) == indices.end(), ErrorKind::invalid_argument,
            "output '{}' is asked for twice", request.name);
    indices.push_back(index);
    check_memory(request, graph.value(*found).type);
    for (std::size_t other = 0; other < r; ++other) {
      require(!overlap(request.into, requests[other].into), ErrorKind::invalid_argument,
              "outputs '{}' and '{}' are bound to memory that overlaps", requests[other].name, request.name);
    }
  }
  return indices;
}

void check_bound(const std::string& name, DType type, const Shape& shape, const Tensor& memory) {
  if (type != memory.dtype() || shape != memory.shape())
    fail(ErrorKind::invalid_argument, "output '{}' is {}{}, but is bound to memory of {}{}", name, name_of(type),
         to_string(shape), name_of(memory.dtype()), to_string(memory.shape()));
}

bool overlap(const Tensor& a, const Tensor& b) {
  // A deferred tensor's elements are memory of its own.
  if (a.bytes() == 0 || b.bytes() == 0 || a.is_deferred() || b.is_deferred()) return false;
  const auto *first = static_cast<const std::byte*>(a.raw()), *second = static_cast<const std::byte*>(b.raw());
  const std::less<const std::byte*> before;
  return before(first, second + b.bytes()) && before(second, first + a.bytes());
}

bool overlap(const Value& value, const Tensor& memory) {
  if (value.is_tensor()) return overlap(value.tensor(), memory);
  if (!value.has_value()) return false;
  return std::any_of(value.elements().begin(), value.elements().end(),
                     [&](const Value& element) { return overlap(element, memory); });
}

bool is_writable_during(const Tensor& memory, std::span<const Value> inputs) {
  // Kernels expect whole elements where the processor likes to find them; numbers of two parts need only half.
  const int element_bytes = std::max(1, std::min(bits_of(memory.dtype()) / 8, 8));
  if (reinterpret_cast<std::uintptr_t>(memory.raw()) % static_cast<std::uintptr_t>(element_bytes) != 0) return false;
  return std::none_of(inputs.begin(), inputs.end(), [&](const Value& input) { return overlap(input, memory); });
}

}  // namespace tessera::runtime
