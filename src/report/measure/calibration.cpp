#include "report/measure/calibration.h"

#include <algorithm>

#include "backends/cpu/machine/roof.h"
#include "backends/cpu/machine/simd.h"
#include "base/cpu_info.h"
#include "base/error.h"
#include "cost/roofline.h"
#include "io/file.h"
#include "io/output_file.h"
#include "report/measure/calibration_nets.h"
#include "report/measure/step_times.h"
#include "runtime/session/random_inputs.h"
#include "runtime/session/session_access.h"

namespace tessera::report {
namespace {

namespace cpu = backends::cpu;

std::string machine_title() {
  const base::CpuInfo& info = base::cpu_info();
  return fmt::format("{}, {}, {} core{}", info.model_name, base::isa_name(info), info.usable_cores,
                     info.usable_cores == 1 ? "" : "s");
}

cost::Rates measure_rates(int threads, cpu::RoofEffort effort) {
  cost::Rates rates;
  for (const cpu::ComputeLoop& loop : cpu::compute_loops()) {
    double& rate = loop.what.starts_with("bf16") ? rates.bf16 : loop.what.starts_with("int8") ? rates.int8 : rates.f32;
    rate = std::max(rate, cpu::measure_compute(loop, threads, effort));
  }
  // A narrow type without instructions of its own is computed in float32.
  if (rates.bf16 == 0) rates.bf16 = rates.f32;
  if (rates.int8 == 0) rates.int8 = rates.f32;
  rates.f16 = rates.f32;
  return rates;
}

// The mean of reading and copying, because kernels read more than they write.
double measure_bandwidth(const cpu::MemoryLevel& level, int threads, cpu::RoofEffort effort) {
  double sum = 0;
  int loops = 0;
  for (const cpu::StreamLoop& loop : cpu::stream_loops()) {
    if (loop.what == "triad") continue;
    sum += cpu::measure_bandwidth(level, loop, threads, effort).bytes_per_second;
    ++loops;
  }
  return sum / loops;
}

struct MeasuredRoof {
  cost::Rates rates;
  double bandwidth = 0;
  std::vector<cost::Cache> caches;
};

MeasuredRoof measure_roof(int threads, cpu::RoofEffort effort, const Progress& progress, double begin, double end) {
  const base::ThreadPool::CoreLease lease(base::ThreadPool::process());
  const std::string with = threads == 1 ? " with one thread" : fmt::format(" with {} threads", threads);
  progress("arithmetic" + with, begin);
  MeasuredRoof roof{measure_rates(threads, effort), 0, {}};
  const std::vector<cpu::MemoryLevel> levels = cpu::memory_levels(threads);
  for (std::size_t i = 0; i < levels.size(); ++i) {
    progress(levels[i].name + with,
             begin + (end - begin) * static_cast<double>(i + 1) / static_cast<double>(levels.size() + 1));
    const double bandwidth = measure_bandwidth(levels[i], threads, effort);
    if (levels[i].size_bytes == 0) roof.bandwidth = bandwidth;
    // Each core has a first-level and a second-level cache of its own.
    else
      roof.caches.push_back({levels[i].name, levels[i].size_bytes * (levels[i].name == "L3" ? 1 : threads), bandwidth});
  }
  return roof;
}

Model model_of(ir::Graph graph) {
  return Model(std::make_shared<const ir::Graph>(std::move(graph)));
}

// The time of an operator that does almost nothing.
double measure_overhead(int runs) {
  const Model model = model_of(calibration_net_of_small_operators());
  Session session(model);
  std::vector<double> seconds = step_seconds(session, runtime::random_inputs(model, 1), 10 * runs, 0.2);
  std::ranges::nth_element(seconds, seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2));
  return seconds[seconds.size() / 2];
}

// One of the ways in which a net is run for measurements.
struct Variant {
  bool plain = false;  // with the kernels of a graph that is not optimised
  DType precision = DType::f32;
};

std::vector<Variant> variants_of(const CalibrationNet& net) {
  if (net.quantised) return {{}};
  if (!net.products) return {{}, {.plain = true}};
  return {{}, {.plain = true}, {.precision = DType::bf16}};
}

// `profile` is the profile for this number of threads.
void add_samples(const Model& model, const Variant& variant, int threads, int runs, const cost::DeviceProfile& profile,
                 cost::Correction& correction) {
  const NamedValues inputs = inputs_to_time(model, 1);
  SessionOptions options;
  options.threads = threads;
  options.precision = variant.precision;
  if (variant.plain) options.without_passes = passes_that_optimise();
  Session session(model, options);
  const std::vector<double> seconds =
      step_seconds(session, inputs, variant.plain ? (runs + 2) / 3 : runs, variant.plain ? 0.1 : 0.2);
  const std::shared_ptr<const plan::Plan> plan = runtime::SessionAccess::plan(session, inputs);
  const std::vector<std::optional<cost::Work>> works = work_of_steps(*plan);
  const cost::Surroundings surroundings = surroundings_of(*plan, works);
  std::vector<cost::Sample> samples;
  for (std::size_t i = 0; i < works.size(); ++i) {
    if (!works[i]) continue;
    if (const auto sample = cost::sample_of(*works[i], cost::estimate(*works[i], profile, 1, surroundings), seconds[i]))
      samples.push_back(*sample);
  }
  correction.learn(samples);
}

}  // namespace

cost::DeviceProfile calibrate_cpu(const Progress& given, const CalibrationEffort& effort,
                                  const std::vector<MakeModel>& more) {
  const Progress progress = given ? given : [](std::string_view, double) {};
  cpu::initialise_simd();
  const int cores = base::ThreadPool::process().cores();
  cost::DeviceProfile profile;
  profile.name = "cpu";
  profile.title = machine_title();
  profile.kind = cost::DeviceKind::cpu;
  profile.sources = {"measured by tessera calibrate"};
  profile.memory_bytes = base::usable_memory_bytes();
  profile.multiprocessors = cores;
  const cpu::RoofEffort roof{effort.roof_seconds, effort.roof_runs};
  const MeasuredRoof one = measure_roof(1, roof, progress, 0, 0.2),
                     all = cores > 1 ? measure_roof(cores, roof, progress, 0.2, 0.4) : one;
  profile.vector_rates = all.rates;
  profile.bandwidth = all.bandwidth;
  profile.caches = all.caches;
  profile.one_thread = cost::DeviceProfile::OneThread{one.rates, one.bandwidth, one.caches};
  progress("starting operators", 0.4);
  profile.overhead_seconds = measure_overhead(effort.net_runs);
  const cost::DeviceProfile one_thread = profile.with_one_thread();
  std::vector<CalibrationNet> nets = calibration_nets();
  if (nets.size() > effort.most_nets)
    nets.erase(nets.begin() + static_cast<std::ptrdiff_t>(effort.most_nets), nets.end());
  const auto part = [&](std::size_t done) {
    return 0.4 + 0.6 * static_cast<double>(done) / static_cast<double>(nets.size() + more.size());
  };
  const auto measure = [&](const Model& model, const std::vector<Variant>& variants) {
    for (const Variant& variant : variants) {
      add_samples(model, variant, 1, effort.net_runs, one_thread, profile.one_thread->correction);
      if (cores > 1) add_samples(model, variant, cores, effort.net_runs, profile, profile.correction);
    }
  };
  for (std::size_t i = 0; i < nets.size(); ++i) {
    progress("kernels", part(i));
    const std::vector<Variant> variants = variants_of(nets[i]);
    measure(model_of(std::move(nets[i].graph)), variants);
  }
  for (std::size_t i = 0; i < more.size(); ++i) {
    progress("training steps", part(nets.size() + i));
    measure(more[i](), {{}});
  }
  if (cores == 1) profile.correction = profile.one_thread->correction;
  progress("done", 1);
  return profile;
}

std::filesystem::path calibration_path() {
  const std::optional<std::filesystem::path> folder = io::cache_folder();
  require(folder.has_value(), ErrorKind::not_found,
          "neither XDG_CACHE_HOME nor HOME says where the calibration is kept");
  return *folder / "cpu.toml";
}

void save_calibration(const cost::DeviceProfile& profile, const std::filesystem::path& path) {
  io::replace_text(path, cost::profile_text(profile));
}

CpuProfile load_cpu_profile() {
  std::error_code unknown;  // a folder that cannot be read has no profile
  if (io::cache_folder().has_value() && std::filesystem::exists(calibration_path(), unknown)) {
    CpuProfile found{cost::load_profile(calibration_path().string()), true};
    if (found.profile.title == machine_title()) return found;
  }
  CpuProfile rough{*cost::find_built_in_profile("cpu"), false};
  const int cores = base::cpu_info().usable_cores;
  rough.profile.multiprocessors = cores;
  rough.profile.memory_bytes = base::usable_memory_bytes();
  for (const cost::Precision precision : cost::kAllPrecisions) rough.profile.vector_rates.of(precision) *= cores;
  for (cost::Cache& level : rough.profile.caches) {
    level.bytes_per_second *= cores;
    if (level.name != "L3") level.bytes *= cores;
  }
  rough.profile.title = machine_title() + " (not calibrated)";
  return rough;
}

}  // namespace tessera::report
