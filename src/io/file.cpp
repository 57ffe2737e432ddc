#include "io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <system_error>

#include "base/error.h"

namespace tessera::io {
namespace {

// O_NONBLOCK: opening a pipe must not wait for a writer.
constexpr int kReading = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

struct Descriptor {
  int number = -1;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

std::string reason() {
  return std::generic_category().message(errno);
}

// Throws the reason in errno for which the system did not open a file.
[[noreturn]] void refuse(const std::string& path) {
  require(errno != ENOENT && errno != ENOTDIR, ErrorKind::not_found, "file '{}' does not exist", path);
  require(errno != ELOOP, ErrorKind::io, "'{}' is a symbolic link that is not followed", path);
  require(errno != ENXIO, ErrorKind::io, "'{}' is not a regular file", path);
  fail(ErrorKind::io, "cannot open '{}': {}", path, reason());
}

void refuse_link(int folder, const std::string& part, const std::string& path) {
  struct stat status{};
  const bool is_link = ::fstatat(folder, part.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode);
  require(!is_link, ErrorKind::invalid_model, "'{}' passes the symbolic link '{}', which may lead out of the folder",
          path, part);
}

// The names in a relative path; "." and doubled slashes count for nothing.
std::vector<std::string> parts_below(const std::string& path) {
  require(!path.empty() && path.size() < PATH_MAX && path.find('\0') == std::string::npos && path.front() != '/',
          ErrorKind::invalid_model, "'{}' is not a relative path", path);
  std::vector<std::string> parts;
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t end = std::min(path.find('/', start), path.size());
    const std::string part = path.substr(start, end - start);
    require(part != "..", ErrorKind::invalid_model, "'{}' leads out of the folder", path);
    if (!part.empty() && part != ".") parts.push_back(part);
    start = end + 1;
  }
  require(!parts.empty() && path.back() != '/', ErrorKind::invalid_model, "'{}' names no file", path);
  return parts;
}

}  // namespace

InputFile InputFile::open(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), kReading);
  if (descriptor < 0) refuse(path.string());
  return {descriptor, path.string()};
}

InputFile InputFile::open_below(const std::filesystem::path& folder, const std::string& path) {
  const std::vector<std::string> parts = parts_below(path);
  // A folder on the way is opened only to be passed, by its own name in the one before it: nobody can swap it for a
  // link.
  Descriptor place{::open(folder.empty() ? "." : folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
  if (place.number < 0) refuse(folder.string());
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    refuse_link(place.number, parts[i], path);
    Descriptor next{::openat(place.number, parts[i].c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
    if (next.number < 0) refuse(path);
    std::swap(place.number, next.number);
  }
  refuse_link(place.number, parts.back(), path);
  const int descriptor = ::openat(place.number, parts.back().c_str(), kReading | O_NOFOLLOW);
  if (descriptor < 0) refuse(path);
  InputFile file(descriptor, path);
  struct stat status{};
  require(::fstat(descriptor, &status) == 0 && status.st_nlink == 1, ErrorKind::io,
          "'{}' has {} hard links, and so may be a file from elsewhere", path, status.st_nlink);
  return file;
}

InputFile::InputFile(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {
  struct stat status{};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    ::close(std::exchange(descriptor_, -1));
    require(known, ErrorKind::io, "cannot look at '{}': {}", name_, reason());
    fail(ErrorKind::io, "'{}' is not a regular file", name_);
  }
  bytes_ = status.st_size;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void InputFile::read(std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = ::read(descriptor_, to.data(), to.size());
    if (got < 0 && errno == EINTR) continue;
    require(got >= 0, ErrorKind::io, "cannot read '{}': {}", name_, reason());
    require(got > 0, ErrorKind::io, "cannot read '{}': it ends {} bytes early", name_, to.size());
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

std::vector<std::byte> read_file(const std::filesystem::path& path, std::int64_t max_bytes) {
  InputFile file = InputFile::open(path);
  require(file.bytes() <= max_bytes, ErrorKind::over_budget, "'{}' has {} bytes, more than the limit of {}",
          path.string(), file.bytes(), max_bytes);
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.bytes()));
  file.read(bytes);
  return bytes;
}

std::optional<std::filesystem::path> cache_folder() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (cache != nullptr && *cache == '/') return std::filesystem::path(cache) / "tessera";
  if (home == nullptr || *home == '\0') return std::nullopt;
  return std::filesystem::path(home) / ".cache" / "tessera";
}

bool is_folder(const std::filesystem::path& path) noexcept {
  std::error_code unknown;
  return std::filesystem::is_directory(path, unknown);
}

bool is_present(const std::filesystem::path& path) noexcept {
  std::error_code unknown;
  return std::filesystem::symlink_status(path, unknown).type() != std::filesystem::file_type::not_found;
}

}  // namespace tessera::io
