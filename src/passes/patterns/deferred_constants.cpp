#include "passes/patterns/deferred_constants.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

#include "base/file_pages.h"
#include "base/numbers/half.h"
#include "passes/find.h"

namespace tessera::passes {
namespace {

constexpr std::int64_t kLeastBytes = 16 * 1024;
constexpr std::int64_t kLeastRatio =
    16;  // least ratio of elements to those of an operand that is kept in memory, which no account counts

// Whether the tensor is large, and its source is memory that is accounted for elsewhere.
bool may_wait(const Tensor& source) {
  return source.elements() * static_cast<std::int64_t>(sizeof(float)) >= kLeastBytes &&
         (source.is_deferred() || base::lies_in_file(source.raw()));
}

template <typename T>
void convert(const Tensor& from, float* to) {
  std::ranges::transform(from.values<T>(), to, [](T number) {
    if constexpr (std::is_integral_v<T>) return static_cast<float>(number);
    else return base::to_float(number);
  });
}

using Conversion = void (*)(const Tensor& from, float* to);

Conversion conversion_from(DType type) {
  switch (type) {
    case DType::f16:
      return convert<f16_t>;
    case DType::bf16:
      return convert<bf16_t>;
    case DType::i8:
      return convert<std::int8_t>;
    case DType::u8:
      return convert<std::uint8_t>;
    default:
      return nullptr;
  }
}

// The small operand of an operator on a large tensor: one number per index of an axis, or one number for all (an axis
// of size 1 around everything).
struct ByAxis {
  std::vector<float> numbers;
  std::int64_t inner = 1;  // adjacent elements that share an index of the axis

  template <typename Operation>
  void apply(float* to, std::int64_t elements, Operation operation) const {
    for (std::int64_t i = 0; i < elements;) {
      for (const float number : numbers) {
        for (const float* end = to + inner; to != end; ++to) *to = operation(*to, number);
      }
      i += inner * static_cast<std::int64_t>(numbers.size());
    }
  }
};

std::int64_t product_of(const Shape& shape, std::size_t begin) {
  std::int64_t product = 1;
  for (std::size_t i = begin; i < shape.size(); ++i) product *= shape[i];
  return product;
}

// f32 numbers that broadcast to the shape without enlarging it; nothing where they vary along more than one axis.
std::optional<ByAxis> by_axis(const Tensor& numbers, const Shape& shape) {
  if (numbers.dtype() != DType::f32 || numbers.shape().size() > shape.size() ||
      numbers.elements() > product_of(shape, 0) / kLeastRatio)
    return std::nullopt;
  const std::span<const float> values = numbers.values<float>();
  ByAxis result{{values.begin(), values.end()}, product_of(shape, 0)};
  const std::size_t missing = shape.size() - numbers.shape().size();
  for (std::size_t i = 0; i < numbers.shape().size(); ++i) {
    const std::int64_t size = numbers.shape()[i];
    if (size == 1) continue;
    if (size != numbers.elements() || size != shape[missing + i]) return std::nullopt;
    result.inner = product_of(shape, missing + i + 1);
  }
  return result;
}

template <typename T = float>
Tensor deferred(const Tensor& source, std::function<void(const Tensor& from, std::type_identity_t<T>* to)> fill) {
  return Tensor::deferred(dtype_of<T>, source.shape(), [source, fill = std::move(fill)](void* to) {
    const Tensor from = source.contents();
    fill(from, static_cast<T*>(to));
    base::release_file_pages(from.raw(), static_cast<std::size_t>(from.bytes()));
  });
}

std::optional<Tensor> cast(const ir::Node& node, const Tensor& source) {
  const Conversion convert = conversion_from(source.dtype());
  if (convert == nullptr || std::get<std::int64_t>(node.attributes.at("to")) != static_cast<std::int64_t>(DType::f32))
    return std::nullopt;
  return deferred(source, convert);
}

// (number - zero point) * scale, where number and zero point are 8-bit and their difference is exact.
std::optional<Tensor> dequantised(const ir::Node& node, const Tensor& source, const Tensor& scale, const Tensor* zero) {
  const Conversion convert = conversion_from(source.dtype());
  const auto rank = static_cast<std::int64_t>(source.shape().size());
  const std::int64_t given = integer_of(node, "axis", 1), axis = given < 0 ? given + rank : given;
  if ((source.dtype() != DType::i8 && source.dtype() != DType::u8) || scale.dtype() != DType::f32) return std::nullopt;
  if (integer_of(node, "block_size", 0) != 0 ||
      integer_of(node, "output_dtype", 0) > static_cast<std::int64_t>(DType::f32))
    return std::nullopt;
  if (scale.elements() > source.elements() / kLeastRatio) return std::nullopt;
  if (scale.elements() != 1 && (scale.rank() != 1 || axis < 0 || axis >= rank ||
                                scale.elements() != source.shape()[static_cast<std::size_t>(axis)]))
    return std::nullopt;
  if (zero != nullptr && (zero->dtype() != source.dtype() || zero->elements() != scale.elements())) return std::nullopt;
  const std::int64_t inner =
      scale.elements() == 1 ? source.elements() : product_of(source.shape(), static_cast<std::size_t>(axis) + 1);
  ByAxis scales{{scale.values<float>().begin(), scale.values<float>().end()}, inner}, zeros{{}, inner};
  if (zero != nullptr) {
    zeros.numbers.resize(scales.numbers.size());
    convert(*zero, zeros.numbers.data());
  }
  return deferred(source, [convert, scales, zeros](const Tensor& from, float* to) {
    convert(from, to);
    if (!zeros.numbers.empty()) zeros.apply(to, from.elements(), std::minus<>());
    scales.apply(to, from.elements(), std::multiplies<>());
  });
}

template <typename Operation>
std::optional<Tensor> with_numbers(const Tensor& source, const Tensor& numbers, Operation operation) {
  std::optional<ByAxis> found = source.dtype() == DType::f32 ? by_axis(numbers, source.shape()) : std::nullopt;
  if (!found) return std::nullopt;
  return deferred(source, [numbers = std::move(*found), operation](const Tensor& from, float* to) {
    std::ranges::copy(from.values<float>(), to);
    numbers.apply(to, from.elements(), operation);
  });
}

}  // namespace

std::optional<Tensor> deferred_result(const ir::Node& node, std::span<const Value> inputs) {
  const std::string_view op = node.op;
  const bool commutes = op == "Add" || op == "Mul";
  if (op != "Cast" && op != "DequantizeLinear" && op != "Sub" && !commutes) return std::nullopt;
  const Tensor &first = inputs[0].tensor(), &second = inputs.size() > 1 ? inputs[1].tensor() : first;
  const bool swapped = commutes && second.elements() > first.elements();
  const Tensor &source = swapped ? second : first, &numbers = swapped ? first : second;
  if (!may_wait(source)) return std::nullopt;
  if (op == "Cast") return cast(node, source);
  if (op == "DequantizeLinear")
    return dequantised(node, source, numbers,
                       inputs.size() > 2 && inputs[2].has_value() ? &inputs[2].tensor() : nullptr);
  if (op == "Add") return with_numbers(source, numbers, std::plus<>());
  if (op == "Sub") return with_numbers(source, numbers, std::minus<>());
  return with_numbers(source, numbers, std::multiplies<>());
}

Tensor box_of_taps(const Tensor& weights, std::span<const std::int64_t> first, std::span<const std::int64_t> kernel) {
  Shape shape = weights.shape();
  std::ranges::copy(kernel, shape.begin() + 2);
  // Byte offsets of the taps in the box within a window.
  const std::int64_t element_bytes = weights.bytes() / std::max<std::int64_t>(1, weights.elements());
  std::vector<std::int64_t> offsets{0};
  for (std::size_t axis = 0; axis < first.size(); ++axis) {
    std::vector<std::int64_t> next;
    for (const std::int64_t offset : offsets) {
      for (std::int64_t tap = first[axis]; tap < first[axis] + kernel[axis]; ++tap)
        next.push_back(offset * weights.shape()[axis + 2] + tap);
    }
    offsets = std::move(next);
  }
  const std::int64_t windows = weights.shape()[0] * weights.shape()[1],
                     window_bytes = product_of(weights.shape(), 2) * element_bytes;
  const auto copy = [offsets, windows, window_bytes, element_bytes](const Tensor& from, void* to) {
    const auto* window = static_cast<const std::byte*>(from.raw());
    auto* target = static_cast<std::byte*>(to);
    for (std::int64_t i = 0; i < windows; ++i, window += window_bytes) {
      for (const std::int64_t offset : offsets)
        target = std::copy_n(window + offset * element_bytes, element_bytes, target);
    }
  };
  if (may_wait(weights)) {
    return Tensor::deferred(weights.dtype(), shape, [weights, copy](void* to) {
      const Tensor from = weights.contents();
      copy(from, to);
      base::release_file_pages(from.raw(), static_cast<std::size_t>(from.bytes()));
    });
  }
  Tensor result(weights.dtype(), shape);
  const Tensor from = weights.contents();
  copy(from, result.mutable_raw());
  return result;
}

Tensor rounded_to_bf16(const Tensor& source) {
  const auto round = [](const Tensor& from, bf16_t* to) {
    std::ranges::transform(from.values<float>(), to, [](float number) { return base::to_bf16(number); });
  };
  if (!source.has_data()) return Tensor(DType::bf16, source.shape(), nullptr, nullptr);
  if (may_wait(source)) return deferred<bf16_t>(source, round);
  Tensor result(DType::bf16, source.shape());
  round(source, result.mutable_data<bf16_t>());
  return result;
}

}  // namespace tessera::passes
