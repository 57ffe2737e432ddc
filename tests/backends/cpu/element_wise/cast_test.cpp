#include <gtest/gtest.h>

#include <limits>

#include "backends/host/numeric.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"
#include "tessera/half.h"

namespace tessera::test::cast_test {
namespace {

const DType kTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8,  DType::i16,    DType::i32,
                        DType::i64, DType::u8,  DType::u16, DType::u32,  DType::u64, DType::boolean};

// Edge values as the type can hold them.
Tensor edges(DType type) {
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> values = {0,   -0.0, 0.5,   -0.5,  1.5,   -1.5,  200,    -200,     300.7,     3e9, -3e9,
                                      5e9, 1e20, -1e20, 1e-40, 65519, 65520, 3.4e38, infinity, -infinity, nan};
  Tensor tensor(type, {static_cast<std::int64_t>(values.size())});
  backends::host::write(values, tensor);
  return tensor;
}

TEST(CpuCast, MatchesReferenceBetweenAllTypes) {
  for (const DType from : kTypes) {
    for (const DType to : kTypes) {
      const ir::Attributes attributes = {{"to", static_cast<std::int64_t>(to)}};
      expect_matches_reference(
          {"Cast",
           {random_tensor(from, {3, 67}, 1, is_unsigned_integer(from) || from == DType::boolean ? 0 : -100, 100)},
           attributes});
      expect_matches_reference({"Cast", {edges(from)}, attributes});
    }
  }
  // Wide ones, of which some leave the range of 32 bits.
  for (const DType to : kTypes) {
    const ir::Attributes attributes = {{"to", static_cast<std::int64_t>(to)}};
    for (const DType from : {DType::f32, DType::f64})
      expect_matches_reference({"Cast", {random_tensor(from, {1027}, 2, -3e9, 3e9)}, attributes});
    expect_matches_reference({"Cast", {random_tensor(DType::i64, {1027}, 2, -1e12, 1e12)}, attributes});
  }
  expect_matches_reference({"Cast", {random_tensor(DType::i32, {100'003}, 1, -1e9, 1e9)}, {{"to", std::int64_t{1}}}});
}

// Every float16, and floats in the middle between two of them and next to it.
TEST(CpuCast, RoundsEveryFloat16) {
  Tensor halves(DType::f16, {65536});
  for (std::int64_t i = 0; i < 65536; ++i) halves.mutable_data<f16_t>()[i] = {static_cast<std::uint16_t>(i)};
  expect_matches_reference({"Cast", {halves}, {{"to", static_cast<std::int64_t>(DType::f32)}}});
  std::vector<double> values;
  for (std::uint16_t bits = 0; bits < 0x7BFF; ++bits) {
    const double low = to_float(f16_t{bits}), high = to_float(f16_t{static_cast<std::uint16_t>(bits + 1)}),
                 middle = (low + high) / 2;
    for (const double each : {middle, middle * (1 + 1e-12), middle * (1 - 1e-12)})
      values.insert(values.end(), {each, -each});
  }
  Tensor doubles(DType::f64, {static_cast<std::int64_t>(values.size())}), floats(DType::f32, doubles.shape());
  backends::host::write(values, doubles);
  backends::host::write(values, floats);
  for (const DType half : {DType::f16, DType::bf16}) {
    for (const Tensor& x : {doubles, floats})
      expect_matches_reference({"Cast", {x}, {{"to", static_cast<std::int64_t>(half)}}});
  }
}

}  // namespace
}  // namespace tessera::test::cast_test
