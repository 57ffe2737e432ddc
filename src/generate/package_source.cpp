// Language models from packages.
#include <map>

#include "base/error.h"
#include "generate/language_source.h"

namespace tessera::generate {
namespace {

class PackageWeights final : public models::WeightSource {
 public:
  explicit PackageWeights(const io::LanguagePackage& package) : package_(package) {
    for (const io::LanguageTensor& tensor : package_.content.tensors) by_name_.emplace(tensor.name, &tensor);
  }

  std::optional<models::LanguageWeight> find(std::string_view name) const override {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return std::nullopt;
    const io::LanguageTensor& tensor = *found->second;
    // Vectors are read while the graph is built, and matrices by kernels, which ask for them.
    if (tensor.rows == 1) package_.origin->stream->need(tensor.bytes.raw(), tensor.bytes.bytes());
    return models::LanguageWeight{tensor.bytes, tensor.format, tensor.rows, tensor.columns};
  }

 private:
  const io::LanguagePackage package_;
  std::map<std::string_view, const io::LanguageTensor*> by_name_;
};

}  // namespace

io::GgufFile metadata_of_package(const io::LanguagePackage& package) {
  const std::string_view text = package.content.text(io::kGgufMetadata);
  return io::GgufFile::from_bytes(std::as_bytes(std::span(text)), package.origin->packings->owner());
}

LanguageSource source_of_package(const io::LanguagePackage& package) {
  const bool is_gguf = package.content.form == io::LanguageForm::gguf;
  return {is_gguf ? values_of_gguf(metadata_of_package(package)) : values_of_folder(FolderTexts(package)),
          std::make_unique<PackageWeights>(package), package.origin};
}

}  // namespace tessera::generate
