#include "ir/type.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/expect_error.h"

namespace tessera::test::type_test {
namespace {

using ir::Dim;
using ir::Dims;
using ir::ValueType;

TEST(Dim, ArithmeticKeepsWhatIsCertain) {
  const Dim n = Dim::symbol("n"), unknown;
  EXPECT_EQ(Dim(2) + Dim(3), Dim(5));
  EXPECT_EQ(n + 0, n);
  EXPECT_TRUE((n + 1).is_unknown());
  EXPECT_EQ(n - n, Dim(0));
  EXPECT_TRUE((Dim(2) - 3).is_unknown());
  EXPECT_EQ(n * 1, n);
  EXPECT_EQ(unknown * 0, Dim(0));
  EXPECT_TRUE((n * 2).is_unknown());
  expect_error_containing(ErrorKind::over_budget, "size overflow",
                          [] { Dim(std::numeric_limits<std::int64_t>::max()) * Dim(2); });
}

TEST(Dim, UnknownEqualsNothingSurely) {
  EXPECT_FALSE(Dim().surely_equals(Dim()));
  EXPECT_TRUE(Dim::symbol("n").surely_equals(Dim::symbol("n")));
  EXPECT_TRUE(Dim::symbol("n").may_equal(3));
  EXPECT_FALSE(Dim(2).may_equal(3));
}

TEST(ValueType, JoinIsTheMostPreciseCover) {
  const ValueType a = ValueType::tensor(DType::f32, Dims{Dim::symbol("n"), 2, 3});
  const ValueType b = ValueType::tensor(DType::f32, Dims{Dim::symbol("n"), 2, 4});
  EXPECT_EQ(join(a, b), ValueType::tensor(DType::f32, Dims{Dim::symbol("n"), 2, Dim()}));
  EXPECT_EQ(join(a, ValueType::tensor(DType::f32, Dims{2})), ValueType::tensor(DType::f32));
  EXPECT_EQ(join(a, ValueType{}), a);
  EXPECT_EQ(join(ValueType::sequence(a), ValueType::sequence(b)), ValueType::sequence(join(a, b)));
}

TEST(ValueType, JoinRefusesWhatCannotAgree) {
  const ValueType real = ValueType::tensor(DType::f32), whole = ValueType::tensor(DType::i64);
  expect_error_containing(ErrorKind::invalid_model, "element types f32 and i64 do not agree",
                          [&] { join(real, whole); });
  expect_error_containing(ErrorKind::invalid_model, "types f32[*] and seq(f32[*]) do not agree",
                          [&] { join(real, ValueType::sequence(real)); });
  expect_error_containing(ErrorKind::invalid_model, "do not agree",
                          [&] { join(ValueType::map(DType::i64, real), ValueType::map(DType::string, real)); });
}

TEST(ValueType, Prints) {
  EXPECT_EQ(to_string(ValueType::map(
                DType::string, ValueType::optional(ValueType::tensor(DType::f32, Dims{Dim::symbol("n"), Dim()})))),
            "map(string, optional(f32[n, ?]))");
  EXPECT_EQ(to_string(ValueType{.kind = ValueType::Kind::sequence}), "seq(?)");
}

}  // namespace
}  // namespace tessera::test::type_test
