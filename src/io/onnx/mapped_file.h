// A file mapped read-only into memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace tessera::io {

class MappedFile {
 public:
  enum class Links { allowed, refused };

  // Throws Error(not_found) for a missing file, Error(io) for one that cannot be read or is not a regular file (a
  // directory, FIFO or device). With Links::refused also for a symbolic link and for a file that has a second hard
  // link. The file must not shrink while it is mapped: the system then ends the process on access, as with any mapping.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path, Links links = Links::allowed);

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
