#include "tessera/dtype.h"

#include <gtest/gtest.h>

namespace tessera::test::dtype_test {
namespace {

TEST(DType, NamesComeBack) {
  for (int i = 1; i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_name(name_of(type)), type) << name_of(type);
    const int kinds =
        is_float(type) + is_integer(type) + is_complex(type) + (type == DType::string) + (type == DType::boolean);
    EXPECT_EQ(kinds, 1) << name_of(type);
    EXPECT_EQ(is_integer(type), is_signed_integer(type) || is_unsigned_integer(type)) << name_of(type);
  }
  EXPECT_EQ(dtype_from_name("float"), DType::f32);
  EXPECT_EQ(dtype_from_name("float16"), DType::f16);
  EXPECT_EQ(dtype_from_name("undefined"), std::nullopt);
  EXPECT_EQ(dtype_from_name(""), std::nullopt);
}

TEST(DType, Widths) {
  EXPECT_EQ(bits_of(DType::c128), 128);
  EXPECT_EQ(bits_of(DType::boolean), 8);
  EXPECT_EQ(bits_of(DType::i2), 2);
  EXPECT_EQ(bits_of(DType::string), 0);
  EXPECT_TRUE(is_subbyte(DType::f4e2m1));
  EXPECT_FALSE(is_subbyte(DType::string));
}

}  // namespace
}  // namespace tessera::test::dtype_test
