// Whole-file reading with a limit, and writing that either replaces a file completely or leaves it as it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace tessera::io {

// Bytes of a regular file. Throws Error: not_found when there is none, invalid_argument when it is a folder, pipe or
// device (reading those may never end), io when it cannot be read.
std::int64_t file_bytes(const std::filesystem::path& path);

// The whole file. Throws as file_bytes does, and over_budget when it is longer than max_bytes.
std::vector<std::byte> read_file(const std::filesystem::path& path, std::int64_t max_bytes);

// A new file under a temporary name beside `target`. commit() renames it over the target (a symbolic link is followed);
// without it the destructor removes it, so that a failed write loses nothing.
class ReplacedFile {
 public:
  // Throws Error: invalid_argument when the target exists and is not a regular file, io when the folder is not
  // writable.
  explicit ReplacedFile(const std::filesystem::path& target);
  ~ReplacedFile();
  ReplacedFile(const ReplacedFile&) = delete;
  ReplacedFile& operator=(const ReplacedFile&) = delete;

  const std::filesystem::path& temporary() const { return temporary_; }
  // Appends bytes; throws Error(io).
  void write(std::span<const std::byte> bytes);
  // Flushes, closes and renames; throws Error(io).
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

}  // namespace tessera::io
