// A picture file as a served model gets it. The first byte chooses how it is resized, scaled and laid out: the
// network's input must have the size that was asked for, and finite numbers.
#include <array>
#include <cmath>
#include <map>
#include <memory>

#include "serve/core/steps/picture_graph.h"
#include "target.h"
#include "tessera/error.h"
#include "tessera/session.h"

namespace tessera::fuzz {
namespace {

constexpr std::int64_t kHeight = 12, kMostWidth = 40;
constexpr std::int64_t kMemoryBytes = 256 << 20;

serve::PictureOptions options_of(std::size_t tag) {
  constexpr std::array kFits{serve::PictureFit::stretch, serve::PictureFit::pad, serve::PictureFit::width};
  constexpr std::array kScales{"unit", "none", "symmetric", "imagenet"};
  serve::PictureOptions options;
  options.width = kMostWidth;
  options.height = kHeight;
  options.fit = kFits[tag % 3];
  options.scale = kScales[tag / 3 % 4];
  options.channels = tag / 12 % 2 == 0 ? 3 : 1;
  options.channels_last = tag / 24 % 2 == 1;
  options.order = tag / 48 % 2 == 0 ? "RGB" : "BGR";
  return options;
}

// Made once for each choice, since making one takes longer than most pictures.
Session& session_for(std::size_t tag) {
  static std::map<std::size_t, std::unique_ptr<Session>> sessions;
  std::unique_ptr<Session>& session = sessions[tag % 96];
  if (!session) {
    SessionOptions options;
    options.threads = 1;
    options.memory_limit_bytes = kMemoryBytes;
    session = std::make_unique<Session>(serve::make_picture_graph("picture", options_of(tag)), options);
  }
  return *session;
}

}  // namespace

void serve_picture(std::span<const std::byte> input) {
  const auto [tag, rest] = split_tag(input);
  const serve::PictureOptions options = options_of(tag);
  Tensor bytes(DType::u8, {static_cast<std::int64_t>(rest.size())});
  std::copy_n(reinterpret_cast<const std::uint8_t*>(rest.data()), rest.size(), bytes.mutable_data<std::uint8_t>());
  NamedValues made;
  try {
    NamedValues values;
    values.emplace("image", std::move(bytes));
    made = session_for(tag).run(values);
  } catch (const Error&) {
    return;
  }
  const Tensor& tensor = made.find("tensor")->second.tensor();
  const Shape& shape = tensor.shape();
  const std::size_t first = options.channels_last ? 1 : 2;
  const bool fits_width = options.fit == serve::PictureFit::width
                              ? shape[first + 1] >= 1 && shape[first + 1] <= kMostWidth
                              : shape[first + 1] == kMostWidth;
  if (shape.size() != 4 || shape[first] != kHeight || !fits_width)
    finding("a picture becomes a tensor of shape " + to_string(shape));
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    if (!std::isfinite(tensor.data<float>()[i])) finding("a picture becomes a number that is not finite");
  }
}

}  // namespace tessera::fuzz
