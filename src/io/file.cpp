#include "io/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "base/error.h"

namespace tessera::io {
namespace {

std::string reason() {
  return std::generic_category().message(errno);
}

}  // namespace

std::int64_t file_bytes(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  require(status.type() != std::filesystem::file_type::not_found, ErrorKind::not_found, "no file '{}'", path.string());
  require(!error, ErrorKind::io, "cannot look at '{}': {}", path.string(), error.message());
  require(std::filesystem::is_regular_file(status), ErrorKind::invalid_argument, "'{}' is not a regular file",
          path.string());
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  require(!error, ErrorKind::io, "cannot look at '{}': {}", path.string(), error.message());
  return static_cast<std::int64_t>(size);
}

std::vector<std::byte> read_file(const std::filesystem::path& path, std::int64_t max_bytes) {
  const std::int64_t size = file_bytes(path);
  require(size <= max_bytes, ErrorKind::over_budget, "'{}' has {} bytes, more than the limit of {}", path.string(),
          size, max_bytes);
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(bytes.data()), size);
  require(file.good() && file.gcount() == size, ErrorKind::io, "cannot read '{}'", path.string());
  return bytes;
}

ReplacedFile::ReplacedFile(const std::filesystem::path& target) : target_(target) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(target, error);
  if (std::filesystem::exists(status)) {
    require(std::filesystem::is_regular_file(status), ErrorKind::invalid_argument,
            "cannot write '{}': it is not a regular file", target.string());
    target_ = std::filesystem::canonical(target, error);
    require(!error, ErrorKind::io, "cannot write '{}': {}", target.string(), error.message());
  }
  static std::atomic<std::uint64_t> count{0};
  temporary_ = target_;
  temporary_ += fmt::format(".{}.{}.tmp", getpid(), count++);
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  require(descriptor_ >= 0, ErrorKind::io, "cannot write '{}': {}", target.string(), reason());
}

ReplacedFile::~ReplacedFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void ReplacedFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    require(written >= 0, ErrorKind::io, "cannot write '{}': {}", target_.string(), reason());
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void ReplacedFile::commit() {
  const int descriptor = std::exchange(descriptor_, -1);
  require(close(descriptor) == 0, ErrorKind::io, "cannot write '{}': {}", target_.string(), reason());
  std::error_code error;
  std::filesystem::rename(temporary_, target_, error);
  require(!error, ErrorKind::io, "cannot write '{}': {}", target_.string(), error.message());
  temporary_.clear();
}

}  // namespace tessera::io
