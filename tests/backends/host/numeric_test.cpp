#include "backends/host/numeric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace tessera::backends::host::numeric_test {
namespace {

using testing::ElementsAre;

TEST(HostNumeric, ConversionsAreDefinedForEveryValue) {
  EXPECT_EQ(convert<std::int64_t>(1e30), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(convert<std::int64_t>(-1e30), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(convert<std::int64_t>(std::nan("")), 0);
  EXPECT_EQ(convert<std::uint8_t>(-1.0), 255);
  EXPECT_EQ(convert<double>(std::complex<double>(2, 3)), 2);
}

TEST(HostNumeric, WritesRoundToNearestEvenAndWrapIntegers) {
  Tensor half(DType::f16, {2}), byte(DType::i8, {2}), flag(DType::boolean, {2});
  write(std::vector<double>{2049, 2051}, half);  // ties of float16's 11 bits
  write(std::vector<std::int64_t>{130, -129}, byte);
  write(std::vector<double>{0.25, 0}, flag);
  EXPECT_THAT(read<double>(half), ElementsAre(2048, 2052));
  EXPECT_THAT(read<std::int64_t>(byte), ElementsAre(-126, 127));
  EXPECT_THAT(read<std::uint64_t>(flag), ElementsAre(1, 0));
}

TEST(HostNumeric, BroadcastStridesRepeatDimensionsOfOne) {
  EXPECT_THAT(strides_of({2, 3, 4}), ElementsAre(12, 4, 1));
  EXPECT_THAT(broadcast_strides({3, 1}, {2, 3, 4}), ElementsAre(0, 1, 0));
}

TEST(HostNumeric, RefusesWhatIsNoNumberAndCountsThatDiffer) {
  Tensor two(DType::f32, {2});
  test::expect_error(ErrorKind::unsupported, "no arithmetic on elements of type string",
                     [] { read<double>(Tensor(DType::string, {1})); });
  test::expect_error(ErrorKind::invalid_argument, "1 values for shape [2]",
                     [&] { write(std::vector<double>{1}, two); });
}

}  // namespace
}  // namespace tessera::backends::host::numeric_test
