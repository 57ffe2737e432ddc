#include "train/run/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "io/output_file.h"
#include "train/run/checkpoint.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;

constexpr const char *kLog = "log.jsonl", *kConfig = "config.toml", *kModel = "model.onnx", *kBest = "best.onnx";
// The files that a training writes beside its checkpoints.
constexpr std::array<const char*, 5> kOwnFiles = {kLog, kConfig, kModel, kBest, "report.html"};

}  // namespace

std::optional<std::int64_t> newest_step_in(const fs::path& folder) {
  if (!fs::is_directory(folder)) return std::nullopt;
  const std::vector<fs::path> checkpoints = checkpoints_in(folder);
  return checkpoints.empty() ? std::nullopt : checkpoint_step(checkpoints.front());
}

RunFolder::RunFolder(const fs::path& path) : path_(path) {
  io::make_folder(path);
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  require(descriptor_ >= 0, ErrorKind::io, "cannot open the folder '{}': {}", path.string(), std::strerror(errno));
  int done = 0;
  do done = ::flock(descriptor_, LOCK_EX | LOCK_NB);
  while (done != 0 && errno == EINTR);
  if (done == 0) return;
  const int error = errno;
  if (error != EWOULDBLOCK) {
    warn("'{}' cannot be locked ({}): no other training may write to it meanwhile", path.string(),
         std::strerror(error));
    return;
  }
  ::close(std::exchange(descriptor_, -1));
  fail(ErrorKind::invalid_argument,
       "another training is writing to '{}'; wait until it ends, or name another folder as 'output'", path.string());
}

RunFolder::~RunFolder() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

RunFolder& RunFolder::operator=(RunFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

bool RunFolder::holds(const char* name) const {
  std::error_code ignored;
  return fs::exists(path_ / name, ignored);
}

bool RunFolder::was_written_by_training() const {
  return holds(kLog) || newest_step_in(path_).has_value();
}

void RunFolder::require_no_foreign_file() const {
  if (was_written_by_training()) return;
  for (const char* name : {kConfig, kModel, kBest}) {
    require(!holds(name), ErrorKind::invalid_argument,
            "'{}' holds a file '{}' that no training wrote and this one would replace; name another folder as 'output'",
            path_.string(), name);
  }
}

void RunFolder::require_unused() const {
  require_no_foreign_file();
  const std::optional<std::int64_t> step = newest_step_in(path_);
  if (!step && !holds(kModel) && !holds(kBest)) return;
  fail(ErrorKind::invalid_argument,
       "'{}' holds another training{}; go on with it by --resume (Trainer::resume), name another folder as 'output', "
       "or start anew by --overwrite (overwrite in the API), which removes what that training wrote",
       path_.string(), step ? fmt::format(" (its newest checkpoint is of step {})", *step) : "");
}

void RunFolder::clear(const std::vector<fs::path>& still_read) const {
  require_no_foreign_file();
  std::vector<fs::path> own = checkpoints_in(path_);
  for (const char* name : kOwnFiles) {
    if (holds(name)) own.push_back(path_ / name);
  }
  std::error_code none;  // the folder need not exist
  for (const fs::directory_entry& entry : fs::directory_iterator(path_ / "tensorboard", none)) {
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) own.push_back(entry.path());
  }
  for (const fs::path& read : still_read) {
    std::error_code ignored;
    const bool goes =
        std::ranges::any_of(own, [&](const fs::path& file) { return fs::equivalent(file, read, ignored); });
    require(!goes && !fs::equivalent(path_, read, ignored), ErrorKind::invalid_argument,
            "this training reads '{}', which overwriting '{}' would remove; name another folder as 'output'",
            read.string(), path_.string());
  }
  for (const fs::path& file : own) {
    std::error_code error;
    fs::remove(file, error);
    require(!error, ErrorKind::io, "cannot remove '{}': {}", file.string(), error.message());
  }
}

void RunFolder::go_on_from(std::int64_t step, std::optional<std::int64_t> newest_step) const {
  const std::optional<std::int64_t> newest = newest_step_in(path_);
  require(!newest || (newest_step && *newest <= *newest_step), ErrorKind::invalid_argument,
          "another training has gone on in '{}' since its checkpoint was read: the newest one is of step {}; resume it "
          "again",
          path_.string(), newest.value_or(0));
  for (const fs::path& file : checkpoints_in(path_)) {
    const std::optional<std::int64_t> of = checkpoint_step(file);
    if (!of || *of <= step) continue;
    std::error_code error;
    fs::remove(file, error);
    require(!error, ErrorKind::io, "cannot remove '{}': {}", file.string(), error.message());
    warn("removed '{}': training goes on from step {}", file.string(), step);
  }
}

void RunFolder::take_over_from(const fs::path& other) const {
  for (const char* name : {kLog, kBest}) {
    std::error_code error;
    if (!fs::exists(other / name, error)) continue;
    fs::copy_file(other / name, path_ / name, fs::copy_options::overwrite_existing, error);
    require(!error, ErrorKind::io, "cannot copy '{}' to '{}': {}", (other / name).string(), path_.string(),
            error.message());
  }
}

}  // namespace tessera::train
