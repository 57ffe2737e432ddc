// Measures this machine's CPU: its peak rates, and how far kernels stay below them.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cost/profile.h"
#include "tessera/model.h"

namespace tessera::report {

// Receives what is measured next, and the fraction (0 to 1) that is done.
using Progress = std::function<void(std::string_view what, double done)>;

// How much time to spend on measuring. The default takes about forty seconds.
struct CalibrationEffort {
  double roof_seconds = 0.01;  // for one run of a loop; the best of roof_runs is taken
  int roof_runs = 6;
  int net_runs = 12;             // of each net of calibration_nets
  std::size_t most_nets = 1000;  // further nets are left out
};

// Makes a model to measure; each is destroyed before the next one is made.
using MakeModel = std::function<Model()>;

// Measures the peak rates by number type, the bandwidth of L1, L2, L3 and memory, with one thread and with all, the
// overhead of starting an operator, and the time of kernels on nets of many layer sizes and on the models in `more`.
// Uses all cores; other load on the machine disturbs it.
cost::DeviceProfile calibrate_cpu(const Progress& progress = {}, const CalibrationEffort& effort = {},
                                  const std::vector<MakeModel>& more = {});

// $XDG_CACHE_HOME/tessera/cpu.toml, or ~/.cache/tessera/cpu.toml. Throws Error(not_found) if neither variable is set.
std::filesystem::path calibration_path();
// Creates the folder if it does not exist. Throws Error(io).
void save_calibration(const cost::DeviceProfile& profile, const std::filesystem::path& path);

struct CpuProfile {
  cost::DeviceProfile profile;
  // false if `tessera calibrate` was not run on this machine, so that the figures are rough ones
  bool measured = false;
};
// The stored result of calibrate_cpu, if it is for a processor of this name; else the built-in rough profile for as
// many cores as this process may use. Throws Error(invalid_argument) if the stored file is damaged.
CpuProfile load_cpu_profile();

}  // namespace tessera::report
