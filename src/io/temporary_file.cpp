// TemporaryFile, and the list of those that have names.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <system_error>
#include <utility>

#include "io/output_file.h"

namespace tessera::io {
namespace {

// A name that a signal handler may have to remove. It is read only while `live`.
struct NameSlot {
  enum State : int { empty, changing, live };
  std::atomic<int> state{empty};
  std::array<char, PATH_MAX> name{};
};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler reads it");

// Few files are written at a time; the names beyond these stay behind when a signal ends the process.
std::array<NameSlot, 8> name_slots;

int remember_name(const std::string& name) {
  if (name.size() >= PATH_MAX) return -1;
  for (std::size_t i = 0; i < name_slots.size(); ++i) {
    int free = NameSlot::empty;
    if (!name_slots[i].state.compare_exchange_strong(free, NameSlot::changing)) continue;
    std::memcpy(name_slots[i].name.data(), name.c_str(), name.size() + 1);
    name_slots[i].state.store(NameSlot::live);
    return static_cast<int>(i);
  }
  return -1;
}

void forget_name(int slot) {
  if (slot >= 0) name_slots[static_cast<std::size_t>(slot)].state.store(NameSlot::empty);
}

// Short, so that it fits where the target's own name does.
std::filesystem::path new_name(const std::filesystem::path& folder) {
  static std::atomic<std::uint64_t> count{0};
  return folder / fmt::format(".tessera-{}-{}.tmp", ::getpid(), count++);
}

[[noreturn]] void throw_errno(int code) {
  throw std::system_error(code, std::generic_category());
}

}  // namespace

TemporaryFile::TemporaryFile(const std::filesystem::path& folder, Name name) : folder_(folder) {
  // A file without a name gets one through /proc, which may be missing.
  if (name == Name::none_if_possible && ::access("/proc/self/fd", X_OK) == 0) {
    descriptor_ = ::open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
  }
  if (descriptor_ < 0) make_named();
}

void TemporaryFile::make_named() {
  do {
    name_ = new_name(folder_);
    slot_ = remember_name(name_.string());
    descriptor_ = ::open(name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ >= 0) return;
    forget_name(std::exchange(slot_, -1));
  } while (errno == EEXIST);  // of a process that had this number before
  name_.clear();
  throw_errno(errno);
}

TemporaryFile::~TemporaryFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!name_.empty()) ::unlink(name_.c_str());
  forget_name(slot_);
}

int TemporaryFile::link_as(const std::filesystem::path& path) const {
  const std::string data = fmt::format("/proc/self/fd/{}", descriptor_);
  return ::linkat(AT_FDCWD, data.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
}

void TemporaryFile::move_to(const std::filesystem::path& path) {
  if (name_.empty()) {
    int code = link_as(path);
    if (code == 0) return;
    // A link replaces nothing, only renaming does: for that moment the complete file has a temporary name.
    while (code == EEXIST) {
      std::filesystem::path name = new_name(folder_);
      slot_ = remember_name(name.string());
      code = link_as(name);
      if (code == 0) name_ = std::move(name);
      else forget_name(std::exchange(slot_, -1));
    }
    if (code != 0) throw_errno(code);
  }
  if (::rename(name_.c_str(), path.c_str()) != 0) throw_errno(errno);
  name_.clear();
  forget_name(std::exchange(slot_, -1));
}

void remove_temporaries() noexcept {
  for (const NameSlot& slot : name_slots) {
    if (slot.state.load() == NameSlot::live) ::unlink(slot.name.data());
  }
}

}  // namespace tessera::io
