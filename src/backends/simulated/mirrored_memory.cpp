#include "backends/simulated/mirrored_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/numbers/units.h"

namespace tessera::backends::simulated {
namespace {

std::byte* map_pages(int file, std::int64_t bytes, int access) {
  void* mapped = ::mmap(nullptr, static_cast<std::size_t>(bytes), access, MAP_SHARED | MAP_NORESERVE, file, 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<std::byte*>(mapped);
}

}  // namespace

MirroredMemory::MirroredMemory(std::int64_t bytes) : bytes_(bytes) {
  // /proc/self/maps shows the name of the file, where debuggers look up a bad address.
  file_ = ::memfd_create("memory of a simulated device", MFD_CLOEXEC);
  if (file_ >= 0 && ::ftruncate(file_, bytes) == 0) {
    device_ = map_pages(file_, bytes, PROT_NONE);
    queue_ = map_pages(file_, bytes, PROT_READ | PROT_WRITE);
  }
  if (device_ != nullptr && queue_ != nullptr) return;
  const int error = errno;
  if (device_ != nullptr) ::munmap(device_, static_cast<std::size_t>(bytes));
  if (file_ >= 0) ::close(file_);
  fail(ErrorKind::over_budget, "the system cannot map {} for the memory of a simulated device: {}",
       base::format_bytes(bytes), std::strerror(error));
}

MirroredMemory::~MirroredMemory() {
  ::munmap(device_, static_cast<std::size_t>(bytes_));
  ::munmap(queue_, static_cast<std::size_t>(bytes_));
  ::close(file_);
}

void MirroredMemory::discard(std::int64_t offset, std::int64_t bytes) {
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  const std::int64_t begin = (offset + page - 1) / page * page, end = (offset + bytes) / page * page;
  if (begin < end) ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, end - begin);
}

}  // namespace tessera::backends::simulated
