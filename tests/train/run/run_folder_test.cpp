#include "train/run/run_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "support/expect_error.h"
#include "train/run/trainer_support.h"

namespace tessera::train::run_folder_test {
namespace {

using namespace test_training;
using test::expect_error_containing;

TEST(RunFolder, RefusesAFolderThatHoldsAnotherTraining) {
  const test::TemporaryFolder folder;
  TrainingConfig config = small();
  config.output = folder.path().string();
  config.checkpoint_every = 10;
  Trainer(two_layers(), config).run();
  std::ofstream(folder.path() / "notes.txt") << "mine";
  config.steps = 8;
  config.checkpoint_every = 4;
  expect_error_containing(ErrorKind::invalid_argument, "holds another training (its newest checkpoint is of step 60)",
                          [&] { Trainer(two_layers(), config).run(); });
  EXPECT_EQ(newest_checkpoint(folder.path()).step, 60);
  config.overwrite = true;
  Trainer(two_layers(), config).run();
  EXPECT_EQ(newest_checkpoint(folder.path()).step, 8);
  EXPECT_EQ(checkpoints_in(folder.path()).size(), 2u);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "notes.txt"));
  // A net that no training wrote is nobody's to replace.
  const test::TemporaryFolder other;
  two_layers().save((other.path() / "model.onnx").string());
  config.output = other.path().string();
  expect_error_containing(ErrorKind::invalid_argument, "holds a file 'model.onnx' that no training wrote",
                          [&] { Trainer(two_layers(), config).run(); });
}

TEST(RunFolder, LocksTheFolderThatItWritesTo) {
  const test::TemporaryFolder folder;
  TrainingConfig config = small();
  config.output = folder.path().string();
  config.steps = 2;
  Trainer first(two_layers(), config);
  TrainingHooks hooks;
  bool tried = false;
  hooks.progress = [&](std::int64_t, std::int64_t) {
    if (std::exchange(tried, true)) return;
    expect_error_containing(ErrorKind::invalid_argument, "another training is writing to",
                            [&] { Trainer(two_layers(), config).run(); });
  };
  first.run(hooks);
  EXPECT_TRUE(tried);
}

TEST(RunFolder, GoesOnFromAnOlderCheckpointWithoutTheNewerOnes) {
  const test::TemporaryFolder folder, other;
  TrainingConfig config = small();
  config.output = folder.path().string();
  config.steps = 20;
  config.checkpoint_every = 10;
  Trainer(two_layers(), config).run();
  config.checkpoint_every = 3;
  config.steps = 14;
  // Into another folder, which then has the whole log.
  config.output = other.path().string();
  Trainer aside(two_layers(), config);
  aside.resume((folder.path() / "checkpoint-000000010.npz").string());
  aside.run();
  EXPECT_EQ(newest_checkpoint(other.path()).step, 14);
  EXPECT_EQ(newest_checkpoint(folder.path()).step, 20);
  std::ifstream log(other.path() / "log.jsonl");
  std::string line;
  ASSERT_TRUE(std::getline(log, line));
  EXPECT_TRUE(line.starts_with("{\"step\":1,")) << line;
  // In its own folder, where what was behind it goes.
  config.output = folder.path().string();
  Trainer trainer(two_layers(), config);
  trainer.resume((folder.path() / "checkpoint-000000010.npz").string());
  TrainingHooks hooks;
  Cancellation stop;
  hooks.cancellation = &stop;
  hooks.progress = [&](std::int64_t step, std::int64_t) {
    if (step == 12) stop.cancel();
  };
  trainer.run(hooks);
  EXPECT_EQ(newest_checkpoint(folder.path()).step, 12);
}

}  // namespace
}  // namespace tessera::train::run_folder_test
