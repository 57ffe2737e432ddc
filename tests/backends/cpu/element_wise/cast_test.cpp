#include <gtest/gtest.h>

#include <limits>

#include "backends/host/numeric.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::cast_test {
namespace {

const DType kTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16,   DType::i32,
                        DType::i64, DType::u8,  DType::i8,  DType::boolean};

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
  expect_matches_reference({"Cast", {random_tensor(DType::i32, {100'003}, 1, -1e9, 1e9)}, {{"to", std::int64_t{1}}}});
}

}  // namespace
}  // namespace tessera::test::cast_test
