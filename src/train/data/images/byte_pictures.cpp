#include "train/data/images/byte_pictures.h"

#include <cstring>

#include "base/error.h"

namespace tessera::train {
namespace {

template <typename T>
std::vector<std::int64_t> widened(const Tensor& tensor) {
  const auto values = tensor.values<T>();
  return {values.begin(), values.end()};
}

std::vector<std::int64_t> integers(const Tensor& labels, const std::string& source) {
  switch (labels.dtype()) {
    case DType::u8:
      return widened<std::uint8_t>(labels);
    case DType::i8:
      return widened<std::int8_t>(labels);
    case DType::i16:
      return widened<std::int16_t>(labels);
    case DType::i32:
      return widened<std::int32_t>(labels);
    case DType::i64:
      return widened<std::int64_t>(labels);
    default:
      fail(ErrorKind::invalid_argument, "'{}': labels are {}, expected integers", source, name_of(labels.dtype()));
  }
}

class BytePictures final : public Dataset {
 public:
  BytePictures(Tensor pictures, const Tensor& labels, std::string source, std::vector<std::string> class_names)
      : pictures_(std::move(pictures)), source_(std::move(source)), class_names_(std::move(class_names)) {
    require(labels.rank() == 1, ErrorKind::invalid_argument, "'{}': labels have shape {}, expected one dimension",
            source_, to_string(labels.shape()));
    labels_ = integers(labels, source_);
    require(pictures_.shape()[0] == labels.shape()[0], ErrorKind::invalid_argument, "'{}': {} pictures, but {} labels",
            source_, pictures_.shape()[0], labels.shape()[0]);
    fields_ = {{"x", DType::f32, Shape(pictures_.shape().begin() + 1, pictures_.shape().end())}, {"y", DType::i64, {}}};
    elements_ = element_count(fields_[0].shape);
  }

  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  std::vector<std::string> class_names() const override { return class_names_; }
  std::string describe(std::int64_t index) const override { return fmt::format("{} picture {}", source_, index); }
  std::int64_t memory_bytes() const override {
    return pictures_.bytes() + static_cast<std::int64_t>(labels_.size() * sizeof(std::int64_t));
  }

  void read(std::int64_t index, std::span<std::byte* const> to) const override {
    const std::uint8_t* from = pictures_.data<std::uint8_t>() + index * elements_;
    auto* x = reinterpret_cast<float*>(to[0]);
    for (std::int64_t i = 0; i < elements_; ++i) x[i] = static_cast<float>(from[i]) / 255.0f;
    std::memcpy(to[1], &labels_[static_cast<std::size_t>(index)], sizeof(std::int64_t));
  }

 private:
  Tensor pictures_;
  std::vector<std::int64_t> labels_;
  std::string source_;
  std::vector<std::string> class_names_;
  std::vector<Field> fields_;
  std::int64_t elements_ = 0;
};

}  // namespace

std::unique_ptr<Dataset> make_byte_pictures(Tensor pictures, const Tensor& labels, std::string source,
                                            std::vector<std::string> class_names) {
  return std::make_unique<BytePictures>(std::move(pictures), labels, std::move(source), std::move(class_names));
}

}  // namespace tessera::train
