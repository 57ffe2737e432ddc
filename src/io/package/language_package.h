// Language models in packages (.tsr, docs/package.md): what their own files say in texts, their weights in blocks, and
// weights packed for kernels. There is no graph: it depends on the options of a session, and is built when a model is
// loaded.
//
// A file is hostile until it is checked, as other packages are (io/package.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/numbers/block_format.h"
#include "io/package.h"

namespace tessera::io {

// The files that a package was made of, whose texts it keeps.
enum class LanguageForm : std::uint32_t {
  gguf = 1,    // kGgufMetadata: a GGUF file without tensors
  folder = 2,  // the files of a folder beside its safetensors files, by their names: "config.json"
};
inline constexpr std::string_view kGgufMetadata = "metadata.gguf";

// A matrix of `rows` rows of `columns` elements, under the name that GGUF files give it.
struct LanguageTensor {
  std::string name;
  base::BlockFormat format = base::BlockFormat::f32;
  std::int64_t rows = 0, columns = 0;
  Tensor bytes;  // of u8
};

struct LanguageContent {
  LanguageForm form = LanguageForm::gguf;
  std::map<std::string, std::string_view, std::less<>> texts;
  std::vector<LanguageTensor> tensors;

  // Throws Error(invalid_model) where there is none.
  std::string_view text(std::string_view name) const;
};

// An open package. Texts and tensors are views of it.
struct LanguagePackage {
  LanguageContent content;
  std::shared_ptr<const PackageOrigin> origin;
  std::int64_t file_bytes = 0;
};

// Whether bytes are those of a package with a language model. Throws nothing.
bool is_language_package(std::span<const std::byte> bytes) noexcept;

// `owner` keeps the bytes, which start at a multiple of 64. Weights are not read: PackageOrigin::stream checks them.
// `key` as in read_package. Throws Error: invalid_model, unsupported, over_budget; invalid_argument without a key.
LanguagePackage read_language_package(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                      const ModelKey* key = nullptr);
LanguagePackage read_language_package(const Container& container);
// Throws also as InputFile::open does.
LanguagePackage open_language_package(const std::filesystem::path& path, const ModelKey* key = nullptr);

// Writes to a temporary name and renames. Packings of other tensors than those of the content are left out. With an
// encoder the file is protected. Throws Error(io).
WrittenPackage write_language_package(const std::filesystem::path& path, const LanguageContent& content,
                                      const PackageInfo& info, const std::vector<Packing>& packings,
                                      const SectionEncoder* encoder = nullptr);

}  // namespace tessera::io
