#include "train/data/converted_dataset.h"

#include <algorithm>

#include "base/error.h"
#include "train/data/element_conversion.h"

namespace tessera::train {
namespace {

class ConvertedDataset final : public Dataset {
 public:
  ConvertedDataset(std::shared_ptr<const Dataset> data, const std::map<std::string, FieldForm>& forms)
      : data_(std::move(data)), fields_(data_->fields()), scales_bytes_(fields_.size()) {
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      Field& field = fields_[i];
      const auto form = forms.find(field.name);
      if (form == forms.end()) continue;
      field.shape = form->second.shape;
      scales_bytes_[i] = form->second.scales_bytes;
      if (form->second.dtype == field.dtype) continue;
      require(is_convertible(field.dtype) && is_convertible(form->second.dtype), ErrorKind::invalid_argument,
              "the data's field '{}' is {}, expected {}", field.name, name_of(field.dtype),
              name_of(form->second.dtype));
      field.dtype = form->second.dtype;
    }
  }

  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t size() const override { return data_->size(); }
  std::string describe(std::int64_t index) const override { return data_->describe(index); }
  std::vector<std::pair<std::int64_t, std::string>> unreadable() const override { return data_->unreadable(); }
  std::vector<std::string> class_names() const override { return data_->class_names(); }
  std::int64_t memory_bytes() const override { return data_->memory_bytes(); }

  void read_field(std::int64_t index, std::size_t i, std::byte* to) const override {
    const Field& given = data_->fields()[i];
    if (given.dtype == fields_[i].dtype) return data_->read_field(index, i, to);
    std::vector<std::byte> scratch(static_cast<std::size_t>(given.bytes()));
    data_->read_field(index, i, scratch.data());
    convert(i, scratch.data(), to);
  }

  void read(std::int64_t index, std::span<std::byte* const> to) const override {
    const std::vector<Field>& given = data_->fields();
    std::vector<std::vector<std::byte>> scratch(fields_.size());
    std::vector<std::byte*> buffers(to.begin(), to.end());
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (given[i].dtype == fields_[i].dtype) continue;
      scratch[i].resize(static_cast<std::size_t>(given[i].bytes()));
      buffers[i] = scratch[i].data();
    }
    data_->read(index, buffers);
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (given[i].dtype != fields_[i].dtype) convert(i, buffers[i], to[i]);
    }
  }

 private:
  void convert(std::size_t i, const std::byte* elements, std::byte* to) const {
    const DType from = data_->fields()[i].dtype, target = fields_[i].dtype;
    const std::int64_t fault =
        convert_elements(from, elements, target, to, element_count(fields_[i].shape), scales_bytes_[i]);
    if (fault < 0) return;
    throw DataFault(ErrorKind::invalid_argument,
                    fmt::format("the field '{}' is {} and holds {}, but is needed as {}, which cannot hold that",
                                fields_[i].name, name_of(from), element_text(from, elements, fault), name_of(target)));
  }

  std::shared_ptr<const Dataset> data_;
  std::vector<Field> fields_;
  std::vector<bool> scales_bytes_;
};

}  // namespace

std::shared_ptr<const Dataset> converted(std::shared_ptr<const Dataset> data,
                                         const std::map<std::string, FieldForm>& forms) {
  const bool fits = std::ranges::all_of(data->fields(), [&](const Field& field) {
    const auto form = forms.find(field.name);
    return form == forms.end() || (form->second.dtype == field.dtype && form->second.shape == field.shape);
  });
  if (fits) return data;
  return std::make_shared<ConvertedDataset>(std::move(data), forms);
}

}  // namespace tessera::train
