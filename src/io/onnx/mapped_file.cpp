#include "io/onnx/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace tessera::io {
namespace {

struct Descriptor {
  int number = -1;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path, Links links) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const int no_follow = links == Links::refused ? O_NOFOLLOW : 0;
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | no_follow)};
  if (file.number < 0) {
    const int code = errno;
    require(code != ENOENT && code != ENOTDIR, ErrorKind::not_found, "file '{}' does not exist", path.string());
    require(code != ELOOP, ErrorKind::io, "'{}' is a symbolic link", path.string());
    fail(ErrorKind::io, "cannot open '{}': {}", path.string(), std::strerror(code));
  }
  struct stat status {};
  require(::fstat(file.number, &status) == 0, ErrorKind::io, "cannot read the status of '{}': {}", path.string(),
          std::strerror(errno));
  require(S_ISREG(status.st_mode), ErrorKind::io, "'{}' is not a regular file", path.string());
  require(links == Links::allowed || status.st_nlink == 1, ErrorKind::io,
          "'{}' has {} hard links, and so may be a file from elsewhere", path.string(), status.st_nlink);
  const auto size = static_cast<std::size_t>(status.st_size);
  void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
    require(data != MAP_FAILED, ErrorKind::io, "cannot map '{}': {}", path.string(), std::strerror(errno));
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(data, size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace tessera::io
