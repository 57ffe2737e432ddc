// The folder that a training writes to: one training at a time, and never over the results of another one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace tessera::train {

// The step of the newest checkpoint in a folder, damaged ones included; nothing where there is none.
std::optional<std::int64_t> newest_step_in(const std::filesystem::path& folder);

// A folder that is locked for this training (flock on the folder itself, which the system releases however the process
// ends). Functions throw Error: invalid_argument for a folder that must not be written to, with the ways on; io.
class RunFolder {
 public:
  RunFolder() = default;  // none
  // Makes the folder where it does not exist. Throws Error(invalid_argument) while another training writes to it.
  explicit RunFolder(const std::filesystem::path& path);
  ~RunFolder();
  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&& other) noexcept;

  // For a new training. Throws where the folder holds a checkpoint or a trained net. A folder in which a training ended
  // before its first checkpoint is taken over.
  void require_unused() const;
  // For a new training in place of an old one: removes the files that the old one wrote, and nothing else. Throws,
  // removing nothing, where one of them is among the files that the new training reads, and for a net or a
  // configuration that no training wrote there.
  void clear(const std::vector<std::filesystem::path>& still_read) const;
  // For a training that goes on from the checkpoint of `step`, when the newest one was that of `newest_step`. Removes
  // checkpoints behind `step`, whose log lines are dropped too. Throws where another training has gone on meanwhile.
  void go_on_from(std::int64_t step, std::optional<std::int64_t> newest_step) const;
  // For a training that goes on from a checkpoint of another folder: takes the log and the best net over.
  void take_over_from(const std::filesystem::path& other) const;

 private:
  bool holds(const char* name) const;
  bool was_written_by_training() const;
  void require_no_foreign_file() const;

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace tessera::train
