#include "serve/core/picture_model.h"

#include <charconv>

#include "base/error.h"
#include "tessera/graph.h"

namespace tessera::serve {
namespace {

std::string parameter(const ModelSettings& settings, const std::string& name, const std::string& otherwise) {
  const auto found = settings.config.parameters().find(name);
  return found != settings.config.parameters().end() ? found->second.string_value() : otherwise;
}

std::int64_t size_of(const ModelSettings& settings, const std::string& name, const std::string& otherwise) {
  const std::string text = parameter(settings, name, otherwise);
  std::int64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  require(error == std::errc() && end == text.data() + text.size() && size >= 1 && size <= 16384,
          ErrorKind::invalid_argument, "the parameter '{}' of the picture model '{}' is '{}', expected 1 to 16384",
          name, settings.config.name(), text);
  return size;
}

Tensor channel_constant(std::int64_t channels, float red, float green, float blue) {
  if (channels == 1) return Tensor::from<float>({1}, {red});
  return Tensor::from<float>({3}, {red, green, blue});
}

NetValue normalise(NetBuilder& net, NetValue x, const std::string& scale, std::int64_t channels) {
  const auto times = [&](Tensor factor) { return net.add("Mul", {x, net.constant(std::move(factor))}); };
  const auto plus = [&](Tensor addend) { return net.add("Add", {x, net.constant(std::move(addend))}); };
  if (scale == "none") return x;
  if (scale == "symmetric") {
    x = times(Tensor::scalar<float>(1 / 127.5f));
    return plus(Tensor::scalar<float>(-1));
  }
  x = times(Tensor::scalar<float>(1 / 255.0f));
  if (scale == "unit") return x;
  require(scale == "imagenet", ErrorKind::invalid_argument,
          "the scale '{}' of a picture model is unknown, expected unit, none, symmetric or imagenet", scale);
  // https://pytorch.org/vision/stable/models.html
  x = plus(channel_constant(channels, -0.485f, -0.456f, -0.406f));
  return times(channel_constant(channels, 1 / 0.229f, 1 / 0.224f, 1 / 0.225f));
}

}  // namespace

Model make_picture_model(const ModelSettings& settings) {
  const std::int64_t width = size_of(settings, "width", ""), height = size_of(settings, "height", "");
  const std::int64_t channels = size_of(settings, "channels", "3");
  require(channels == 1 || channels == 3, ErrorKind::invalid_argument, "a picture model has 1 or 3 channels, not {}",
          channels);
  const std::string layout = parameter(settings, "layout", "NCHW");
  require(layout == "NCHW" || layout == "NHWC", ErrorKind::invalid_argument,
          "the layout '{}' of a picture model is unknown, expected NCHW or NHWC", layout);
  NetBuilder net(settings.config.name());
  NetValue x = net.input("image", DType::u8, {std::string("bytes")});
  x = net.add("ImageDecoder", {x}, {{"pixel_format", std::string(channels == 1 ? "Grayscale" : "RGB")}});
  x = net.add("Cast", {x}, {{"to", std::int64_t{1}}});
  const NetValue sizes = net.constant(Tensor::from<std::int64_t>({3}, {height, width, channels}));
  x = net.add("Resize", {x, NetValue(), NetValue(), sizes},
              {{"mode", std::string("linear")},
               {"antialias", std::int64_t{1}},
               {"coordinate_transformation_mode", std::string("half_pixel")}});
  x = normalise(net, x, parameter(settings, "scale", "unit"), channels);
  if (layout == "NCHW") x = net.add("Transpose", {x}, {{"perm", std::vector<std::int64_t>{2, 0, 1}}});
  x = net.add("Unsqueeze", {x, net.constant(Tensor::from<std::int64_t>({1}, {0}))});
  net.output("tensor", x);
  return net.build();
}

}  // namespace tessera::serve
