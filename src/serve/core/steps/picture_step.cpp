#include "serve/core/steps/picture_step.h"

#include "base/error.h"

namespace tessera::serve {
namespace {

constexpr std::int64_t kMostPixels = 16384;  // of a side

// What the network's only input of pictures says: its channels, and sizes that are not open.
struct NetworkInput {
  std::string name;
  PictureOptions usual;
};

NetworkInput network_input(const Model& model) {
  for (const ValueDescription& input : model.inputs()) {
    if (input.dtype != DType::f32 || !input.rank_known || input.dims.size() != 4) continue;
    NetworkInput found{input.name, {}};
    PictureOptions& usual = found.usual;
    usual.channels_last = input.dims[1] != 1 && input.dims[1] != 3 && (input.dims[3] == 1 || input.dims[3] == 3);
    const std::int64_t channels = input.dims[usual.channels_last ? 3 : 1];
    if (channels == 1 || channels == 3) usual.channels = channels;
    usual.height = std::max<std::int64_t>(input.dims[usual.channels_last ? 1 : 2], 0);
    usual.width = std::max<std::int64_t>(input.dims[usual.channels_last ? 2 : 3], 0);
    return found;
  }
  fail(ErrorKind::invalid_argument, "the model has no input of four dimensions of f32 for pictures");
}

class PictureStep final : public Step {
 public:
  explicit PictureStep(StepSource source)
      : input_(network_input(source.model)),
        options_(picture_options(source.settings, input_.usual)),
        session_(make_picture_graph("picture", options_), {.memory_limit_bytes = kPictureMemoryBytes}) {
    source.settings.check_all_read();
  }

  std::vector<TensorInfo> inputs() const override { return {{"image", DType::u8, {-1}}}; }
  std::vector<TensorInfo> outputs() const override { return {{input_.name, DType::f32, {1, -1, -1, -1}}}; }

  NamedValues run(Job& job, const NamedValues& values) override {
    NamedValues image;
    image.emplace("image", values.find("image")->second);
    NamedValues made;
    try {
      made = job.run(session_, image);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::over_budget)
        throw Failure(Reason::too_large, "the input 'image' is too large: " + error.message());
      if (error.kind() != ErrorKind::failed && error.kind() != ErrorKind::invalid_argument) throw;
      throw Failure(Reason::bad_request, "the input 'image' is no picture that can be decoded");
    }
    NamedValues named;
    named.emplace(input_.name, std::move(made.find("tensor")->second));
    named.emplace(kPictureSize, std::move(made.find("size")->second));
    return named;
  }

 private:
  const NetworkInput input_;
  const PictureOptions options_;
  Session session_;
};

}  // namespace

PictureOptions picture_options(StepSettings& settings, const PictureOptions& usual) {
  PictureOptions options = usual;
  const std::string fit = settings.choice("fit", {"stretch", "pad", "width"});
  options.fit = fit == "stretch" ? PictureFit::stretch : fit == "pad" ? PictureFit::pad : PictureFit::width;
  const bool follows = options.fit == PictureFit::width && options.width == 0;
  // Without a value the number is 0, which is out of range.
  const auto side = [&](const char* key, std::int64_t otherwise) {
    const std::int64_t size = settings.whole(key, otherwise, 1, kMostPixels);
    require(size >= 1, ErrorKind::invalid_argument, "the setting '{}' of the pictures is missing, expected 1 to {}",
            key, kMostPixels);
    return size;
  };
  options.width = side("width", follows ? kMostPixels : options.width);
  options.height = side("height", options.height);
  options.channels = settings.whole("channels", options.channels, 1, 3);
  options.channels_last =
      settings.choice("layout", options.channels_last ? std::vector<std::string>{"NHWC", "NCHW"}
                                                      : std::vector<std::string>{"NCHW", "NHWC"}) == "NHWC";
  options.scale = settings.choice("scale", {"unit", "none", "symmetric", "imagenet"});
  options.order = settings.choice("order", {"RGB", "BGR"});
  options.filling = settings.number("filling", options.filling, 0, 255);
  return options;
}

std::unique_ptr<Step> make_picture_step(StepSource source) {
  return std::make_unique<PictureStep>(std::move(source));
}

}  // namespace tessera::serve
