#include "io/model_format.h"

#include <algorithm>

#include "io/onnx/reader.h"

namespace tessera::io {
namespace {

ReadFile read_package_file(const FileToRead& file) {
  Package package = read_package(file.bytes, file.owner, file.limits);
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

constexpr ModelFormat kFormats[] = {
    {"a package", ".tsr", 64, is_container, read_package_file},
    {"an ONNX model", ".onnx", 1, recognises_everything, read_onnx_file},
};

}  // namespace

std::span<const ModelFormat> model_formats() {
  return kFormats;
}

const ModelFormat& format_of(std::span<const std::byte> bytes) {
  return *std::ranges::find_if(kFormats, [&](const ModelFormat& format) { return format.recognises(bytes); });
}

}  // namespace tessera::io
