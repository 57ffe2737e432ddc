#include <gmock/gmock.h>
#include <openjpeg.h>

#include "io/image/picture.h"

namespace tessera::test::jpeg2000_test {
namespace {

using testing::HasSubstr;

struct Settings {
  bool codestream = false;
  bool lossy = false;
  int tile = 0;  // edge of the tiles; 0: one tile
  int bits = 8;
  OPJ_COLOR_SPACE space = OPJ_CLRSPC_SRGB;
  int chroma_step = 1;  // of the second and third channel
};

OPJ_SIZE_T append(void* from, OPJ_SIZE_T count, void* user) {
  auto& file = *static_cast<std::pair<std::vector<std::byte>, std::size_t>*>(user);
  if (file.first.size() < file.second + count) file.first.resize(file.second + count);
  std::copy_n(static_cast<const std::byte*>(from), count,
              file.first.begin() + static_cast<std::ptrdiff_t>(file.second));
  file.second += count;
  return count;
}
OPJ_BOOL seek(OPJ_OFF_T to, void* user) {
  static_cast<std::pair<std::vector<std::byte>, std::size_t>*>(user)->second = static_cast<std::size_t>(to);
  return OPJ_TRUE;
}
OPJ_OFF_T skip(OPJ_OFF_T count, void* user) {
  static_cast<std::pair<std::vector<std::byte>, std::size_t>*>(user)->second += static_cast<std::size_t>(count);
  return count;
}

// 16-bit samples are the 8-bit ones times 257.
std::vector<std::byte> jp2_of(const Tensor& picture, const Settings& settings = {}) {
  const auto height = static_cast<OPJ_UINT32>(picture.shape()[0]), width = static_cast<OPJ_UINT32>(picture.shape()[1]);
  const auto channels = static_cast<OPJ_UINT32>(picture.shape()[2]);
  std::vector<opj_image_cmptparm_t> components(channels);
  for (OPJ_UINT32 c = 0; c < channels; ++c) {
    const auto step = static_cast<OPJ_UINT32>(c == 0 ? 1 : settings.chroma_step);
    components[c] = {step,
                     step,
                     (width + step - 1) / step,
                     (height + step - 1) / step,
                     0,
                     0,
                     static_cast<OPJ_UINT32>(settings.bits),
                     static_cast<OPJ_UINT32>(settings.bits),
                     0};
  }
  opj_image_t* image = opj_image_create(channels, components.data(), channels < 3 ? OPJ_CLRSPC_GRAY : settings.space);
  image->x1 = width;
  image->y1 = height;
  for (OPJ_UINT32 c = 0; c < channels; ++c) {
    const opj_image_comp_t& component = image->comps[c];
    for (OPJ_UINT32 i = 0; i < component.w * component.h; ++i) {
      const OPJ_UINT32 y = i / component.w * component.dy, x = i % component.w * component.dx;
      component.data[i] =
          picture.data<std::uint8_t>()[(y * width + x) * channels + c] * (settings.bits == 16 ? 257 : 1);
    }
  }
  if (channels == 4) image->comps[3].alpha = 1;
  opj_cparameters_t parameters;
  opj_set_default_encoder_parameters(&parameters);
  parameters.tcp_numlayers = 1;
  parameters.tcp_rates[0] = 0;
  parameters.cp_disto_alloc = 1;
  parameters.numresolution = 3;
  parameters.irreversible = settings.lossy ? 1 : 0;
  parameters.tcp_mct = channels >= 3 && settings.chroma_step == 1 ? 1 : 0;
  if (settings.tile > 0) {
    parameters.tile_size_on = OPJ_TRUE;
    parameters.cp_tdx = parameters.cp_tdy = settings.tile;
  }
  opj_codec_t* codec = opj_create_compress(settings.codestream ? OPJ_CODEC_J2K : OPJ_CODEC_JP2);
  std::pair<std::vector<std::byte>, std::size_t> file;
  opj_stream_t* stream = opj_stream_create(1 << 16, OPJ_FALSE);
  opj_stream_set_user_data(stream, &file, nullptr);
  opj_stream_set_write_function(stream, append);
  opj_stream_set_seek_function(stream, seek);
  opj_stream_set_skip_function(stream, skip);
  EXPECT_TRUE(opj_setup_encoder(codec, &parameters, image) && opj_start_compress(codec, image, stream) &&
              opj_encode(codec, stream) && opj_end_compress(codec, stream));
  opj_stream_destroy(stream);
  opj_destroy_codec(codec);
  opj_image_destroy(image);
  return file.first;
}

TEST(Jpeg2000, ReadsLosslessExactly) {
  for (const Settings& settings : {Settings{}, {.codestream = true}, {.tile = 8}, {.bits = 16}}) {
    for (std::int64_t channels : {1, 3, 4}) {
      const Tensor picture = gradient(19, 21, channels);
      EXPECT_TRUE(identical(io::read_image_bytes(jp2_of(picture, settings)), picture))
          << channels << " channels, tiles " << settings.tile << ", bits " << settings.bits;
    }
  }
}

TEST(Jpeg2000, ReadsGreyWithAlphaAsRgba) {
  const Tensor picture = gradient(6, 7, 2);
  const std::vector<int> pixels = pixels_of(jp2_of(picture));
  ASSERT_EQ(pixels.size(), 6u * 7u * 4u);
  for (std::size_t i = 0; i < pixels.size(); ++i)
    EXPECT_EQ(pixels[i], picture.data<std::uint8_t>()[i / 4 * 2 + (i % 4 == 3 ? 1 : 0)]) << i;
}

TEST(Jpeg2000, ReadsLossyClosely) {
  const Tensor picture = gradient(33, 41, 3);
  EXPECT_LE(largest_difference(io::read_image_bytes(jp2_of(picture, {.lossy = true})), picture), 2);
}

// Luma 100 and chroma (148, 188): R = 100 + 1.402 · 60, G = 100 − 0.344136 · 20 − 0.714136 · 60, B = 100 + 1.772 · 20.
TEST(Jpeg2000, ConvertsSubsampledYcc) {
  Tensor picture(DType::u8, {5, 5, 3});
  for (std::int64_t i = 0; i < 75; i += 3) {
    picture.mutable_data<std::uint8_t>()[i] = 100;
    picture.mutable_data<std::uint8_t>()[i + 1] = 148;
    picture.mutable_data<std::uint8_t>()[i + 2] = 188;
  }
  const Tensor expected = [] {
    Tensor result(DType::u8, {5, 5, 3});
    for (std::int64_t i = 0; i < 75; ++i)
      result.mutable_data<std::uint8_t>()[i] =
          std::array<std::uint8_t, 3>{184, 50, 135}[static_cast<std::size_t>(i % 3)];
    return result;
  }();
  EXPECT_TRUE(identical(io::read_image_bytes(jp2_of(picture, {.space = OPJ_CLRSPC_SYCC, .chroma_step = 2})), expected));
  EXPECT_TRUE(
      identical(io::read_image_bytes(jp2_of(picture, {.codestream = true, .space = OPJ_CLRSPC_SYCC, .chroma_step = 2})),
                expected));
}

TEST(Jpeg2000, TruncatedFilesAreErrors) {
  expect_truncation_is_an_error(jp2_of(gradient(20, 20, 3)), 4, 3);
  expect_truncation_is_an_error(jp2_of(gradient(20, 20, 3), {.codestream = true}), 4, 3);
}

// In a bare codestream: SIZ at byte 2 (sizes from 8, tiles from 24), then COD (layers 6 bytes into it).
TEST(Jpeg2000, LyingHeadersAreErrors) {
  const std::vector<std::byte> whole = jp2_of(gradient(16, 16, 1), {.codestream = true});
  const auto with = [&](std::size_t at, std::uint32_t value, int bytes) {
    std::vector<std::byte> changed = whole;
    for (int i = 0; i < bytes; ++i)
      changed[at + static_cast<std::size_t>(i)] = static_cast<std::byte>(value >> 8 * (bytes - 1 - i));
    return changed;
  };
  EXPECT_THAT(read_error(with(8, 1'000'000'000, 4)), HasSubstr("too short for its tiles"));
  EXPECT_THAT(read_error(with(8, 0, 4)), HasSubstr("impossible sizes"));
  EXPECT_THAT(read_error(with(24, 0, 4)), HasSubstr("impossible sizes"));
  EXPECT_THAT(read_error(with(24, 1, 4)), HasSubstr("cannot read JPEG 2000"));
  EXPECT_THAT(read_error(with(40, 5, 2)), HasSubstr("JPEG 2000 of 5 channels"));
  std::size_t cod = 0;
  while (cod + 1 < whole.size() && (whole[cod] != std::byte{0xFF} || whole[cod + 1] != std::byte{0x52})) ++cod;
  EXPECT_THAT(read_error(with(cod + 6, 65535, 2)), HasSubstr("too short for its precincts and layers"));
  std::vector<std::byte> tiles = with(8, 200, 4);  // 200 x 16 pixels in tiles of 1 x 1
  tiles[11 + 16] = tiles[11 + 20] = std::byte{1};
  EXPECT_THAT(read_error(tiles), HasSubstr("too short for its tiles"));
  EXPECT_THAT(read_error(whole, {.max_pixels = 255}), HasSubstr("more than the limit of 255"));
}

TEST(Jpeg2000, DamageIsHarmless) {
  expect_damage_is_harmless(jp2_of(gradient(9, 9, 3)));
  expect_damage_is_harmless(jp2_of(gradient(9, 9, 1), {.lossy = true, .tile = 5}));
}

}  // namespace
}  // namespace tessera::test::jpeg2000_test
