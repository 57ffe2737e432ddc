#include "train/data/transform.h"

#include <charconv>
#include <string_view>

#include "base/error.h"
#include "train/data/images/picture_transforms.h"
#include "train/data/images/volume_transforms.h"
#include "train/data/text/token_transforms.h"

namespace tessera::train {
namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// A description such as "crop:4", split into its name and its arguments by position.
class Description {
 public:
  explicit Description(const std::string& text) : text_(text), parts_(split(text, ':')) {}

  const std::string& name() const { return parts_[0]; }
  std::size_t arguments() const { return parts_.size() - 1; }

  void require_arguments(std::size_t least, std::size_t most, std::string_view form) const {
    require(arguments() >= least && arguments() <= most, ErrorKind::invalid_argument, "augmentation '{}': expected {}",
            text_, form);
  }

  std::vector<double> numbers(std::size_t argument, double low, double high) const {
    std::vector<double> values;
    for (const std::string& part : split(parts_[argument + 1], ',')) {
      double value = 0;
      const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
      require(error == std::errc() && end == part.data() + part.size() && value >= low && value <= high,
              ErrorKind::invalid_argument, "augmentation '{}': '{}' is no number in [{}, {}]", text_, part, low, high);
      values.push_back(value);
    }
    return values;
  }
  double number(std::size_t argument, double low, double high) const { return numbers(argument, low, high).front(); }
  std::int64_t integer(std::size_t argument, std::int64_t low, std::int64_t high) const {
    return static_cast<std::int64_t>(number(argument, static_cast<double>(low), static_cast<double>(high)));
  }

 private:
  std::string text_;
  std::vector<std::string> parts_;
};

constexpr double kMost = 1e9;
constexpr std::int64_t kMostPixels = 1 << 20;

std::unique_ptr<SampleTransform> colour_jitter(const Description& given) {
  given.require_arguments(1, 3, "colour_jitter:BRIGHTNESS[:CONTRAST[:SATURATION]] with numbers of at least 0");
  const double brightness = given.number(0, 0, 1);
  return make_colour_jitter(brightness, given.arguments() > 1 ? given.number(1, 0, 1) : 0,
                            given.arguments() > 2 ? given.number(2, 0, 1) : 0);
}

std::unique_ptr<SampleTransform> normalise(const Description& given) {
  given.require_arguments(2, 2, "normalise:MEAN:DEVIATION, each one number or one a channel, separated by commas");
  const std::vector<double> mean = given.numbers(0, -kMost, kMost), deviation = given.numbers(1, 1e-12, kMost);
  return make_normalise({mean.begin(), mean.end()}, {deviation.begin(), deviation.end()});
}

std::unique_ptr<SampleTransform> biased_crop(const Description& given) {
  given.require_arguments(1, 2, "biased_crop:DEPTH,HEIGHT,WIDTH[:PROBABILITY]");
  const std::vector<double> size = given.numbers(0, 1, kMost);
  require(size.size() == 3, ErrorKind::invalid_argument, "biased_crop: expected three sizes, DEPTH,HEIGHT,WIDTH");
  return make_biased_crop(
      {static_cast<std::int64_t>(size[0]), static_cast<std::int64_t>(size[1]), static_cast<std::int64_t>(size[2])},
      given.arguments() > 1 ? given.number(1, 0, 1) : 0.4);
}

std::unique_ptr<SampleTransform> mask_tokens(const Description& given) {
  given.require_arguments(3, 3, "mask_tokens:PART:MASK:VOCABULARY");
  constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;
  return make_mask_tokens(given.number(0, 0, 1), given.integer(1, 0, kMostTokens), given.integer(2, 1, kMostTokens));
}

struct Maker {
  std::string_view name;
  std::unique_ptr<SampleTransform> (*make)(const Description&);
};

constexpr Maker kMakers[] = {
    {"flip", [](const Description& given) { return given.require_arguments(0, 0, "flip"), make_flip(false); }},
    {"flip_vertical",
     [](const Description& given) { return given.require_arguments(0, 0, "flip_vertical"), make_flip(true); }},
    {"crop",
     [](const Description& given) {
       return given.require_arguments(1, 1, "crop:PIXELS"), make_crop(given.integer(0, 0, kMostPixels));
     }},
    {"cutout",
     [](const Description& given) {
       return given.require_arguments(1, 1, "cutout:SIZE"), make_cutout(given.integer(0, 1, kMostPixels));
     }},
    {"colour_jitter", colour_jitter},
    {"normalise", normalise},
    {"biased_crop", biased_crop},
    {"mask_tokens", mask_tokens},
};

}  // namespace

std::unique_ptr<SampleTransform> make_transform(const std::string& description) {
  const Description given(description);
  std::string names;
  for (const Maker& maker : kMakers) {
    if (maker.name == given.name()) return maker.make(given);
    names += (names.empty() ? "" : ", ") + std::string(maker.name);
  }
  fail(ErrorKind::invalid_argument, "unknown augmentation '{}'; there are {} and mixup", given.name(), names);
}

std::vector<std::vector<Field>> bind_all(const TransformList& transforms, const std::vector<Field>& fields) {
  std::vector<std::vector<Field>> forms = {fields};
  for (const auto& transform : transforms) forms.push_back(transform->bind(forms.back()));
  return forms;
}

}  // namespace tessera::train
