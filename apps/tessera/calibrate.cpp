// tessera calibrate: measures this CPU for `tessera explain`.
#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/numbers/units.h"
#include "common.h"
#include "report/measure/calibration.h"
#include "train/run/calibration_steps.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

struct CalibrateOptions {
  std::string output;
};

void print_roof(const char* title, const cost::Rates& rates, const std::vector<cost::Cache>& caches, double bandwidth) {
  fmt::print("{:<12}{:>10.1f}{:>10.1f}{:>10.1f}", title, rates.f32 * 1e-9, rates.bf16 * 1e-9, rates.int8 * 1e-9);
  for (const cost::Cache& cache : caches) fmt::print("{:>10.1f}", cache.bytes_per_second * 1e-9);
  fmt::print("{:>10.1f}\n", bandwidth * 1e-9);
}

// The path of the profile, checked before measuring. The folder of the user's cache is created; that of a path given by
// the user must exist.
std::filesystem::path output_path(const CalibrateOptions& options) {
  const std::filesystem::path path =
      options.output.empty() ? report::calibration_path() : std::filesystem::path(options.output);
  std::error_code error;
  if (options.output.empty()) std::filesystem::create_directories(path.parent_path(), error);
  require(!error, ErrorKind::io, "cannot make the folder '{}': {}", path.parent_path().string(), error.message());
  check_outputs({path.string()});
  return path;
}

void run_calibrate(const CalibrateOptions& options) {
  const std::filesystem::path path = output_path(options);
  const cost::DeviceProfile profile = report::calibrate_cpu(show_progress, {}, train::calibration_steps());
  report::save_calibration(profile, path);
  fmt::print("{}\n\n{:<12}{:>30}{:>{}}\n{:<12}{:>10}{:>10}{:>10}", profile.title, "", "Gop/s", "GB/s",
             10 * (profile.caches.size() + 1), "", "f32", "bf16", "int8");
  for (const cost::Cache& cache : profile.caches) fmt::print("{:>10}", cache.name);
  fmt::print("{:>10}\n", "memory");
  print_roof("one thread", profile.one_thread->vector_rates, profile.one_thread->caches, profile.one_thread->bandwidth);
  print_roof(fmt::format("{} threads", profile.multiprocessors).c_str(), profile.vector_rates, profile.caches,
             profile.bandwidth);
  fmt::print("\nstarting an operator takes {:.2f} us; {} measured kernel times correct the roofline\nwrote {}\n",
             profile.overhead_seconds * 1e6, profile.correction.samples().size(), path.string());
}

}  // namespace

void add_calibrate(CLI::App& app) {
  auto options = std::make_shared<CalibrateOptions>();
  CLI::App* verb = app.add_subcommand("calibrate", "Measure what this CPU can do at most, for explain");
  verb->add_option("-o,--output", options->output, "Where to write the profile; the user's cache folder if not given");
  verb->footer(
      "Takes about forty seconds of all cores; close other programs first. The profile goes to "
      "$XDG_CACHE_HOME/tessera/cpu.toml or\n"
      "~/.cache/tessera/cpu.toml, where explain finds it.\n\nExamples:\n  tessera calibrate\n  tessera calibrate -o "
      "server.toml && tessera "
      "explain model.onnx --device server.toml");
  verb->callback([options] { run_calibrate(*options); });
}

}  // namespace tessera::apps
