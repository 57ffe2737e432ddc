// A nameless file that holds the contents of memory for a while. It is gone when the process ends, however it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tessera::runtime {

// $TMPDIR, or else /var/tmp: what lies in /tmp may lie in memory.
std::string default_spill_folder();

class SpillFile {
 public:
  // Throws Error(io) naming the folder.
  explicit SpillFile(std::string folder);
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  // Appends the bytes. Throws Error(io) naming the folder and what was being written.
  void write(const std::byte* data, std::int64_t bytes);
  // The bytes from `offset` on, where write() put them. Throws Error(io).
  void read(std::int64_t offset, std::byte* data, std::int64_t bytes) const;
  std::int64_t bytes() const { return bytes_; }

 private:
  const std::string folder_;
  int file_ = -1;
  std::int64_t bytes_ = 0;
};

}  // namespace tessera::runtime
