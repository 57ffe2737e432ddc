#include "tessera/view.h"

#include <gtest/gtest.h>

#include <array>

#include "support/expect_error.h"
#include "tessera/half.h"

namespace tessera::test::view_test {
namespace {

TEST(View, ReadsConstantElementsWhereTheyAre) {
  static constexpr std::array<float, 6> elements{1, 2, 3, 4, 5, 6};
  const Tensor view = view_of({2, 3}, std::span<const float>(elements));
  EXPECT_EQ(view.raw(), elements.data());
  EXPECT_EQ(view.dtype(), DType::f32);
  EXPECT_EQ(view.values<float>()[5], 6);
  expect_error(ErrorKind::invalid_argument, "6 values given for shape [7]",
               [&] { view_of({7}, std::span<const float>(elements)); });
  expect_error(ErrorKind::invalid_argument, "a view of string: only numbers can be viewed",
               [&] { view_of(DType::string, {}, elements.data()); });
}

TEST(View, KeepsItsOwner) {
  auto owner = std::make_shared<std::array<float, 2>>();
  const std::weak_ptr<void> watch = owner;
  const void* data = owner->data();
  {
    const Tensor view = view_of(DType::f32, {2}, data, std::move(owner));
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired());
}

TEST(PublicHalf, ConvertsOneAndMany) {
  EXPECT_EQ(to_f16(1.0f).bits, 0x3C00);
  EXPECT_EQ(to_bf16(1.0f).bits, 0x3F80);
  EXPECT_EQ(to_float(f16_t{0x7BFF}), 65504.0f);
  EXPECT_EQ(to_f16(1e6f).bits, 0x7C00);  // infinity
  const std::array<float, 3> floats{0.5f, -2.0f, 3.0f};
  std::array<f16_t, 3> halves;
  std::array<bf16_t, 3> brains;
  std::array<float, 3> back{};
  to_f16(floats, halves);
  to_float(halves, back);
  EXPECT_EQ(back, floats);
  to_bf16(floats, brains);
  to_float(brains, back);
  EXPECT_EQ(back, floats);
  expect_error(ErrorKind::invalid_argument, "2 elements to convert into 3",
               [&] { to_bf16(std::span(floats).first(2), brains); });
}

}  // namespace
}  // namespace tessera::test::view_test
