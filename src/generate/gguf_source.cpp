#include <fmt/format.h>

#include "base/error.h"
#include "generate/language_source.h"

namespace tessera::generate {
namespace {

class GgufConfig final : public models::ConfigValues {
 public:
  explicit GgufConfig(const io::GgufFile& file)
      : file_(file), architecture_(file.value("general.architecture").text()) {}

  std::string architecture() const override { return architecture_; }
  std::optional<std::int64_t> integer(std::string_view key) const override {
    const io::GgufValue* const value = find(key);
    // Some files state a list with one window for each layer, or lists of sizes that are all the same.
    if (value == nullptr || value->is_array()) return std::nullopt;
    return value->integer();
  }
  std::optional<double> number(std::string_view key) const override {
    const io::GgufValue* const value = find(key);
    return value != nullptr ? std::optional(value->number()) : std::nullopt;
  }
  std::optional<std::string> text(std::string_view key) const override {
    const io::GgufValue* const value = find(key);
    return value != nullptr ? std::optional(std::string(value->text())) : std::nullopt;
  }
  std::vector<std::int64_t> integers(std::string_view key) const override {
    const io::GgufValue* const value = find(key);
    return value != nullptr ? value->integers() : std::vector<std::int64_t>();
  }
  bool turns_neighbours() const override { return true; }

 private:
  const io::GgufValue* find(std::string_view key) const { return file_.find(fmt::format("{}.{}", architecture_, key)); }

  const io::GgufFile file_;
  const std::string architecture_;
};

class GgufWeights final : public models::WeightSource {
 public:
  explicit GgufWeights(const io::GgufFile& file) : file_(file) {}

  std::optional<models::LanguageWeight> find(std::string_view name) const override {
    const io::GgufTensor* const tensor = file_.find_tensor(name);
    if (tensor == nullptr) return std::nullopt;
    std::int64_t rows = 1;
    for (std::size_t i = 1; i < tensor->dimensions.size(); ++i) rows *= tensor->dimensions[i];
    auto* const bytes = const_cast<std::byte*>(tensor->bytes.data());
    return models::LanguageWeight{
        Tensor(DType::u8, {static_cast<std::int64_t>(tensor->bytes.size())}, bytes, tensor->owner), tensor->format,
        rows, tensor->dimensions[0]};
  }

 private:
  const io::GgufFile file_;
};

}  // namespace

std::unique_ptr<const models::ConfigValues> values_of_gguf(const io::GgufFile& file) {
  return std::make_unique<GgufConfig>(file);
}

LanguageSource source_of_gguf(const io::GgufFile& file) {
  return {values_of_gguf(file), std::make_unique<GgufWeights>(file), nullptr};
}

}  // namespace tessera::generate
