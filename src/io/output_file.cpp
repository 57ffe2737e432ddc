#include "io/output_file.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/error.h"

namespace tessera::io {
namespace {

namespace fs = std::filesystem;

std::string reason(int code) {
  return std::generic_category().message(code);
}

// Where the file will lie: the target of a symbolic link, otherwise the path itself.
fs::path resolve(const fs::path& path) {
  std::error_code error;
  if (!fs::is_symlink(fs::symlink_status(path, error))) return path;
  const fs::path target = fs::canonical(path, error);
  require(error != std::errc::no_such_file_or_directory, ErrorKind::io,
          "cannot write '{}': it is a symbolic link to something that does not exist", path.string());
  require(!error, ErrorKind::io, "cannot write '{}': {}", path.string(), error.message());
  return target;
}

void check_folder(const std::string& shown, const fs::path& given) {
  const fs::path folder = given.empty() ? "." : given;
  struct stat status{};
  const bool known = ::stat(folder.c_str(), &status) == 0;
  require(known || errno != ENOENT, ErrorKind::io, "cannot write '{}': the folder '{}' does not exist", shown,
          folder.string());
  require(known && S_ISDIR(status.st_mode), ErrorKind::io, "cannot write '{}': '{}' is not a folder", shown,
          folder.string());
  const bool writable = ::access(folder.c_str(), W_OK | X_OK) == 0;
  require(writable, ErrorKind::io, "cannot write '{}': the folder '{}' is not writable: {}", shown, folder.string(),
          reason(errno));
}

// What would be replaced, which must not be a device or anything else that is not plain data.
void check_target(const std::string& shown, const fs::path& target) {
  struct stat status{};
  if (::lstat(target.c_str(), &status) != 0) {
    require(errno == ENOENT, ErrorKind::io, "cannot write '{}': {}", shown, reason(errno));
    return;
  }
  require(!S_ISDIR(status.st_mode), ErrorKind::io, "cannot write '{}': it is a directory", shown);
  require(S_ISREG(status.st_mode), ErrorKind::io, "cannot write '{}': it is not a regular file", shown);
  const bool writable = ::access(target.c_str(), W_OK) == 0;
  require(writable, ErrorKind::io, "cannot write '{}': {}", shown, reason(errno));
}

fs::path checked_target(const fs::path& path) {
  require(!path.empty(), ErrorKind::io, "cannot write a file without a name");
  const fs::path target = resolve(path);
  std::error_code unknown;
  require(target.has_filename() && !fs::is_directory(target, unknown), ErrorKind::io,
          "cannot write '{}': it is a directory", path.string());
  check_folder(path.string(), target.parent_path());
  check_target(path.string(), target);
  return target;
}

// As the file that it replaces was: mode and, where the process may do that, owner.
void take_over_mode(int descriptor, const fs::path& target) {
  struct stat status{};
  if (::lstat(target.c_str(), &status) != 0) return;
  constexpr mode_t plain = S_IRWXU | S_IRWXG | S_IRWXO;
  const bool same_owner = ::fchown(descriptor, status.st_uid, status.st_gid) == 0;
  if (::fchmod(descriptor, status.st_mode & (same_owner ? 07777 : plain)) != 0)
    throw std::system_error(errno, std::generic_category());
}

}  // namespace

void check_output(const fs::path& path) {
  checked_target(path);
}

OutputFile::OutputFile(const fs::path& target, TemporaryFile::Name name) try
    : shown_(target.string()), target_(checked_target(target)), file_(target_.parent_path(), name) {
} catch (const std::system_error& error) {
  fail(ErrorKind::io, "cannot write '{}': {}", target.string(), error.code().message());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    rlimit limit{};
    const bool within = ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
                        static_cast<rlim_t>(position_) + bytes.size() <= limit.rlim_cur;
    require(within, ErrorKind::io,
            "cannot write '{}': it needs more than the {} bytes that this process may write to a file (ulimit -f)",
            shown_, limit.rlim_cur);
    const ssize_t written = ::pwrite(file_.descriptor(), bytes.data(), bytes.size(), position_);
    if (written < 0 && errno == EINTR) continue;
    require(written >= 0, ErrorKind::io, "cannot write '{}': {}", shown_, reason(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    position_ += written;
  }
}

void OutputFile::commit() {
  try {
    const bool synced =
        ::fsync(file_.descriptor()) == 0 || errno == EINVAL || errno == ENOTSUP;  // some file systems have no such call
    if (!synced) throw std::system_error(errno, std::generic_category());
    check_target(shown_, target_);  // it may have changed since
    take_over_mode(file_.descriptor(), target_);
    file_.move_to(target_);
  } catch (const std::system_error& error) {
    fail(ErrorKind::io, "cannot write '{}': {}", shown_, error.code().message());
  }
}

void write_text(const fs::path& path, std::string_view text) {
  OutputFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

void replace_text(const fs::path& path, std::string_view text) {
  if (path.has_parent_path()) make_folder(path.parent_path());
  write_text(path, text);
}

void make_folder(const fs::path& path) {
  std::error_code error;
  require(!fs::exists(path, error) || fs::is_directory(path, error), ErrorKind::io,
          "cannot make the folder '{}': there is a file of that name", path.string());
  fs::create_directories(path, error);
  require(!error, ErrorKind::io, "cannot make the folder '{}': {}", path.string(), error.message());
}

}  // namespace tessera::io
