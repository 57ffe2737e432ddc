// Measuring the CPU at hand: its roofs, and by how much kernels miss them.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cost/profile.h"
#include "tessera/model.h"

namespace tessera::report {

// Told what is measured next, and which part (0 to 1) is done.
using Progress = std::function<void(std::string_view what, double done)>;

// How long to measure. The default takes about forty seconds.
struct CalibrationEffort {
  double roof_seconds = 0.01;  // a run of a loop; the best of roof_runs counts
  int roof_runs = 6;
  int net_runs = 12;             // of each net of calibration_nets
  std::size_t most_nets = 1000;  // leave out nets beyond these
};

// Makes a model to measure; it is gone before the next one is made.
using MakeModel = std::function<Model()>;

// Peaks by number type, bandwidth of L1, L2, L3 and memory, with one thread and with all, the cost of starting an
// operator, and the time of kernels on nets of many layer sizes and on `more`. Uses all cores; wants a quiet machine.
cost::DeviceProfile calibrate_cpu(const Progress& progress = {}, const CalibrationEffort& effort = {},
                                  const std::vector<MakeModel>& more = {});

// $XDG_CACHE_HOME/tessera/cpu.toml, or ~/.cache/tessera/cpu.toml. Throws Error(not_found) when neither variable is set.
std::filesystem::path calibration_path();
// Makes the folder if need be. Throws Error(io).
void save_calibration(const cost::DeviceProfile& profile, const std::filesystem::path& path);

struct CpuProfile {
  cost::DeviceProfile profile;
  bool measured = false;  // false: nobody has run `tessera calibrate` on this machine; the figures are rough ones
};
// What calibrate_cpu found, if it was on a processor of this name; else the built-in rough one for as many cores as
// this process may use. Throws Error(invalid_argument) when the stored file is damaged.
CpuProfile load_cpu_profile();

}  // namespace tessera::report
