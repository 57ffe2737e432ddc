#include "train/data/images/picture_transforms.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace tessera::train {
namespace {

struct PictureShape {
  std::int64_t channels, height, width;
  std::int64_t pixels() const { return height * width; }
};

// What all transforms of pictures have in common: field x changes, the others are copied, and no shape changes.
class PictureTransform : public SampleTransform {
 public:
  std::vector<Field> bind(const std::vector<Field>& input) override {
    fields_ = input;
    const auto found = std::ranges::find(input, "x", &Field::name);
    require(
        found != input.end() && found->dtype == DType::f32 && accepts(found->shape), ErrorKind::invalid_argument,
        "{} is for pictures x f32 [channels, height, width]; the data have {}", name(),
        found == input.end() ? "no field x" : fmt::format("x {} {}", name_of(found->dtype), to_string(found->shape)));
    picture_ = static_cast<std::size_t>(found - input.begin());
    const Shape& shape = found->shape;
    shape_ = shape.size() == 3 ? PictureShape{shape[0], shape[1], shape[2]}
                               : PictureShape{shape[0], 1, element_count(shape) / std::max<std::int64_t>(shape[0], 1)};
    return input;
  }

  void apply(std::int64_t, std::span<const std::byte* const> in, std::span<std::byte* const> out,
             base::Philox& numbers) const override {
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      const auto bytes = static_cast<std::size_t>(fields_[i].bytes());
      if (i != picture_ && bytes > 0) std::memcpy(out[i], in[i], bytes);
    }
    change(shape_, reinterpret_cast<const float*>(in[picture_]), reinterpret_cast<float*>(out[picture_]), numbers);
  }

 protected:
  virtual bool accepts(const Shape& shape) const { return shape.size() == 3; }
  virtual std::string name() const = 0;
  virtual void change(const PictureShape& shape, const float* from, float* to, base::Philox& numbers) const = 0;

 private:
  std::vector<Field> fields_;
  std::size_t picture_ = 0;
  PictureShape shape_{};
};

void copy_picture(const PictureShape& shape, const float* from, float* to) {
  std::copy_n(from, shape.channels * shape.pixels(), to);
}

class Flip final : public PictureTransform {
 public:
  explicit Flip(bool vertical) : vertical_(vertical) {}

 private:
  std::string name() const override { return vertical_ ? "flip_vertical" : "flip"; }
  void change(const PictureShape& shape, const float* from, float* to, base::Philox& numbers) const override {
    if (numbers.next_uniform() < 0.5) return copy_picture(shape, from, to);
    for (std::int64_t line = 0; line < shape.channels * shape.height; ++line) {
      const std::int64_t channel = line / shape.height, y = line % shape.height;
      if (vertical_) {
        std::copy_n(from + line * shape.width, shape.width,
                    to + (channel * shape.height + shape.height - 1 - y) * shape.width);
      } else {
        std::reverse_copy(from + line * shape.width, from + (line + 1) * shape.width, to + line * shape.width);
      }
    }
  }

  bool vertical_;
};

class Crop final : public PictureTransform {
 public:
  explicit Crop(std::int64_t padding) : padding_(padding) {}

 private:
  std::string name() const override { return "crop"; }
  void change(const PictureShape& shape, const float* from, float* to, base::Philox& numbers) const override {
    const std::int64_t down = numbers.next_integer(-padding_, padding_);
    const std::int64_t right = numbers.next_integer(-padding_, padding_);
    // Column x of the result is column x + right of the picture, where there is one.
    const std::int64_t begin = std::clamp<std::int64_t>(-right, 0, shape.width);
    const std::int64_t end = std::clamp<std::int64_t>(shape.width - right, begin, shape.width);
    for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
      for (std::int64_t y = 0; y < shape.height; ++y) {
        float* line = to + (channel * shape.height + y) * shape.width;
        std::fill_n(line, shape.width, 0.0f);
        const std::int64_t source = y + down;
        if (source < 0 || source >= shape.height) continue;
        std::copy_n(from + (channel * shape.height + source) * shape.width + begin + right, end - begin, line + begin);
      }
    }
  }

  std::int64_t padding_;
};

class Cutout final : public PictureTransform {
 public:
  explicit Cutout(std::int64_t size) : size_(size) {}

 private:
  std::string name() const override { return "cutout"; }
  void change(const PictureShape& shape, const float* from, float* to, base::Philox& numbers) const override {
    copy_picture(shape, from, to);
    // The square's centre lies in the picture; the square may reach out of it.
    const std::int64_t top = numbers.next_integer(0, shape.height - 1) - size_ / 2;
    const std::int64_t left = numbers.next_integer(0, shape.width - 1) - size_ / 2;
    const std::int64_t begin = std::max<std::int64_t>(left, 0), end = std::min(left + size_, shape.width);
    for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
      for (std::int64_t y = std::max<std::int64_t>(top, 0); y < std::min(top + size_, shape.height); ++y)
        std::fill(to + (channel * shape.height + y) * shape.width + begin,
                  to + (channel * shape.height + y) * shape.width + end, 0.0f);
    }
  }

  std::int64_t size_;
};

// Luma of ITU-R BT.601.
float luma(float red, float green, float blue) {
  return 0.299f * red + 0.587f * green + 0.114f * blue;
}

class ColourJitter final : public PictureTransform {
 public:
  ColourJitter(double brightness, double contrast, double saturation)
      : brightness_(brightness), contrast_(contrast), saturation_(saturation) {}

 private:
  std::string name() const override { return "colour_jitter"; }
  void change(const PictureShape& shape, const float* from, float* to, base::Philox& numbers) const override {
    const auto draw = [&](double range) {
      return static_cast<float>(std::max(0.0, 1 + range * (2 * numbers.next_uniform() - 1)));
    };
    const float brightness = draw(brightness_), contrast = draw(contrast_), saturation = draw(saturation_);
    const std::int64_t pixels = shape.pixels(), count = shape.channels * pixels;
    for (std::int64_t i = 0; i < count; ++i) to[i] = std::clamp(from[i] * brightness, 0.0f, 1.0f);
    const bool coloured = shape.channels == 3;
    double sum = 0;
    for (std::int64_t i = 0; i < (coloured ? pixels : count); ++i)
      sum += coloured ? luma(to[i], to[pixels + i], to[2 * pixels + i]) : to[i];
    const auto mean = static_cast<float>(sum / static_cast<double>(coloured ? pixels : count));
    for (std::int64_t i = 0; i < count; ++i) to[i] = std::clamp(mean + (to[i] - mean) * contrast, 0.0f, 1.0f);
    if (!coloured) return;
    for (std::int64_t i = 0; i < pixels; ++i) {
      const float grey = luma(to[i], to[pixels + i], to[2 * pixels + i]);
      for (std::int64_t channel = 0; channel < 3; ++channel) {
        float& value = to[channel * pixels + i];
        value = std::clamp(grey + (value - grey) * saturation, 0.0f, 1.0f);
      }
    }
  }

  double brightness_, contrast_, saturation_;
};

class Normalise final : public PictureTransform {
 public:
  Normalise(std::vector<float> mean, std::vector<float> deviation)
      : mean_(std::move(mean)), deviation_(std::move(deviation)) {}
  bool for_training_only() const override { return false; }

 private:
  std::string name() const override { return "normalise"; }
  bool accepts(const Shape& shape) const override {
    const auto fits = [&](const std::vector<float>& values) {
      return values.size() == 1 || static_cast<std::int64_t>(values.size()) == shape[0];
    };
    return !shape.empty() && fits(mean_) && fits(deviation_);
  }
  void change(const PictureShape& shape, const float* from, float* to, base::Philox&) const override {
    for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
      const auto of = [&](const std::vector<float>& values) {
        return values[values.size() == 1 ? 0 : static_cast<std::size_t>(channel)];
      };
      const float mean = of(mean_), factor = 1 / of(deviation_);
      const std::int64_t begin = channel * shape.pixels();
      for (std::int64_t i = begin; i < begin + shape.pixels(); ++i) to[i] = (from[i] - mean) * factor;
    }
  }

  std::vector<float> mean_, deviation_;
};

}  // namespace

std::unique_ptr<SampleTransform> make_flip(bool vertical) {
  return std::make_unique<Flip>(vertical);
}
std::unique_ptr<SampleTransform> make_crop(std::int64_t padding) {
  return std::make_unique<Crop>(padding);
}
std::unique_ptr<SampleTransform> make_cutout(std::int64_t size) {
  return std::make_unique<Cutout>(size);
}
std::unique_ptr<SampleTransform> make_colour_jitter(double brightness, double contrast, double saturation) {
  return std::make_unique<ColourJitter>(brightness, contrast, saturation);
}
std::unique_ptr<SampleTransform> make_normalise(std::vector<float> mean, std::vector<float> deviation) {
  return std::make_unique<Normalise>(std::move(mean), std::move(deviation));
}

}  // namespace tessera::train
