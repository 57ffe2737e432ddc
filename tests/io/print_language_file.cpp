// Prints the contents of a GGUF or safetensors file, for language_files_test.py: print_language_file FILE DATA.
// One JSON object with the metadata and the tensors goes to standard output, and the tensors' contents to DATA: in
// float32 those of GGUF files, as they are those of safetensors files.
#include <cstdio>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>

#include "io/gguf/gguf_file.h"
#include "io/safetensors/safetensors_file.h"

namespace tessera::io {
namespace {

nlohmann::json json_of(const GgufValue& value) {
  nlohmann::json result;
  if (value.is_array()) {
    result = nlohmann::json::array();
    for (const GgufValue& element : value.elements()) result.push_back(json_of(element));
  } else if (value.type() == GgufType::string) {
    result = value.text();
  } else if (value.type() == GgufType::boolean) {
    result = value.flag();
  } else if (value.type() == GgufType::f32 || value.type() == GgufType::f64) {
    result = value.number();
  } else {
    result = value.integer();
  }
  return result;
}

void write(std::ofstream& to, const void* data, std::size_t bytes) {
  to.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
}

nlohmann::json print_gguf(const char* path, std::ofstream& data) {
  const GgufFile file = GgufFile::open(path);
  nlohmann::json result = {{"metadata", nlohmann::json::object()}, {"tensors", nlohmann::json::array()}};
  for (const GgufValue& value : file.metadata())
    result["metadata"][std::string(value.key())] = {{"type", value.description()}, {"value", json_of(value)}};
  for (const GgufTensor& tensor : file.tensors()) {
    result["tensors"].push_back(
        {{"name", tensor.name}, {"dimensions", tensor.dimensions}, {"format", tensor.format_name()}});
    std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
    base::dequantize(tensor.format, tensor.bytes, values);
    write(data, values.data(), values.size() * sizeof(float));
  }
  return result;
}

nlohmann::json print_safetensors(const char* path, std::ofstream& data) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  nlohmann::json result = {{"metadata", file.metadata()}, {"tensors", nlohmann::json::array()}};
  for (const SafetensorsTensor& tensor : file.tensors()) {
    result["tensors"].push_back(
        {{"name", tensor.name}, {"dimensions", tensor.shape}, {"format", std::string(name_of(tensor.dtype))}});
    write(data, tensor.bytes.data(), tensor.bytes.size());
  }
  return result;
}

}  // namespace
}  // namespace tessera::io

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    std::ofstream data(argv[2], std::ios::binary);
    const bool gguf = std::string_view(argv[1]).ends_with(".gguf");
    const nlohmann::json result =
        gguf ? tessera::io::print_gguf(argv[1], data) : tessera::io::print_safetensors(argv[1], data);
    std::printf("%s\n", result.dump().c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
