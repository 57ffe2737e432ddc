#include "serve/core/steps/picture_graph.h"

#include "base/error.h"
#include "tessera/graph.h"

namespace tessera::serve {
namespace {

Tensor whole(std::int64_t value) {
  return Tensor::from<std::int64_t>({1}, {value});
}

Tensor channel_constant(std::int64_t channels, float red, float green, float blue, bool reversed) {
  if (channels == 1) return Tensor::from<float>({1}, {red});
  return reversed ? Tensor::from<float>({3}, {blue, green, red}) : Tensor::from<float>({3}, {red, green, blue});
}

NetValue normalise(NetBuilder& net, NetValue x, const PictureOptions& options) {
  const auto times = [&](Tensor factor) { return net.add("Mul", {x, net.constant(std::move(factor))}); };
  const auto plus = [&](Tensor addend) { return net.add("Add", {x, net.constant(std::move(addend))}); };
  const std::string& scale = options.scale;
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
  const bool reversed = options.order == "BGR";
  x = plus(channel_constant(options.channels, -0.485f, -0.456f, -0.406f, reversed));
  return times(channel_constant(options.channels, 1 / 0.229f, 1 / 0.224f, 1 / 0.225f, reversed));
}

// The size [height, width, channels] that a picture of `size` [height, width] is resized to.
NetValue target_size(NetBuilder& net, NetValue size, const PictureOptions& options) {
  const auto constant = [&](std::int64_t value) { return net.constant(whole(value)); };
  const NetValue height = constant(options.height), width = constant(options.width),
                 channels = constant(options.channels);
  if (options.fit == PictureFit::stretch)
    return net.add("Concat", {height, width, channels}, {{"axis", std::int64_t{0}}});
  const NetValue found_height = net.add("Slice", {size, constant(0), constant(1)});
  const NetValue found_width = net.add("Slice", {size, constant(1), constant(2)});
  // a · b / c, at least 1 and at most `most`.
  const auto proportion = [&](NetValue a, NetValue b, NetValue c, NetValue most) {
    const NetValue quotient = net.add("Div", {net.add("Mul", {a, b}), c});
    return net.add("Min", {net.add("Max", {quotient, constant(1)}), most});
  };
  const NetValue new_width = proportion(found_width, height, found_height, width);
  const NetValue new_height =
      options.fit == PictureFit::pad ? proportion(found_height, width, found_width, height) : height;
  return net.add("Concat", {new_height, new_width, channels}, {{"axis", std::int64_t{0}}});
}

}  // namespace

Model make_picture_graph(const std::string& name, const PictureOptions& options) {
  require(options.channels == 1 || options.channels == 3, ErrorKind::invalid_argument,
          "a picture model has 1 or 3 channels, not {}", options.channels);
  require(options.order == "RGB" || options.order == "BGR", ErrorKind::invalid_argument,
          "the order '{}' of a picture's channels is unknown, expected RGB or BGR", options.order);
  NetBuilder net(name);
  const NetValue image = net.input("image", DType::u8, {std::string("bytes")});
  const std::string format = options.channels == 1 ? "Grayscale" : options.order;
  NetValue x = net.add("ImageDecoder", {image}, {{"pixel_format", format}});
  const NetValue size = net.add("Slice", {net.add("Shape", {x}), net.constant(whole(0)), net.constant(whole(2))});
  x = net.add("Cast", {x}, {{"to", std::int64_t{1}}});
  const NetValue sizes = target_size(net, size, options);
  x = net.add("Resize", {x, NetValue(), NetValue(), sizes},
              {{"mode", std::string("linear")},
               {"antialias", std::int64_t{1}},
               {"coordinate_transformation_mode", std::string("half_pixel")}});
  if (options.fit == PictureFit::pad) {
    const NetValue wanted =
        net.constant(Tensor::from<std::int64_t>({3}, {options.height, options.width, options.channels}));
    const NetValue before = net.constant(Tensor::from<std::int64_t>({3}, {0, 0, 0}));
    const NetValue pads = net.add("Concat", {before, net.add("Sub", {wanted, sizes})}, {{"axis", std::int64_t{0}}});
    x = net.add("Pad", {x, pads, net.constant(Tensor::scalar(static_cast<float>(options.filling)))});
  }
  x = normalise(net, x, options);
  if (!options.channels_last) x = net.add("Transpose", {x}, {{"perm", std::vector<std::int64_t>{2, 0, 1}}});
  net.output("tensor", net.add("Unsqueeze", {x, net.constant(whole(0))}));
  net.output("size", size);
  return net.build();
}

}  // namespace tessera::serve
