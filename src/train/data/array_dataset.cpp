#include "train/data/array_dataset.h"

#include <cstring>

#include "base/error.h"
#include "io/npz.h"

namespace tessera::train {
namespace {

class ArrayDataset final : public Dataset {
 public:
  ArrayDataset(std::map<std::string, Tensor> arrays, std::string source, std::vector<std::string> class_names)
      : source_(std::move(source)), class_names_(std::move(class_names)) {
    require(!arrays.empty(), ErrorKind::invalid_argument, "'{}' holds no arrays", source_);
    for (auto& [name, array] : arrays) {
      require(array.rank() > 0, ErrorKind::invalid_argument,
              "'{}': array '{}' is a scalar; dimension 0 must count the samples", source_, name);
      require(array.dtype() != DType::string, ErrorKind::unsupported, "'{}': array '{}' holds strings", source_, name);
      const std::int64_t samples = array.shape()[0];
      const std::string& first = fields_.empty() ? name : fields_.front().name;
      require(fields_.empty() || samples == size_, ErrorKind::invalid_argument,
              "'{}': array '{}' has {} samples, but '{}' has {}", source_, name, samples, first, size_);
      size_ = samples;
      fields_.push_back({name, array.dtype(), Shape(array.shape().begin() + 1, array.shape().end())});
      arrays_.push_back(std::move(array));
    }
  }

  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t size() const override { return size_; }
  std::vector<std::string> class_names() const override { return class_names_; }

  void read(std::int64_t index, std::span<std::byte* const> to) const override {
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      const std::int64_t bytes = fields_[i].bytes();
      const auto* from = static_cast<const std::byte*>(arrays_[i].raw()) + index * bytes;
      if (bytes > 0) std::memcpy(to[i], from, static_cast<std::size_t>(bytes));
    }
  }

  void read_field(std::int64_t index, std::size_t field, std::byte* to) const override {
    const std::int64_t bytes = fields_[field].bytes();
    const auto* from = static_cast<const std::byte*>(arrays_[field].raw()) + index * bytes;
    if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }

  std::string describe(std::int64_t index) const override { return fmt::format("{} sample {}", source_, index); }

  std::int64_t memory_bytes() const override {
    std::int64_t bytes = 0;
    for (const Tensor& array : arrays_) bytes += array.bytes();
    return bytes;
  }

 private:
  std::string source_;
  std::vector<std::string> class_names_;
  std::vector<Field> fields_;
  std::vector<Tensor> arrays_;
  std::int64_t size_ = 0;
};

}  // namespace

std::unique_ptr<Dataset> make_array_dataset(std::map<std::string, Tensor> arrays, std::string source,
                                            std::vector<std::string> class_names) {
  return std::make_unique<ArrayDataset>(std::move(arrays), std::move(source), std::move(class_names));
}

std::unique_ptr<Dataset> open_npz_dataset(const std::filesystem::path& path) {
  return make_array_dataset(io::read_npz(path), path.string());
}

}  // namespace tessera::train
