// The folder that a training writes to: used by one training at a time, and never overwriting another one's results.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace tessera::train {

// The step of the newest checkpoint in a folder, including damaged ones; nothing if there is none.
std::optional<std::int64_t> newest_step_in(const std::filesystem::path& folder);

// A folder that is locked for this training, by flock on the folder itself, which the system releases however the
// process ends. The functions throw Error(invalid_argument), which names the alternatives, for a folder that must not
// be written to, and Error(io).
class RunFolder {
 public:
  RunFolder() = default;  // no folder
  // Creates the folder if it does not exist. Throws Error(invalid_argument) while another training writes to it.
  explicit RunFolder(const std::filesystem::path& path);
  ~RunFolder();
  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&& other) noexcept;

  // For a new training. Throws if the folder holds a checkpoint or a trained net. A folder in which a training ended
  // before its first checkpoint can be reused.
  void require_unused() const;
  // For a new training that replaces an old one: removes the files that the old one wrote, and nothing else. Throws,
  // without removing anything, if the new training reads one of these files, and for a net or a configuration that no
  // training wrote there.
  void clear(const std::vector<std::filesystem::path>& still_read) const;
  // For a training that resumes from the checkpoint of `step`, when the newest checkpoint was that of `newest_step`.
  // Removes later checkpoints, whose log lines are dropped too. Throws if another training has gone on in the folder
  // meanwhile.
  void go_on_from(std::int64_t step, std::optional<std::int64_t> newest_step) const;
  // For a training that resumes from a checkpoint in another folder: copies the log and the best net.
  void take_over_from(const std::filesystem::path& other) const;

 private:
  bool holds(const char* name) const;
  bool was_written_by_training() const;
  void require_no_foreign_file() const;

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace tessera::train
