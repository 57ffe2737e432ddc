#include "backends/simulated/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tessera::backends::simulated {
namespace {

constexpr std::string_view kKeys =
    "compute=reference|cpu|none, memory=SIZE, seed=N, number=N, streams=N, shuffle=N, check=memory|none, "
    "fault=allocation:N|launch:N|slow_copies:FACTOR";

[[noreturn]] void refuse(std::string_view name, std::string_view part, std::string_view expected) {
  fail(ErrorKind::invalid_argument, "device '{}': '{}' is not {}", name, part, expected);
}

// Parses a number at the beginning of `text` and removes it from there; nothing if there is none.
template <typename T>
bool take_number(std::string_view& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

std::int64_t parse_count(std::string_view name, std::string_view part, std::string_view text, std::int64_t least) {
  std::int64_t value = 0;
  if (!take_number(text, value) || !text.empty() || value < least)
    refuse(name, part, least > 0 ? "a count from 1 on" : "a whole number that is not negative");
  return value;
}

std::int64_t parse_size(std::string_view name, std::string_view part, std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 10> units{{{"", 1},
                                                                       {"B", 1},
                                                                       {"KB", 1e3},
                                                                       {"MB", 1e6},
                                                                       {"GB", 1e9},
                                                                       {"TB", 1e12},
                                                                       {"KiB", 0x1p10},
                                                                       {"MiB", 0x1p20},
                                                                       {"GiB", 0x1p30},
                                                                       {"TiB", 0x1p40}}};
  constexpr double most = 0x1p44;  // fits the address space of a process
  double value = 0;
  const bool is_number = take_number(text, value);
  const auto unit = std::ranges::find(units, text, &std::pair<std::string_view, double>::first);
  const double bytes = unit != units.end() ? value * unit->second : 0;
  if (!is_number || !(bytes >= 1) || bytes > most)
    refuse(name, part, "a size of at most 16 TiB, such as 16GB or 512MiB");
  return static_cast<std::int64_t>(bytes);
}

Compute parse_compute(std::string_view name, std::string_view part, std::string_view text) {
  if (text == "reference") return Compute::reference;
  if (text == "cpu") return Compute::cpu;
  if (text == "none") return Compute::none;
  refuse(name, part, "compute=reference, compute=cpu or compute=none");
}

// Kernels of a GPU fill it or run beside others; those of a CPU use all of its cores.
std::int64_t usual_streams(const cost::DeviceProfile& profile) {
  return profile.kind == cost::DeviceKind::gpu ? 4 : 1;
}

std::int64_t parse_streams(std::string_view name, std::string_view part, std::string_view text) {
  const std::int64_t streams = parse_count(name, part, text, 1);
  if (streams > 128) refuse(name, part, "a count of at most 128");
  return streams;
}

bool parse_check(std::string_view name, std::string_view part, std::string_view text) {
  if (text == "memory") return true;
  if (text == "none") return false;
  refuse(name, part, "check=memory or check=none");
}

void parse_fault(std::string_view name, std::string_view part, std::string_view text, Faults& faults) {
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon),
                         value = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  if (kind == "allocation") {
    faults.failing_allocation = parse_count(name, part, value, 1);
  } else if (kind == "launch") {
    faults.failing_launch = parse_count(name, part, value, 1);
  } else if (kind == "slow_copies") {
    std::string_view rest = value;
    if (!take_number(rest, faults.copy_slowdown) || !rest.empty() || !(faults.copy_slowdown >= 1) ||
        faults.copy_slowdown > 1e6)
      refuse(name, part, "slow_copies with a factor from 1 to 1000000");
  } else {
    refuse(name, part, "fault=allocation:N, fault=launch:N or fault=slow_copies:FACTOR");
  }
}

void parse_option(std::string_view name, std::string_view part, Options& options) {
  const std::size_t equals = part.find('=');
  const std::string_view key = part.substr(0, equals),
                         value = equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1);
  if (key == "compute") options.compute = parse_compute(name, part, value);
  else if (key == "memory") options.memory_bytes = parse_size(name, part, value);
  else if (key == "seed") options.seed = static_cast<std::uint64_t>(parse_count(name, part, value, 0));
  else if (key == "number") options.number = parse_count(name, part, value, 0);
  else if (key == "streams") options.streams = parse_streams(name, part, value);
  else if (key == "shuffle") options.shuffle = parse_count(name, part, value, 0);
  else if (key == "check") options.checks_memory = parse_check(name, part, value);
  else if (key == "fault") parse_fault(name, part, value, options.faults);
  else fail(ErrorKind::invalid_argument, "device '{}': there is no option '{}'; options: {}", name, key, kKeys);
}

std::string_view compute_name(Compute compute) {
  switch (compute) {
    case Compute::reference:
      return "reference";
    case Compute::cpu:
      return "cpu";
    case Compute::none:
      return "none";
  }
  return "";
}

}  // namespace

Options parse_options(std::string_view name) {
  std::string_view rest = name.substr(std::min(name.size(), kDeviceKind.size() + 1));
  const auto take_part = [&rest] {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    return part;
  };
  Options options;
  options.profile_name = take_part();
  require(!options.profile_name.empty(), ErrorKind::invalid_argument,
          "device '{}' does not say which device it simulates; expected {}:PROFILE, such as {}:h100-sxm", name,
          kDeviceKind, kDeviceKind);
  try {
    options.profile = cost::load_profile(options.profile_name);
  } catch (Error& error) {
    throw error.add_context(fmt::format("device '{}'", base::shown(name)));
  }
  options.profile_name =
      cost::find_built_in_profile(options.profile.name) != nullptr && !options.profile_name.ends_with(".toml")
          ? options.profile.name
          : options.profile_name;
  while (!rest.empty()) parse_option(name, take_part(), options);
  if (options.memory_bytes == 0) options.memory_bytes = options.profile.memory_bytes;
  if (options.streams == 0) options.streams = usual_streams(options.profile);
  return options;
}

std::string name_of(const Options& options) {
  std::string name = fmt::format("{}:{}", kDeviceKind, options.profile_name);
  if (options.compute != Compute::reference) name += fmt::format(",compute={}", compute_name(options.compute));
  if (options.memory_bytes != options.profile.memory_bytes) name += fmt::format(",memory={}", options.memory_bytes);
  if (options.seed != 0) name += fmt::format(",seed={}", options.seed);
  if (options.number != 0) name += fmt::format(",number={}", options.number);
  if (options.streams != usual_streams(options.profile)) name += fmt::format(",streams={}", options.streams);
  if (options.shuffle != 0) name += fmt::format(",shuffle={}", options.shuffle);
  if (!options.checks_memory) name += ",check=none";
  const Faults& faults = options.faults;
  if (faults.failing_allocation != 0) name += fmt::format(",fault=allocation:{}", faults.failing_allocation);
  if (faults.failing_launch != 0) name += fmt::format(",fault=launch:{}", faults.failing_launch);
  if (faults.copy_slowdown != 1) name += fmt::format(",fault=slow_copies:{}", faults.copy_slowdown);
  return name;
}

}  // namespace tessera::backends::simulated
