#include "share/trace.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "io/toml_table.h"
#include "share/model_steps.h"

namespace tessera::share {
namespace {

constexpr std::array<std::pair<std::string_view, Priority>, 3> kClasses{
    {{"realtime", Priority::realtime}, {"standard", Priority::standard}, {"background", Priority::background}}};
constexpr std::array<std::pair<std::string_view, Arrivals::Kind>, 4> kArrivals{{{"closed", Arrivals::Kind::closed},
                                                                                {"poisson", Arrivals::Kind::poisson},
                                                                                {"bursts", Arrivals::Kind::bursts},
                                                                                {"replay", Arrivals::Kind::replay}}};
constexpr std::array<std::pair<std::string_view, cost::Precision>, 3> kPrecisions{
    {{"f32", cost::Precision::f32}, {"f16", cost::Precision::f16}, {"bf16", cost::Precision::bf16}}};
constexpr std::int64_t kMostRequests = 10'000'000, kMostSteps = 1'000'000;

template <typename T, std::size_t N>
T one_of(const std::array<std::pair<std::string_view, T>, N>& names, const std::string& given,
         const std::string& where) {
  std::string all;
  for (const auto& [name, value] : names) {
    if (name == given) return value;
    all += (all.empty() ? "" : ", ") + std::string(name);
  }
  fail(ErrorKind::invalid_argument, "{} is '{}', expected one of {}", where, given, all);
}

// A positive number of milliseconds or microseconds as nanoseconds.
std::int64_t duration_ns(double value, double unit_ns, const std::string& where) {
  require(value >= 0 && value * unit_ns < 1e18, ErrorKind::invalid_argument,
          "{} is {}, expected a duration of 0 or more", where, value);
  return std::llround(value * unit_ns);
}

double share_of(io::TomlTable& table, std::string_view key, double otherwise, const std::string& where) {
  const double value = table.number(key, otherwise);
  require(value >= 0 && value <= 1, ErrorKind::invalid_argument, "{}.{} is {}, expected a share from 0 to 1", where,
          key, value);
  return value;
}

Arrivals read_arrivals(io::TomlTable& table, const std::string& where) {
  Arrivals arrivals;
  const bool replays = table.has("times_ms");
  arrivals.kind = one_of(kArrivals, table.text("arrivals", replays ? "replay" : "closed"), where + ".arrivals");
  arrivals.requests = table.whole("requests", 1);
  require(arrivals.requests > 0 && arrivals.requests <= kMostRequests, ErrorKind::invalid_argument,
          "{}.requests is {}, expected 1 to {}", where, arrivals.requests, kMostRequests);
  arrivals.start_ns = duration_ns(table.number("start_ms", 0), 1e6, where + ".start_ms");
  arrivals.wait_ns = duration_ns(table.number("wait_ms", 0), 1e6, where + ".wait_ms");
  arrivals.rate = table.number("rate", 0);
  arrivals.burst = table.whole("burst", 8);
  const bool random = arrivals.kind == Arrivals::Kind::poisson || arrivals.kind == Arrivals::Kind::bursts;
  require(
      !random || (arrivals.rate > 0 && std::isfinite(arrivals.rate) && arrivals.burst > 0), ErrorKind::invalid_argument,
      "{}: requests that come at random need 'rate', the requests per second, and 'burst', how many of them come at "
      "once, both above 0",
      where);
  double last = 0;
  for (const double time : table.numbers("times_ms")) {
    require(time >= last, ErrorKind::invalid_argument, "{}.times_ms: {} comes after {}; times ascend", where, time,
            last);
    arrivals.times_ns.push_back(duration_ns(time, 1e6, where + ".times_ms"));
    last = time;
  }
  require(arrivals.kind != Arrivals::Kind::replay || !arrivals.times_ns.empty(), ErrorKind::invalid_argument,
          "{}: a replay needs 'times_ms', when each request comes", where);
  return arrivals;
}

// Steps that the trace states itself.
std::vector<SimulatedStep> read_steps(io::TomlTable& table, const std::string& where) {
  const std::vector<double> lengths = table.numbers("steps_us"), cold = table.numbers("cold_us");
  require(cold.empty() || cold.size() == lengths.size(), ErrorKind::invalid_argument,
          "{}.cold_us has {} steps, expected the {} of steps_us", where, cold.size(), lengths.size());
  const std::int64_t repeat = table.whole("repeat", 1);
  require(repeat > 0 && repeat <= kMostSteps / std::max<std::int64_t>(1, static_cast<std::int64_t>(lengths.size())),
          ErrorKind::invalid_argument, "{}.repeat is {}, expected 1 or more and no more than {} steps in all", where,
          repeat, kMostSteps);
  const Demand demand{share_of(table, "compute", 1, where), share_of(table, "bandwidth", 0, where),
                      share_of(table, "link", 0, where)};
  std::vector<SimulatedStep> steps;
  for (std::int64_t i = 0; i < repeat; ++i) {
    for (std::size_t step = 0; step < lengths.size(); ++step) {
      steps.push_back({duration_ns(lengths[step], 1e3, where + ".steps_us"), demand});
      require(steps.back().ns > 0, ErrorKind::invalid_argument, "{}.steps_us has a step of no length", where);
      if (!cold.empty()) steps.back().cold_ns = duration_ns(cold[step], 1e3, where + ".cold_us");
    }
  }
  return steps;
}

SimulatedJob read_job(io::TomlTable table, const std::string& name, const std::string& where,
                      const cost::DeviceProfile& profile) {
  SimulatedJob job;
  JobOptions& options = job.options;
  options.name = name;
  options.priority = parse_class(table.text("class", "standard"), where + ".class");
  options.weight = table.number("weight", 1);
  require(options.weight > 0 && std::isfinite(options.weight), ErrorKind::invalid_argument,
          "{}.weight is {}, expected a number above 0", where, options.weight);
  options.goal_ns = duration_ns(table.number("goal_ms", 0), 1e6, where + ".goal_ms");
  job.claim = table.number("claim", 1);
  require(job.claim >= 0 && job.claim <= 1e6, ErrorKind::invalid_argument,
          "{}.claim is {}, expected predicted over true duration, 0 to 1e6", where, job.claim);
  job.model = table.text("model", "");
  job.steps = read_steps(table, where);
  const bool training = table.boolean("training", false);
  const cost::Precision precision = one_of(kPrecisions, table.text("precision", "f32"), where + ".precision");
  const std::map<std::string, std::int64_t> dims = table.table("dims").all_wholes();
  require(job.model.empty() == !job.steps.empty(), ErrorKind::invalid_argument,
          "{} needs either 'model', a net that 'tessera new' knows, or 'steps_us', the length of each step", where);
  if (!job.model.empty()) {
    ModelSteps net = model_steps(job.model, dims, training, precision, profile);
    job.steps = std::move(net.steps);
    options.persistent_bytes = net.persistent_bytes;
    options.temporary_bytes = net.temporary_bytes;
  }
  const auto memory = [&](std::string_view key, std::int64_t& bytes) {
    if (table.has(key)) bytes = parse_bytes(table.text(key, ""), where + "." + std::string(key));
  };
  memory("persistent", options.persistent_bytes);
  memory("temporary", options.temporary_bytes);
  job.arrivals = read_arrivals(table, where);
  return job;
}

}  // namespace

Trace parse_trace(std::string_view text, const std::string& where, const cost::DeviceProfile& profile) {
  io::TomlTable root = io::TomlTable::parse(text, where);
  Trace trace;
  const std::int64_t seed = root.whole("seed", 0);
  require(seed >= 0, ErrorKind::invalid_argument, "{}: seed is {}, expected 0 or more", where, seed);
  trace.seed = static_cast<std::uint64_t>(seed);
  root.has("cluster");  // read by parse_cluster
  io::TomlTable jobs = root.table("job");
  for (const std::string& name : jobs.tables())
    trace.jobs.push_back(read_job(jobs.table(name), name, where + ": job." + name, profile));
  root.check_all_read();
  require(!trace.jobs.empty(), ErrorKind::invalid_argument,
          "{} has no jobs; each is a table of its own, such as [job.search]", where);
  return trace;
}

std::int64_t parse_bytes(const std::string& text, const std::string& where) {
  constexpr std::array<std::pair<std::string_view, double>, 13> kUnits{{{"", 1},
                                                                        {"B", 1},
                                                                        {"K", 0x1p10},
                                                                        {"M", 0x1p20},
                                                                        {"G", 0x1p30},
                                                                        {"KiB", 0x1p10},
                                                                        {"MiB", 0x1p20},
                                                                        {"GiB", 0x1p30},
                                                                        {"TiB", 0x1p40},
                                                                        {"kB", 1e3},
                                                                        {"MB", 1e6},
                                                                        {"GB", 1e9},
                                                                        {"TB", 1e12}}};
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const auto& [name, factor] : kUnits) {
    if (error == std::errc() && unit == name && value >= 0 && value * factor < 0x1p62)
      return std::llround(value * factor);
  }
  fail(ErrorKind::invalid_argument, "{} is '{}', expected bytes such as \"512MiB\" or \"2GB\"", where,
       base::shown(text));
}

Priority parse_class(const std::string& name, const std::string& where) {
  return one_of(kClasses, name, where);
}

std::string_view name_of(Priority priority) {
  for (const auto& [name, value] : kClasses) {
    if (value == priority) return name;
  }
  return "";
}

}  // namespace tessera::share
