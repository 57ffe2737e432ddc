#include "train/data/callback_dataset.h"

#include <cstring>
#include <exception>
#include <new>

#include "base/error.h"

namespace tessera::train {
namespace {

class CallbackDataset final : public Dataset {
 public:
  CallbackDataset(std::vector<Field> fields, std::int64_t size, SampleCallback callback, std::string source)
      : fields_(std::move(fields)), size_(size), callback_(std::move(callback)), source_(std::move(source)) {
    require(callback_ != nullptr, ErrorKind::invalid_argument, "'{}': there is no function to call", source_);
    require(!fields_.empty(), ErrorKind::invalid_argument, "'{}': a sample needs at least one field", source_);
    require(size_ >= 0, ErrorKind::invalid_argument, "'{}' cannot have {} samples", source_, size_);
    for (const Field& field : fields_) {
      require(field.dtype != DType::undefined && field.dtype != DType::string, ErrorKind::invalid_argument,
              "'{}': field '{}' is {}, expected numbers", source_, field.name, name_of(field.dtype));
    }
  }

  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t size() const override { return size_; }
  std::string describe(std::int64_t index) const override { return fmt::format("{} sample {}", source_, index); }

  void read(std::int64_t index, std::span<std::byte* const> to) const override {
    const std::map<std::string, Tensor> sample = called(index);
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      const Field& field = fields_[i];
      const auto found = sample.find(field.name);
      require(found != sample.end(), ErrorKind::invalid_argument, "the function gave no field '{}'", field.name);
      const Tensor& tensor = found->second;
      require(tensor.dtype() == field.dtype && tensor.shape() == field.shape, ErrorKind::invalid_argument,
              "the function gave field '{}' as {}{}, expected {}{}", field.name, name_of(tensor.dtype()),
              to_string(tensor.shape()), name_of(field.dtype), to_string(field.shape));
      if (field.bytes() > 0) std::memcpy(to[i], tensor.raw(), static_cast<std::size_t>(field.bytes()));
    }
  }

 private:
  std::map<std::string, Tensor> called(std::int64_t index) const {
    try {
      return callback_(index);
    } catch (const Error&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      fail(ErrorKind::invalid_argument, "{}", error.what());
    }
  }

  std::vector<Field> fields_;
  std::int64_t size_;
  SampleCallback callback_;
  std::string source_;
};

}  // namespace

std::unique_ptr<Dataset> make_callback_dataset(std::vector<Field> fields, std::int64_t size, SampleCallback callback,
                                               std::string source) {
  return std::make_unique<CallbackDataset>(std::move(fields), size, std::move(callback), std::move(source));
}

}  // namespace tessera::train
