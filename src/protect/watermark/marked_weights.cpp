#include "protect/watermark/marked_weights.h"

#include <algorithm>
#include <numeric>

#include "base/assert.h"
#include "base/numbers/half.h"

namespace tessera::protect {
namespace {

constexpr std::int64_t kLeastElements = 256;

bool is_floating(DType type) {
  return type == DType::f32 || type == DType::f64 || type == DType::f16 || type == DType::bf16;
}

std::vector<float> floats_of(const Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  const auto convert = [&]<typename T>(T) {
    const std::span<const T> from = tensor.values<T>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_same_v<T, f16_t> || std::is_same_v<T, bf16_t>) values[i] = base::to_float(from[i]);
      else values[i] = static_cast<float>(from[i]);
    }
  };
  switch (tensor.dtype()) {
    case DType::f32:
      convert(float{});
      break;
    case DType::f64:
      convert(double{});
      break;
    case DType::f16:
      convert(f16_t{});
      break;
    case DType::bf16:
      convert(bf16_t{});
      break;
    case DType::i8:
      convert(std::int8_t{});
      break;
    case DType::u8:
      convert(std::uint8_t{});
      break;
    default:
      TESSERA_ASSERT(false, "an element type that carries no mark");
  }
  return values;
}

// For each element in canonical order, its index in the file.
struct CanonicalOrder {
  Shape sizes;
  std::vector<std::int64_t> stored;
};

CanonicalOrder canonical_order(const Shape& shape, TieOrder ties) {
  struct Axis {
    std::int64_t size, stride;
  };
  std::vector<Axis> axes;
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1) axes.push_back({shape[i], stride});
    stride *= shape[i];
  }
  if (ties == TieOrder::as_stored) std::ranges::reverse(axes);
  std::ranges::stable_sort(axes, std::ranges::greater{}, &Axis::size);
  CanonicalOrder order;
  order.stored.assign(1, 0);
  for (const Axis& axis : axes) {
    order.sizes.push_back(axis.size);
    std::vector<std::int64_t> finer;
    finer.reserve(order.stored.size() * static_cast<std::size_t>(axis.size));
    for (const std::int64_t begin : order.stored) {
      for (std::int64_t i = 0; i < axis.size; ++i) finer.push_back(begin + i * axis.stride);
    }
    order.stored = std::move(finer);
  }
  return order;
}

}  // namespace

std::vector<ir::ValueId> markable_constants(const ir::Graph& graph, bool with_integers) {
  std::vector<ir::ValueId> found;
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    const ir::ValueId id{static_cast<std::int32_t>(i)};
    const Tensor* const tensor = graph.constant(id);
    if (tensor == nullptr || tensor->elements() < kLeastElements || !tensor->has_data()) continue;
    const bool is_integer = tensor->dtype() == DType::i8 || tensor->dtype() == DType::u8;
    if (!is_floating(tensor->dtype()) && !(with_integers && is_integer)) continue;
    if (std::ranges::count_if(tensor->shape(), [](std::int64_t size) { return size != 1; }) >= 2) found.push_back(id);
  }
  return found;
}

MarkedWeight read_weight(const ir::Graph& graph, ir::ValueId value, TieOrder ties) {
  const Tensor tensor = graph.constant(value)->contents();
  CanonicalOrder order = canonical_order(tensor.shape(), ties);
  const std::vector<float> stored = floats_of(tensor);
  MarkedWeight weight{value, std::move(order.sizes), std::vector<float>(stored.size())};
  for (std::size_t i = 0; i < stored.size(); ++i) weight.values[i] = stored[static_cast<std::size_t>(order.stored[i])];
  return weight;
}

Tensor stored_tensor(const Tensor& original, const MarkedWeight& weight) {
  const CanonicalOrder order = canonical_order(original.shape(), TieOrder::as_stored);
  Tensor tensor(original.dtype(), original.shape());
  const auto store = [&]<typename T>(T, const auto& convert) {
    const std::span<T> to = tensor.mutable_values<T>();
    for (std::size_t i = 0; i < to.size(); ++i)
      to[static_cast<std::size_t>(order.stored[i])] = convert(weight.values[i]);
  };
  switch (original.dtype()) {
    case DType::f32:
      store(float{}, [](float value) { return value; });
      break;
    case DType::f64:
      store(double{}, [](float value) { return static_cast<double>(value); });
      break;
    case DType::f16:
      store(f16_t{}, [](float value) { return base::to_f16(value); });
      break;
    case DType::bf16:
      store(bf16_t{}, [](float value) { return base::to_bf16(value); });
      break;
    default:
      TESSERA_ASSERT(false, "an element type that carries no mark");
  }
  return tensor;
}

}  // namespace tessera::protect
