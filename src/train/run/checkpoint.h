// The state of a training in one file: an .npz archive with every variable under its name, and everything else as JSON
// text in the array training.json (u8).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/train.h"
#include "tessera/variable_store.h"
#include "train/data/loader.h"
#include "train/run/schedule.h"

namespace tessera::train {

struct Checkpoint {
  std::map<std::string, Tensor> variables;
  std::int64_t step = 0, samples = 0;
  DataPosition position;  // of the next batch
  // The values of train/loss_sum and train/loss_count at the last line of the log.
  double logged_loss = 0;
  std::int64_t logged_runs = 0;
  double loss = 0;  // in the last line of the log
  double seconds = 0;
  std::optional<EvaluationReport> best;
  std::int64_t evaluations_since_best = 0;
  PlateauState plateau;
};

// Replaces the file as a whole. Throws Error(io).
void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);
// Throws Error(not_found), Error(io), and Error(invalid_argument) for a file that is no checkpoint.
Checkpoint read_checkpoint(const std::filesystem::path& path);

// "checkpoint-000000120.npz" for step 120.
std::string checkpoint_name(std::int64_t step);
// The step in a file name of that form; nothing for other names.
std::optional<std::int64_t> checkpoint_step(const std::filesystem::path& path);
// The files with such names in the folder, the newest first. Throws Error(not_found) if there is no such folder.
std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& folder);
// The newest intact checkpoint in the folder, or the file itself if `path` is a file. Damaged ones are skipped with a
// warning. Throws Error(not_found) if there is none.
Checkpoint newest_checkpoint(const std::filesystem::path& path);

// Throws Error(invalid_argument) that describes the difference if the checkpoint's variables are not those of the
// training, but those of another net, of the same net with other sizes, or of another optimiser.
void check_fits(const Checkpoint& checkpoint, const VariableSnapshot& training, const std::filesystem::path& path);

}  // namespace tessera::train
