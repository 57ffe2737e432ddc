// A GGUF file: every metadata value is read, and every tensor decoded.
#include "io/gguf/gguf_file.h"
#include "target.h"
#include "tessera/error.h"

namespace tessera::fuzz {
namespace {

using Reading = void (*)(const io::GgufValue& value);
constexpr Reading kReadings[] = {
    [](const io::GgufValue& value) { value.texts(); },    [](const io::GgufValue& value) { value.integers(); },
    [](const io::GgufValue& value) { value.numbers(); },  [](const io::GgufValue& value) { value.flags(); },
    [](const io::GgufValue& value) { value.elements(); },
};

void read_all(const io::GgufFile& file) {
  for (const io::GgufValue& value : file.metadata()) {
    if (file.find(value.key()) != &value) finding("a metadata value is not found by its key");
    for (const Reading read : kReadings) {
      try {
        read(value);
      } catch (const Error&) {  // it is of another type
      }
    }
  }
  for (const io::GgufTensor& tensor : file.tensors()) {
    if (file.find_tensor(tensor.name) != &tensor) finding("a tensor is not found by its name");
    std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
    base::dequantize(tensor.format, tensor.bytes, values);
  }
}

}  // namespace

void gguf(std::span<const std::byte> input) {
  try {
    read_all(io::GgufFile::from_bytes(input, nullptr));
  } catch (const Error&) {
  }
}

}  // namespace tessera::fuzz
