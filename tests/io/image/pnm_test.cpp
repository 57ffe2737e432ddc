#include <gmock/gmock.h>

#include "io/image/picture.h"

namespace tessera::test::pnm_test {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;

std::vector<int> pixels(const std::string& file) {
  return pixels_of(bytes_of(file));
}
std::string error(const std::string& file) {
  return read_error(bytes_of(file));
}

TEST(Pnm, ReadsAllSixKinds) {
  EXPECT_EQ(pixels("P1 # a comment\n3 2\n101\n0 1 0"), (std::vector<int>{0, 255, 0, 255, 0, 255}));
  EXPECT_EQ(pixels("P2\n2 1 # columns, rows\n255 7 # after a sample\n 200 "), (std::vector<int>{7, 200}));
  EXPECT_EQ(pixels("P3 1 2 255\n1 2 3\n4 5 6\n"), (std::vector<int>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(pixels("P4 9 2\n\xAA\x80\x00\x7F"s),
            (std::vector<int>{0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255}));
  EXPECT_EQ(pixels("P5 2 1 255 ab"), (std::vector<int>{'a', 'b'}));
  EXPECT_EQ(pixels("P6\n1 1\n255\n\x01\x02\x03"), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(io::read_image_bytes(bytes_of("P5 2 3 255\nabcdef"s)).shape(), (Shape{3, 2, 1}));
}

TEST(Pnm, ScalesToEightBits) {
  EXPECT_EQ(pixels("P2 3 1 15 0 7 15"), (std::vector<int>{0, 119, 255}));
  EXPECT_EQ(pixels("P5 2 1 65535\n\x80\x80\xFF\xFF"s), (std::vector<int>{128, 255}));
  EXPECT_EQ(pixels("P5 1 1 1000\n\x01\xF4"s), (std::vector<int>{128}));
}

TEST(Pnm, FaultsAreErrors) {
  EXPECT_THAT(error("P6"), HasSubstr("a number was expected at byte 2"));
  EXPECT_THAT(error("P6 0 1 255\n"), HasSubstr("picture of 0 x 1 pixels"));
  EXPECT_THAT(error("P6 1234567890 1 255\n"), HasSubstr("a number of more than 9 digits"));
  EXPECT_THAT(error("P6 100000 100000 255\n"), HasSubstr("more than the limit of 67108864 pixels"));
  EXPECT_THAT(error("P6 1 1 0\nabc"), HasSubstr("a maximum of 0, expected 1 to 65535"));
  EXPECT_THAT(error("P6 1 1 65536\nabc"), HasSubstr("a maximum of 65536"));
  EXPECT_THAT(error("P6 2 1 255\nabcde"), HasSubstr("5 bytes cannot hold 2 x 1 pixels"));
  EXPECT_THAT(error("P2 2 1 9 1 10"), HasSubstr("sample 10 is over the maximum of 9"));
  EXPECT_THAT(error("P2 2 1 9 1 x"), HasSubstr("a number was expected"));
  EXPECT_THAT(error("P1 2 1 0 2"), HasSubstr("0 or 1 was expected"));
  EXPECT_THAT(error("P5 1 1 255#"), HasSubstr("white space was expected"));
  for (const std::string& whole :
       {"P1 3 1 101"s, "P2 2 1 255 7 8"s, "P4 9 1\nab"s, "P5 2 1 300\nabcd"s, "P6 1 1 255\nabc"s})
    expect_truncation_is_an_error(bytes_of(whole), 1);
}

TEST(Pnm, DamageIsHarmless) {
  for (const std::string& whole : {"P1 3 1 101"s, "P2 2 1 255 7 8"s, "P4 9 1\nab"s, "P6 1 1 255\nabc"s})
    expect_damage_is_harmless(bytes_of(whole));
}

}  // namespace
}  // namespace tessera::test::pnm_test
