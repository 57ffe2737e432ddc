// Writes GGUF files for tests, right ones and wrong ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/gguf/gguf_value.h"

namespace tessera::test {

// Writes the parts of a GGUF file one after the other; the names of functions say which.
struct GgufBytes {
  std::string data;

  template <typename T>
  GgufBytes& number(T value) {
    data.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  GgufBytes& text(const std::string& value) {
    number<std::uint64_t>(value.size());
    data += value;
    return *this;
  }
  GgufBytes& header(std::uint64_t tensors, std::uint64_t pairs, std::uint32_t version = 3) {
    data += "GGUF";
    return number(version).number(tensors).number(pairs);
  }
  GgufBytes& key(const std::string& name, io::GgufType type) {
    return text(name).number(static_cast<std::uint32_t>(type));
  }
  GgufBytes& list(io::GgufType type, std::uint64_t count) {
    return number(static_cast<std::uint32_t>(type)).number(count);
  }
  GgufBytes& tensor(const std::string& name, std::vector<std::uint64_t> dimensions, std::uint32_t type,
                    std::uint64_t offset) {
    text(name).number(static_cast<std::uint32_t>(dimensions.size()));
    for (const std::uint64_t dimension : dimensions) number(dimension);
    return number(type).number(offset);
  }
  // Up to the alignment, and then data of so many bytes.
  GgufBytes& contents(std::size_t bytes, std::size_t alignment = 32) {
    data.resize((data.size() + alignment - 1) / alignment * alignment, '\0');
    for (std::size_t i = 0; i < bytes; ++i) data += static_cast<char>(i);
    return *this;
  }
};

}  // namespace tessera::test
