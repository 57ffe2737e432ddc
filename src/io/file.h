// Reading of whole files, with a limit. Writing is in io/output_file.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tessera::io {

// Returns whether the path leads to a folder; false also where that cannot be found out.
bool is_folder(const std::filesystem::path& path) noexcept;
// Returns whether there is something of that name, be it a link that leads nowhere: reading it says what is wrong then.
bool is_present(const std::filesystem::path& path) noexcept;

// A regular file that is open for reading. What is known of it was asked of the open file, so nobody can put another
// one in its place between a check and the use.
class InputFile {
 public:
  // Never waits, as reading a pipe would. Throws Error: not_found when there is nothing, io when it cannot be read or
  // is a folder, pipe, socket or device.
  static InputFile open(const std::filesystem::path& path);
  // A file below a folder, by a relative path of plain names. Throws Error as open does, and invalid_model for a path
  // that may leave the folder: an absolute one, one with "..", or one that passes a symbolic link. A file with a second
  // hard link is refused too (io): it may lie elsewhere as well.
  static InputFile open_below(const std::filesystem::path& folder, const std::string& path);

  ~InputFile();
  InputFile(InputFile&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), bytes_(other.bytes_), name_(std::move(other.name_)) {}
  InputFile& operator=(InputFile&&) = delete;

  int descriptor() const { return descriptor_; }
  // For a library that closes it.
  int release() { return std::exchange(descriptor_, -1); }
  std::int64_t bytes() const { return bytes_; }
  const std::string& name() const { return name_; }
  // Reads on where the last call stopped, until `to` is full; throws Error(io).
  void read(std::span<std::byte> to);

 private:
  InputFile(int descriptor, std::string name);

  int descriptor_;
  std::int64_t bytes_ = 0;
  std::string name_;
};

// The whole file. Throws as InputFile::open does, and over_budget when it is longer than max_bytes.
std::vector<std::byte> read_file(const std::filesystem::path& path, std::int64_t max_bytes);

// The user's cache folder of Tessera, which may not exist yet: $XDG_CACHE_HOME/tessera, or ~/.cache/tessera. Nothing
// when neither variable is set.
std::optional<std::filesystem::path> cache_folder();

}  // namespace tessera::io
