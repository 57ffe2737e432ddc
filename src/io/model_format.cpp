#include "io/model_format.h"

#include <algorithm>

#include "base/error.h"
#include "io/file.h"
#include "io/gguf/gguf_file.h"
#include "io/onnx/mapped_file.h"
#include "io/onnx/reader.h"
#include "io/package/language_package.h"
#include "io/safetensors/safetensors_file.h"

namespace tessera::io {
namespace {

ReadFile read_package_file(const FileToRead& file) {
  Package package = read_package(file.bytes, file.owner, file.limits, file.key);
  return {std::move(package.graph), std::make_shared<const PackageOrigin>(std::move(package.origin)), {}};
}

ReadFile read_onnx_file(const FileToRead& file) {
  ReadFile result;
  result.graph = read_model_bytes(file.bytes, {.limits = file.limits, .declared_outputs = &result.declared_outputs},
                                  file.owner, file.folder);
  return result;
}

// Serialised messages have no mark of their own.
bool recognises_everything(std::span<const std::byte>) {
  return true;
}

ReadFile refuse_language_model(const FileToRead&) {
  fail(ErrorKind::invalid_argument,
       "this is a language model, which 'tessera generate', 'chat', 'bench', 'info', 'explain' and 'optimize' read, "
       "and this command does not ('check' and 'protect' take its .tsr packages)");
}

constexpr ModelFormat kFormats[] = {
    {"a language model's package", ".tsr", 64, is_language_package, refuse_language_model, true},
    {"a package", ".tsr", 64, is_container, read_package_file},
    {"a GGUF file", ".gguf", 1, GgufFile::recognises, refuse_language_model, true},
    {"a safetensors file", ".safetensors", 1, SafetensorsFile::recognises, refuse_language_model, true},
    {"an ONNX model", ".onnx", 1, recognises_everything, read_onnx_file},
};

}  // namespace

std::span<const ModelFormat> model_formats() {
  return kFormats;
}

const ModelFormat& format_of(std::span<const std::byte> bytes) {
  return *std::ranges::find_if(kFormats, [&](const ModelFormat& format) { return format.recognises(bytes); });
}

bool is_language_model(const std::filesystem::path& path) {
  if (is_folder(path)) return true;
  if (path.filename().string().ends_with(".safetensors.index.json")) return true;
  return format_of(MappedFile::map(InputFile::open(path))->bytes()).language_model;
}

bool is_gguf_file(const std::filesystem::path& path) {
  return !is_folder(path) && GgufFile::recognises(MappedFile::map(InputFile::open(path))->bytes());
}

bool is_language_package_file(const std::filesystem::path& path) {
  return !is_folder(path) && is_language_package(MappedFile::map(InputFile::open(path))->bytes());
}

std::filesystem::path language_model_at(const std::filesystem::path& path) {
  std::error_code unreadable;
  std::vector<std::filesystem::path> found;
  for (std::filesystem::directory_iterator entry(path, unreadable), end; !unreadable && entry != end;
       entry.increment(unreadable)) {
    if (entry->path().extension() == ".safetensors") return path;
    if (entry->path().extension() == ".gguf") found.push_back(entry->path());
  }
  return found.size() == 1 ? found[0] : path;
}

}  // namespace tessera::io
