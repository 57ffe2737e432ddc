// A file mapped read-only into memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "io/file.h"

namespace tessera::io {

class MappedFile {
 public:
  // Throws Error(io). The file must not shrink while it is mapped: the system then ends the process on access, as with
  // any mapping.
  static std::shared_ptr<const MappedFile> map(const InputFile& file);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  MappedFile(void* data, std::size_t size) : data_(data), size_(size) {}
  void* data_;
  std::size_t size_;
};

}  // namespace tessera::io
