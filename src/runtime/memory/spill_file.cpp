#include "runtime/memory/spill_file.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/numbers/units.h"

namespace tessera::runtime {
namespace {

int open_nameless(const std::string& folder) {
  const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return file;
  // A file system without nameless files.
  std::string path = folder + "/tessera-spill-XXXXXX";
  const int named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(path.c_str());
  return named;
}

// Calls the system itself: the sanitizer would look at the bytes, and of an arena most are closed between two steps.
std::int64_t transfer(bool writes, int file, std::byte* data, std::int64_t bytes, std::int64_t offset) {
  return ::syscall(writes ? SYS_pwrite64 : SYS_pread64, file, data, bytes, offset);
}

}  // namespace

std::string default_spill_folder() {
  const char* const folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != 0 ? folder : "/var/tmp";
}

SpillFile::SpillFile(std::string folder) : folder_(std::move(folder)), file_(open_nameless(folder_)) {
  require(file_ >= 0, ErrorKind::io, "cannot make a file for a run's memory in '{}': {}; choose another folder for it",
          folder_, std::strerror(errno));
}

SpillFile::~SpillFile() {
  ::close(file_);
}

void SpillFile::write(const std::byte* data, std::int64_t bytes) {
  for (std::int64_t done = 0; done < bytes;) {
    const std::int64_t count = transfer(true, file_, const_cast<std::byte*>(data) + done, bytes - done, bytes_);
    if (count < 0 && errno == EINTR) continue;
    require(count > 0, ErrorKind::io,
            "cannot keep {} of a run's memory in '{}', of which other jobs are guaranteed the use: {}; make room there "
            "or choose another folder for it",
            base::format_bytes(bytes), folder_, std::strerror(count < 0 ? errno : ENOSPC));
    done += count;
    bytes_ += count;
  }
}

void SpillFile::read(std::int64_t offset, std::byte* data, std::int64_t bytes) const {
  for (std::int64_t done = 0; done < bytes;) {
    const std::int64_t count = transfer(false, file_, data + done, bytes - done, offset + done);
    if (count < 0 && errno == EINTR) continue;
    require(count > 0, ErrorKind::io, "cannot read {} of a run's memory back from '{}': {}", base::format_bytes(bytes),
            folder_, count < 0 ? std::strerror(errno) : "the file is shorter than what was written to it");
    done += count;
  }
}

}  // namespace tessera::runtime
