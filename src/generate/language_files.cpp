#include "base/error.h"
#include "generate/language_source.h"
#include "io/file.h"
#include "io/model_format.h"

namespace tessera::generate {

LanguageFiles open_language_files(const std::filesystem::path& given) {
  const std::filesystem::path path = io::language_model_at(given);
  if (io::is_gguf_file(path)) return {io::GgufFile::open(path), {}, {}};
  if (io::is_language_package_file(path)) return {{}, io::open_language_package(path), {}};
  require(io::is_language_model(path), ErrorKind::invalid_argument,
          "'{}' is no language model; expected a .gguf file, a folder with config.json, tokenizer.json and "
          ".safetensors files, or a .tsr package of either",
          path.string());
  if (io::is_folder(path)) return {{}, {}, path};
  return {{}, {}, path.has_parent_path() ? path.parent_path() : std::filesystem::path(".")};
}

LanguageSource source_of(const LanguageFiles& files) {
  if (files.package) return source_of_package(*files.package);
  return files.gguf ? source_of_gguf(*files.gguf) : source_of_folder(files.folder);
}

}  // namespace tessera::generate
