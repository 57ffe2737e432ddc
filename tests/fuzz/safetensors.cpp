// A safetensors file, every byte of whose tensors is read.
#include <numeric>

#include "io/safetensors/safetensors_file.h"
#include "target.h"
#include "tessera/error.h"

namespace tessera::fuzz {

void safetensors(std::span<const std::byte> input) {
  try {
    const io::SafetensorsFile file = io::SafetensorsFile::from_bytes(input, nullptr);
    unsigned sum = 0;
    std::size_t bytes = 0;
    for (const io::SafetensorsTensor& tensor : file.tensors()) {
      if (file.find(tensor.name) != &tensor) finding("a tensor is not found by its name");
      for (const std::byte byte : tensor.bytes) sum += static_cast<unsigned>(byte);
      bytes += tensor.bytes.size();
    }
    if (bytes > input.size() || sum > 255 * bytes) finding("the tensors have more bytes than the file");
  } catch (const Error&) {
  }
}

}  // namespace tessera::fuzz
