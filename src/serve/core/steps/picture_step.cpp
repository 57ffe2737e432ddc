#include "serve/core/steps/picture_step.h"

#include "base/error.h"

namespace tessera::serve {
namespace {

constexpr std::int64_t kMostPixels = 16384;  // of a side
constexpr std::int64_t kMostPixelsOfAll = std::int64_t{1} << 26;

// The network's only input of images as declared: its channels, and sizes that are not open.
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

class PictureStep final : public PipelineStep {
 public:
  PictureStep(std::string output, PictureOptions options, const ImageMemory& images)
      : output_(std::move(output)), options_(std::move(options)), images_(images) {}

  std::vector<TensorInfo> inputs() const override { return {{"image", DType::u8, {-1}}}; }
  std::vector<TensorInfo> outputs() const override { return {{output_, DType::f32, {1, -1, -1, -1}}}; }

  NamedValues run(Job&, const NamedValues& values, const Cancellation& cancellation) override {
    const Tensor& file = values.find("image")->second.tensor();
    ImageMemory::Lease lease(images_);
    ImageTensor made;
    try {
      made = make_image_tensor(
          {static_cast<const std::byte*>(file.raw()), static_cast<std::size_t>(file.bytes())}, options_,
          [&](std::int64_t bytes) { lease.take(bytes, cancellation); },
          [&] {
            if (cancellation.flag().load(std::memory_order_relaxed))
              throw Failure(Reason::cancelled, "the request was cancelled");
          });
    } catch (const Failure& failure) {
      if (failure.reason() != Reason::too_large) throw;
      throw Failure(Reason::too_large, fmt::format("the input 'image' is too large: {}", failure.what()));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::over_budget)
        throw Failure(Reason::too_large, "the input 'image' is too large: " + error.message());
      if (error.kind() != ErrorKind::invalid_argument && error.kind() != ErrorKind::unsupported) throw;
      throw Failure(Reason::bad_request, "the input 'image' is no picture that can be decoded: " + error.message());
    }
    NamedValues named;
    named.emplace(output_, std::move(made.tensor));
    named.emplace(kPictureSize, Tensor::from<std::int64_t>({2}, {made.height, made.width}));
    return named;
  }

 private:
  const std::string output_;
  const PictureOptions options_;
  const ImageMemory& images_;
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
  options.most_pixels = settings.whole("most_pixels", options.most_pixels, 1, kMostPixelsOfAll);
  require(options.channels != 2, ErrorKind::invalid_argument, "a picture has 1 or 3 channels, not 2");
  return options;
}

std::unique_ptr<PipelineStep> make_picture_step(StepSource source) {
  NetworkInput input = network_input(source.model);
  PictureOptions options = picture_options(source.settings, input.usual);
  source.settings.check_all_read();
  return std::make_unique<PictureStep>(std::move(input.name), std::move(options), source.images);
}

std::unique_ptr<PipelineStep> make_picture_step(const std::string& output, const PictureOptions& options,
                                                const ImageMemory& images) {
  return std::make_unique<PictureStep>(output, options, images);
}

}  // namespace tessera::serve
