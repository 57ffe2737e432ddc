#include "io/image/orientation.h"

#include <png.h>
#include <turbojpeg.h>
#include <webp/encode.h>

#include "io/image/picture.h"

namespace tessera::test::orientation_test {
namespace {

void append(std::string& bytes, std::uint32_t value, int count, bool is_little) {
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> 8 * (is_little ? i : count - 1 - i) & 255);
}

// A TIFF structure with an entry before the orientation.
std::string exif(std::uint32_t orientation, bool is_little = true, std::uint32_t type = 3, std::uint32_t count = 1) {
  std::string bytes = is_little ? "II" : "MM";
  const auto number = [&](std::uint32_t value, int size) { append(bytes, value, size, is_little); };
  number(42, 2), number(8, 4), number(2, 2);
  number(0x0100, 2), number(4, 2), number(1, 4), number(7, 4);
  number(0x0112, 2), number(type, 2), number(count, 4), number(orientation, 2), number(0, 2);
  number(0, 4);
  return bytes;
}

int orientation_of(const std::string& text) {
  return io::exif_orientation(bytes_of(text));
}

TEST(Orientation, IsReadInBothByteOrders) {
  for (const bool is_little : {true, false}) {
    for (int value = 1; value <= 8; ++value) {
      EXPECT_EQ(orientation_of(exif(static_cast<std::uint32_t>(value), is_little)), value);
      EXPECT_EQ(orientation_of(std::string("Exif\0\0", 6) + exif(static_cast<std::uint32_t>(value), is_little)), value);
    }
  }
}

TEST(Orientation, MalformedNotesAreIgnored) {
  for (const std::uint32_t value : {0u, 9u, 65535u}) EXPECT_EQ(orientation_of(exif(value)), 1);
  EXPECT_EQ(orientation_of(exif(6, true, 4)), 1);     // a number of another type
  EXPECT_EQ(orientation_of(exif(6, true, 3, 2)), 1);  // two of them
  EXPECT_EQ(orientation_of(""), 1);
  EXPECT_EQ(orientation_of("XX" + exif(6).substr(2)), 1);
  const std::string whole = exif(6);
  for (std::size_t size = 0; size < 30; ++size) EXPECT_EQ(orientation_of(whole.substr(0, size)), 1) << size;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = '\xFF';
    const int found = orientation_of(damaged);
    EXPECT_TRUE(found == 1 || found == 6) << at;
  }
}

// 2 x 3 pixels: 1 2 3 / 4 5 6, as a camera's orientation tells that it is to be seen.
TEST(Orientation, TurnsPixels) {
  const Tensor stored = Tensor::from<std::uint8_t>({2, 3, 1}, {1, 2, 3, 4, 5, 6});
  const std::vector<std::vector<std::uint8_t>> expected{{1, 2, 3, 4, 5, 6}, {3, 2, 1, 6, 5, 4}, {6, 5, 4, 3, 2, 1},
                                                        {4, 5, 6, 1, 2, 3}, {1, 4, 2, 5, 3, 6}, {4, 1, 5, 2, 6, 3},
                                                        {6, 3, 5, 2, 4, 1}, {3, 6, 2, 5, 1, 4}};
  for (int value = 1; value <= 8; ++value) {
    const Tensor seen = io::oriented(stored, value);
    EXPECT_EQ(seen.shape(), value >= 5 ? (Shape{3, 2, 1}) : (Shape{2, 3, 1}));
    EXPECT_EQ(std::vector<std::uint8_t>(seen.data<std::uint8_t>(), seen.data<std::uint8_t>() + 6),
              expected[static_cast<std::size_t>(value - 1)])
        << value;
  }
}

std::vector<std::byte> jpeg_with(const std::string& note) {
  const Tensor picture = gradient(16, 24, 1);
  void* encoder = tjInitCompress();
  unsigned char* data = nullptr;
  unsigned long size = 0;
  EXPECT_EQ(tjCompress2(encoder, picture.data<std::uint8_t>(), 24, 0, 16, TJPF_GRAY, &data, &size, TJSAMP_GRAY, 95, 0),
            0);
  std::string file(reinterpret_cast<const char*>(data), size);
  tjFree(data);
  tjDestroy(encoder);
  std::string segment = "\xFF\xE1";
  append(segment, static_cast<std::uint32_t>(note.size() + 8), 2, false);
  file.insert(2, segment + std::string("Exif\0\0", 6) + note);
  return bytes_of(file);
}

TEST(Orientation, OfJpeg) {
  const Tensor upright = io::read_image_bytes(jpeg_with(exif(1)));
  for (int value = 1; value <= 8; ++value) {
    const auto turned = io::read_image_bytes(jpeg_with(exif(static_cast<std::uint32_t>(value), value % 2 == 0)));
    EXPECT_TRUE(identical(turned, io::oriented(upright, value))) << value;
  }
  EXPECT_TRUE(identical(io::read_image_bytes(jpeg_with("no TIFF structure")), upright));
  expect_damage_is_harmless(jpeg_with(exif(6)));
}

TEST(Orientation, OfWebP) {
  const Tensor picture = gradient(3, 5, 3);
  std::uint8_t* data = nullptr;
  std::size_t size = WebPEncodeLosslessRGB(picture.data<std::uint8_t>(), 5, 3, 15, &data);
  const std::string image(reinterpret_cast<const char*>(data) + 12, size - 12);
  WebPFree(data);
  const std::string note = exif(8);
  std::string file = "WEBPVP8X";
  append(file, 10, 4, true);
  file += std::string("\x08\0\0\0\x04\0\0\x02\0\0", 10) + image + "EXIF";  // the flag of EXIF data; sizes less one
  append(file, static_cast<std::uint32_t>(note.size()), 4, true);
  file += note;
  std::string whole = "RIFF";
  append(whole, static_cast<std::uint32_t>(file.size()), 4, true);
  EXPECT_TRUE(identical(io::read_image_bytes(bytes_of(whole + file)), io::oriented(picture, 8)));
}

}  // namespace
}  // namespace tessera::test::orientation_test
