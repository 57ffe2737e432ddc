#include "ops/quantised/packed_bits.h"

#include "base/numbers/checked.h"

namespace tessera::ops {
namespace {

std::optional<Shape> unpacked_shape(const GraphBuilder& builder, ir::ValueId bytes, std::int64_t bits) {
  std::optional<Shape> shape = builder.type(bytes).shape();
  if (shape) shape->back() = base::checked_multiply(shape->back(), 8 / bits);
  return shape;
}

}  // namespace

std::optional<ir::ValueId> unpack_bits(GraphBuilder& builder, ir::ValueId bytes, std::int64_t bits) {
  const Tensor* constant = builder.graph().constant(bytes);
  if (bits == 8 || constant == nullptr) return unpack_bits_to_bytes(builder, bytes, bits);
  const std::optional<Shape> shape = unpacked_shape(builder, bytes, bits);
  return builder.constant(
      Tensor(bits == 4 ? DType::u4 : DType::u2, *shape, const_cast<void*>(constant->raw()), constant->owner()));
}

std::optional<ir::ValueId> unpack_bits_to_bytes(GraphBuilder& builder, ir::ValueId bytes, std::int64_t bits) {
  const std::optional<Shape> shape = unpacked_shape(builder, bytes, bits);
  if (!shape || bits == 8) return shape ? std::optional(bytes) : std::nullopt;
  std::vector<std::uint8_t> shifts;
  for (std::int64_t shift = 0; shift < 8; shift += bits) shifts.push_back(static_cast<std::uint8_t>(shift));
  const ir::ValueId by =
      builder.constant(Tensor::from<std::uint8_t>({8 / bits}, std::span<const std::uint8_t>(shifts)));
  const ir::ValueId apart = builder.add("Unsqueeze", {bytes, builder.integers({-1})});
  const ir::ValueId shifted = builder.add("BitShift", {apart, by}, {{"direction", std::string("RIGHT")}});
  const ir::ValueId numbers = builder.add("BitwiseAnd", {shifted, builder.scalar((1 << bits) - 1, DType::u8)});
  return builder.add("Reshape", {numbers, builder.integers(*shape)}, {{"allowzero", std::int64_t{1}}});
}

}  // namespace tessera::ops
