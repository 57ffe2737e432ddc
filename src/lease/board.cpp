#include "lease/board.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <memory>
#include <new>

#include "base/error.h"

namespace tessera::lease {
namespace {

Board* map(int descriptor) {
  void* const address = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  require(address != MAP_FAILED, ErrorKind::io, "cannot map the memory that a sharing daemon shares: {}",
          std::strerror(errno));
  return static_cast<Board*>(address);
}

}  // namespace

void Board::clear_active(int slot, Priority priority) {
  const std::uint64_t before = active[static_cast<std::size_t>(priority)].fetch_and(~bit(slot));
  if ((before & bit(slot)) == 0) return;
  for (std::uint64_t left = attached.load(std::memory_order_acquire); left != 0; left &= left - 1) {
    BoardSlot& other = slots[static_cast<std::size_t>(__builtin_ctzll(left))];
    if (other.priority.load(std::memory_order_relaxed) < static_cast<std::uint32_t>(priority)) wake(other);
  }
}

void wake(BoardSlot& slot) {
  if (slot.sleepers.load() == 0) return;
  slot.wake.fetch_add(1);
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&slot.wake), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void sleep_on(std::atomic<std::uint32_t>& futex, std::uint32_t seen, std::int64_t most_ns) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const timespec timeout{most_ns / kSecond, most_ns % kSecond};
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&futex), FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

SharedBoard::SharedBoard() : descriptor_(memfd_create("tessera-share", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  require(descriptor_ >= 0, ErrorKind::io, "cannot make memory to share with other processes: {}",
          std::strerror(errno));
  try {
    require(ftruncate(descriptor_, sizeof(Board)) == 0, ErrorKind::io,
            "cannot make {} bytes of memory to share with other processes: {}", sizeof(Board), std::strerror(errno));
    fcntl(descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    board_ = new (map(descriptor_)) Board;
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

SharedBoard::SharedBoard(int descriptor) : descriptor_(descriptor) {
  try {
    struct stat status{};
    const bool fits = fstat(descriptor_, &status) == 0 && status.st_size == static_cast<off_t>(sizeof(Board));
    // If the file could shrink, access to the board could end this process by SIGBUS.
    const bool sealed = (fcntl(descriptor_, F_GET_SEALS) & F_SEAL_SHRINK) != 0;
    require(fits && sealed, ErrorKind::invalid_argument,
            "the sharing daemon passed memory of another layout; use one version of Tessera for all");
    board_ = map(descriptor_);
    require(board_->version == kBoardVersion, ErrorKind::invalid_argument,
            "the sharing daemon has version {} of the shared memory, this program {}", board_->version, kBoardVersion);
  } catch (...) {
    if (board_ != nullptr) munmap(board_, sizeof(Board));
    close(descriptor_);
    throw;
  }
}

SharedBoard::~SharedBoard() {
  munmap(board_, sizeof(Board));
  close(descriptor_);
}

}  // namespace tessera::lease
