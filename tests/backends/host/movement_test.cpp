#include "backends/host/movement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "backends/host/numeric.h"

namespace tessera::backends::host::movement_test {
namespace {

using testing::ElementsAre;

TEST(HostMovement, CopiesByStridesOfAnySign) {
  const Tensor source = Tensor::from<std::int32_t>({2, 3}, {0, 1, 2, 3, 4, 5});
  Tensor transposed(DType::i32, {3, 2}), reversed(DType::i32, {6}), repeated(DType::i32, {2, 2});
  copy_strided(source, 0, {1, 3}, transposed);
  copy_strided(source, 5, {-1}, reversed);
  copy_strided(source, 4, {0, 1}, repeated);
  EXPECT_THAT(read<std::int64_t>(transposed), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(read<std::int64_t>(reversed), ElementsAre(5, 4, 3, 2, 1, 0));
  EXPECT_THAT(read<std::int64_t>(repeated), ElementsAre(4, 5, 4, 5));
}

TEST(HostMovement, MovesStringsAndPackedElements) {
  const Tensor words = Tensor::from<std::string>({3}, {"a", "b", "c"});
  Tensor strings(DType::string, {3});
  copy_run(words, 1, strings, 0, 2);
  EXPECT_EQ(strings.data<std::string>()[0], "b");
  EXPECT_EQ(strings.data<std::string>()[1], "c");
  EXPECT_EQ(strings.data<std::string>()[2], "");

  Tensor packed(DType::i4, {5}), reversed(DType::i4, {5});
  write(std::vector<std::int64_t>{-8, 7, 0, -1, 3}, packed);
  copy_strided(packed, 4, {-1}, reversed);
  EXPECT_THAT(read<std::int64_t>(reversed), ElementsAre(3, -1, 0, 7, -8));
}

TEST(HostMovement, FillsWithAValueOrZeros) {
  Tensor tensor(DType::f16, {3}), one(DType::f16, {});
  write(std::vector<double>{1.5}, one);
  fill(tensor, one);
  EXPECT_THAT(read<double>(tensor), ElementsAre(1.5, 1.5, 1.5));
  fill_zero(tensor);
  EXPECT_THAT(read<double>(tensor), ElementsAre(0, 0, 0));
}

TEST(HostMovement, AnAxisViewOfATensorWithoutElementsDoesNotOverflow) {
  const AxisView view = axis_view({std::int64_t{1} << 40, std::int64_t{1} << 40, 0}, 2);
  EXPECT_EQ(view.outer * view.length * view.inner, 0);
  const AxisView middle = axis_view({2, 3, 4, 5}, 1);
  EXPECT_THAT((std::vector{middle.outer, middle.length, middle.inner}), ElementsAre(2, 3, 20));
}

}  // namespace
}  // namespace tessera::backends::host::movement_test
