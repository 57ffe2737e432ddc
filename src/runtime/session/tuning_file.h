// Measured choices of kernels in a file, so that each is measured once on a machine.
#pragma once

#include <filesystem>

#include "backends/device_properties.h"
#include "plan/tuning.h"
#include "tessera/error.h"

namespace tessera::runtime {

// In the user's cache folder, one file per product and instruction set of a device and version of Tessera. Throws
// Error(not_found) when no variable says where that is.
std::filesystem::path tuning_path(const backends::DeviceProperties& device);

// Empty when there is no file, and when it is of another product, another instruction set or another version of
// Tessera. Throws Error(invalid_argument) when it is damaged, io.
plan::TuningTable load_tuning(const std::filesystem::path& path, const backends::DeviceProperties& device);

// Adds the table to what the file holds for this device; what it held for another is lost. Makes the folder if need be.
// Throws as load_tuning does.
void save_tuning(const plan::TuningTable& table, const std::filesystem::path& path,
                 const backends::DeviceProperties& device);

// A tuner that knows what the file knows.
class StoredTuner {
 public:
  // `device`: of the kernels that are measured; outlives this. `path`: empty for tuning_path(); where that file cannot
  // be used (no folder, not writable, damaged), a warning says why, and nothing is kept. A file that was asked for must
  // be usable: throws as load_tuning and save_tuning do.
  StoredTuner(const backends::DeviceProperties& device, std::filesystem::path path, plan::TuningProgress progress);

  plan::Tuner& tuner() { return tuner_; }
  // Writes what was measured since the last call, if anything was. Thread-safe. Throws as save_tuning does for a file
  // that was asked for.
  void save();

 private:
  plan::TuningTable load();
  void do_without_file(const Error& error);

  const backends::DeviceProperties& device_;
  bool asked_for_;
  bool kept_ = true;
  std::filesystem::path path_;
  plan::TuningTable saved_;
  plan::Tuner tuner_;
  std::mutex mutex_;
};

}  // namespace tessera::runtime
