// The one way in which files are written: completely, or not at all.
//
// Until commit() the data have no name in the file system (O_TMPFILE), so that nothing is left of them however the
// process ends. Where the file system cannot do that they lie under a temporary name in the folder of the file; a
// process that handles a deadly signal removes such names by remove_temporaries().
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace tessera::io {

// Throws Error(io) unless a file of this path can be written: its folder exists and is writable, and what bears the
// name, if anything, is a regular, writable file or a symbolic link to one. Creates nothing. Work of minutes should ask
// first.
void check_output(const std::filesystem::path& path);

// A temporary file in a folder, without a name where the file system can do that.
class TemporaryFile {
 public:
  enum class Name { none_if_possible, always };

  // `folder`: empty for the current one. Throws std::system_error.
  TemporaryFile(const std::filesystem::path& folder, Name name);
  ~TemporaryFile();  // closes and removes it
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int descriptor() const { return descriptor_; }
  // Gives the file its name, in the same folder; what had that name before is replaced. Throws std::system_error.
  void move_to(const std::filesystem::path& path);

 private:
  void make_named();
  int link_as(const std::filesystem::path& path) const;  // what errno was, or 0

  std::filesystem::path folder_;
  std::filesystem::path name_;  // empty: it has none
  int slot_ = -1;               // of the name, in the list that remove_temporaries() goes through
  int descriptor_ = -1;
};

// A file that commit() puts in the place of its target. Without commit() the target stays as it was. A symbolic link
// stays and its target is replaced; the mode, and where possible the owner, of a replaced file stay.
class OutputFile {
 public:
  // Throws Error(io) as check_output does.
  explicit OutputFile(const std::filesystem::path& target,
                      TemporaryFile::Name name = TemporaryFile::Name::none_if_possible);

  // Writes at the position and moves it on. Throws Error(io) with the reason that the system gives; a file beyond the
  // process's limit (RLIMIT_FSIZE) too, without the signal that the system would send.
  void write(std::span<const std::byte> bytes);
  std::int64_t position() const { return position_; }
  void seek(std::int64_t position) { position_ = position; }
  // Brings the data to the disk and gives them the name. Throws Error(io).
  void commit();

 private:
  std::string shown_;  // the path as the user gave it
  std::filesystem::path target_;
  TemporaryFile file_;
  std::int64_t position_ = 0;
};

// Writes a whole file. Throws as OutputFile does.
void write_text(const std::filesystem::path& path, std::string_view text);
// Writes like write_text, and makes the file's folder if need be: for the user's cache.
void replace_text(const std::filesystem::path& path, std::string_view text);

// Makes a folder and those that it lies in, where they do not exist. Throws Error(io).
void make_folder(const std::filesystem::path& path);

// Removes all temporary files that have names. Async-signal-safe: for a signal handler that ends the process.
void remove_temporaries() noexcept;

}  // namespace tessera::io
