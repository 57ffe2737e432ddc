#include <gtest/gtest.h>

#include <limits>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::typed_arg_max_test {
namespace {

// Few distinct values, so that there are ties.
TEST(CpuTypedArgMax, MatchesReference) {
  for (const DType type : {DType::f32, DType::f64, DType::i8, DType::i16, DType::i32, DType::i64, DType::u8, DType::u16,
                           DType::u32, DType::u64}) {
    const double low = is_unsigned_integer(type) ? 0 : -9;
    for (const Shape& shape : {Shape{7}, Shape{3, 1001}, Shape{4, 33, 5}, Shape{4, 21, 300}}) {
      Tensor x = random_tensor(type, shape, 1, low, 9);
      if (is_float(type)) x = run_op_tensor({"Round", {x}}, "reference");
      for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(shape.size()); ++axis) {
        for (const std::int64_t last : {0, 1}) {
          const ir::Attributes attributes = {{"axis", axis}, {"select_last_index", last}, {"keepdims", last}};
          for (const std::string op : {"ArgMax", "ArgMin"}) expect_matches_reference({op, {x}, attributes});
        }
      }
    }
  }
}

TEST(CpuTypedArgMax, PassesOverNanExceptInFront) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = Tensor::from<double>({4, 3}, {nan, 1, 2, 1, nan, 2, 2, 1, nan, nan, nan, nan});
  for (const Tensor& each : {x, run_op_tensor({"Cast", {x}, {{"to", std::int64_t{1}}}}, "reference")}) {
    for (const std::int64_t last : {0, 1}) {
      for (const std::int64_t axis : {0, 1}) {
        for (const std::string op : {"ArgMax", "ArgMin"})
          expect_matches_reference({op, {each}, {{"axis", axis}, {"select_last_index", last}}});
      }
    }
  }
}

}  // namespace
}  // namespace tessera::test::typed_arg_max_test
