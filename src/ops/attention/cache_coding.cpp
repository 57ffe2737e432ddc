#include "ops/attention/cache_coding.h"

#include "ops/quantised/packed_bits.h"

namespace tessera::ops {
namespace {

using ir::ValueId;

ValueId joined_halves(GraphBuilder& builder, ValueId bytes) {
  const Shape shape = *builder.type(bytes).shape();
  const ValueId pairs = reshaped(builder, bytes, {shape[0], shape[1], shape[2], shape[3] / 2, 2});
  const auto half = [&](double index) {
    return builder.add("Gather", {pairs, builder.scalar(index, DType::i64)}, {{"axis", std::int64_t{4}}});
  };
  const ValueId high =
      builder.add("BitShift", {half(1), builder.scalar(4, DType::u8)}, {{"direction", std::string("LEFT")}});
  return builder.add("BitwiseOr", {half(0), high});
}

}  // namespace

ValueId encoded(GraphBuilder& builder, const CacheCoding& coding, ValueId values) {
  const double limit = coding.bits == 8 ? 128 : 8;
  const ValueId levels = builder.add("Round", {builder.add("Div", {builder.cast(values, DType::f32), coding.scale})});
  const ValueId codes = builder.add("Clip", {levels, builder.scalar(-limit), builder.scalar(limit - 1)});
  if (coding.bits == 8) return builder.cast(codes, DType::i8);
  return joined_halves(builder, builder.cast(builder.add("Add", {codes, builder.scalar(limit)}), DType::u8));
}

ValueId decoded(GraphBuilder& builder, const CacheCoding& coding, ValueId codes) {
  ValueId levels = builder.cast(*unpack_bits_to_bytes(builder, codes, coding.bits), DType::f32);
  if (coding.bits == 4) levels = builder.add("Sub", {levels, builder.scalar(8)});
  return builder.cast(builder.add("Mul", {levels, coding.scale}), coding.type);
}

}  // namespace tessera::ops
