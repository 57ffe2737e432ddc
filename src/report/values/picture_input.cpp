#include "report/values/picture_input.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "backends/host/numeric.h"
#include "base/error.h"
#include "io/image.h"
#include "io/image_resize.h"

namespace tessera::report {
namespace {

constexpr std::array<double, 3> kImagenetMean = {0.485, 0.456, 0.406}, kImagenetDeviation = {0.229, 0.224, 0.225};

bool is_channels(std::int64_t dim) {
  return dim == 1 || dim == 3 || dim == 4;
}

// The axes of an input for images.
struct Layout {
  std::size_t channels = 0, height = 0, width = 0;
  bool has_batch = false;
  std::int64_t count = 3;  // number of channels
};

Layout layout_of(const ValueDescription& input) {
  const std::size_t rank = input.dims.size();
  require(input.dtype != DType::undefined && input.rank_known && (rank == 3 || rank == 4), ErrorKind::invalid_argument,
          "input '{}' is {}: a picture goes into inputs of 3 or 4 dimensions", input.name, input.type);
  Layout layout;
  layout.has_batch = rank == 4;
  const std::size_t first = rank - 3;
  // If either axis could be that of the channels, it is the first one, as in most models.
  const bool last = is_channels(input.dims[rank - 1]) && !is_channels(input.dims[first]);
  layout.channels = last ? rank - 1 : first;
  layout.height = last ? first : first + 1;
  layout.width = layout.height + 1;
  const std::int64_t channels = input.dims[layout.channels];
  require(channels < 0 || is_channels(channels), ErrorKind::invalid_argument,
          "input '{}' is {}: a picture has 1, 3 or 4 channels, in front or at the end", input.name, input.type);
  if (channels > 0) layout.count = channels;
  require(!layout.has_batch || input.dims[0] < 0 || input.dims[0] == 1, ErrorKind::invalid_argument,
          "input '{}' is {}: a picture is a batch of 1", input.name, input.type);
  return layout;
}

PictureScale scale_for(const ValueDescription& input, const Layout& layout, PictureScale scale) {
  const bool whole = !is_float(input.dtype);
  const bool holds_bytes = input.dtype == DType::u8 || input.dtype == DType::i16 || input.dtype == DType::u16 ||
                           input.dtype == DType::i32 || input.dtype == DType::u32 || input.dtype == DType::i64 ||
                           input.dtype == DType::u64;
  const bool real =
      input.dtype == DType::f32 || input.dtype == DType::f16 || input.dtype == DType::bf16 || input.dtype == DType::f64;
  require(real || holds_bytes, ErrorKind::invalid_argument,
          "input '{}' is {}: a picture goes into inputs of floats, or of integers that hold 0 to 255", input.name,
          input.type);
  if (scale == PictureScale::usual) return whole ? PictureScale::none : PictureScale::unit;
  require(!whole || scale == PictureScale::none, ErrorKind::invalid_argument,
          "input '{}' is {}: pictures in integers are not normalised, so only none is for it", input.name, input.type);
  require(scale != PictureScale::imagenet || layout.count == 3, ErrorKind::invalid_argument,
          "input '{}' is {}: ImageNet's mean and deviation are for 3 channels", input.name, input.type);
  return scale;
}

// The height and width of the image in the input.
std::pair<std::int64_t, std::int64_t> size_for(std::int64_t height, std::int64_t width, std::int64_t wanted_height,
                                               std::int64_t wanted_width) {
  const auto in_proportion = [](std::int64_t wanted, std::int64_t of, std::int64_t other) {
    return std::max<std::int64_t>(
        1, std::llround(static_cast<double>(wanted) * static_cast<double>(other) / static_cast<double>(of)));
  };
  if (wanted_height >= 0 && wanted_width >= 0) return {wanted_height, wanted_width};
  if (wanted_height >= 0) return {wanted_height, in_proportion(wanted_height, height, width)};
  if (wanted_width >= 0) return {in_proportion(wanted_width, width, height), wanted_width};
  return {height, width};
}

// Floats [height, width, channels].
Tensor resized(const Tensor& bytes, std::int64_t height, std::int64_t width) {
  Tensor pixels(DType::f32, {height, width, bytes.shape()[2]});
  const io::ImageWindow whole{0, 0, static_cast<double>(bytes.shape()[0]), static_cast<double>(bytes.shape()[1])};
  io::resize_image(bytes, whole, height, width, pixels.mutable_data<float>());
  return pixels;
}

double scaled(double byte, PictureScale scale, std::size_t channel) {
  switch (scale) {
    case PictureScale::symmetric:
      return byte / 127.5 - 1;
    case PictureScale::imagenet:
      return (byte / 255 - kImagenetMean[channel]) / kImagenetDeviation[channel];
    case PictureScale::unit:
      return byte / 255;
    case PictureScale::usual:
    case PictureScale::none:
      break;
  }
  return byte;
}

std::string_view range_of(PictureScale scale) {
  switch (scale) {
    case PictureScale::symmetric:
      return "-1 to 1";
    case PictureScale::imagenet:
      return "less ImageNet's mean, divided by its deviation";
    case PictureScale::unit:
      return "0 to 1";
    default:
      return "0 to 255";
  }
}

// Converts [height, width, channels] of floats 0 to 255 to the axes, type and range of the input.
Tensor arranged(const Tensor& pixels, const Layout& layout, DType dtype, PictureScale scale) {
  const std::int64_t height = pixels.shape()[0], width = pixels.shape()[1], channels = pixels.shape()[2];
  const bool last = layout.channels > layout.height;
  Shape shape = last ? Shape{height, width, channels} : Shape{channels, height, width};
  if (layout.has_batch) shape.insert(shape.begin(), 1);
  const float* from = pixels.data<float>();
  std::vector<double> values(static_cast<std::size_t>(pixels.elements()));
  for (std::int64_t pixel = 0; pixel < height * width; ++pixel) {
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      double value = scaled(static_cast<double>(*from++), scale, static_cast<std::size_t>(channel));
      if (!is_float(dtype)) value = std::clamp(std::nearbyint(value), 0.0, 255.0);
      values[static_cast<std::size_t>(last ? pixel * channels + channel : channel * height * width + pixel)] = value;
    }
  }
  Tensor result(dtype, shape);
  backends::host::write(values, result);
  return result;
}

}  // namespace

PictureScale parse_picture_scale(const std::string& text) {
  if (text.empty()) return PictureScale::usual;
  if (text == "none") return PictureScale::none;
  if (text == "0-1") return PictureScale::unit;
  if (text == "-1-1") return PictureScale::symmetric;
  if (text == "imagenet") return PictureScale::imagenet;
  fail(ErrorKind::invalid_argument, "pictures are normalised by none, 0-1, -1-1 or imagenet, not '{}'", text);
}

PictureInput read_picture_input(const std::filesystem::path& path, const ValueDescription& input, PictureScale scale) {
  const Layout layout = layout_of(input);
  scale = scale_for(input, layout, scale);
  const Tensor bytes = io::read_image(path, {.channels = static_cast<int>(layout.count)});
  const std::int64_t height = bytes.shape()[0], width = bytes.shape()[1];
  const auto [new_height, new_width] = size_for(height, width, input.dims[layout.height], input.dims[layout.width]);
  require(new_height > 0 && new_width > 0, ErrorKind::invalid_argument, "input '{}' is {}, which holds no pixel",
          input.name, input.type);
  PictureInput result{arranged(resized(bytes, new_height, new_width), layout, input.dtype, scale), ""};
  result.description = fmt::format("{} x {}", width, height);
  if (new_height != height || new_width != width)
    result.description += fmt::format(", resized to {} x {}", new_width, new_height);
  result.description += fmt::format(", {} as {}{}, values {}",
                                    layout.count == 1   ? "grey"
                                    : layout.count == 3 ? "RGB"
                                                        : "RGBA",
                                    name_of(input.dtype), to_string(result.tensor.shape()), range_of(scale));
  return result;
}

}  // namespace tessera::report
