#include "driver/profile.h"

#include <array>
#include <charconv>

namespace tessera::cuda::driver {
namespace {

// Typical boards of each compute capability. Limits are those of the CUDA C++ Programming Guide, table "Technical
// Specifications per Compute Capability"; the rest is from the boards' data sheets.
constexpr Profile kProfiles[] = {
    {75, "T4", 40, 1024, 65536, 65536, 4 << 20, 1590000, 5001000, 256, 3},
    {80, "A100", 108, 2048, 167936, 166912, 40 << 20, 1410000, 1215000, 5120, 3},
    {86, "A10", 72, 1536, 102400, 101376, 6 << 20, 1695000, 6251000, 384, 2},
    {89, "L4", 58, 1536, 102400, 101376, 48 << 20, 2040000, 6251000, 192, 2},
    {90, "H100", 132, 2048, 233472, 232448, 50 << 20, 1980000, 2619000, 5120, 3},
    {100, "B200", 148, 2048, 233472, 232448, 126 << 20, 1965000, 3996000, 8192, 4},
    {120, "RTX 5090", 170, 1536, 102400, 101376, 96 << 20, 2407000, 14001000, 512, 2},
};

bool read_number(std::string_view text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

bool read_bytes(std::string_view text, std::uint64_t& bytes) {
  constexpr std::array<std::pair<std::string_view, int>, 3> kUnits = {{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}}};
  int shift = 0;
  for (const auto& [unit, bits] : kUnits) {
    if (text.ends_with(unit)) {
      shift = bits;
      text.remove_suffix(unit.size());
      break;
    }
  }
  if (!read_number(text, bytes) || bytes > (std::uint64_t{1} << 44) >> shift) return false;
  bytes <<= shift;
  return true;
}

// ENTRY:CALL or ENTRY:CALL:RESULT
bool read_fault(std::string_view text, PlannedFault& fault) {
  const std::size_t first = text.find(':');
  if (first == 0 || first == std::string_view::npos) return false;
  fault.entry = text.substr(0, first);
  std::string_view call = text.substr(first + 1);
  if (const std::size_t second = call.find(':'); second != std::string_view::npos) {
    std::uint64_t result = 0;
    if (!read_number(call.substr(second + 1), result) || result == 0 || result > 999) return false;
    fault.result = static_cast<Result>(result);
    call = call.substr(0, second);
  }
  return read_number(call, fault.call) && fault.call > 0;
}

bool read_setting(std::string_view name, std::string_view value, Settings& settings) {
  if (name == "memory") return read_bytes(value, settings.memory_bytes) && settings.memory_bytes > 0;
  if (name == "seed") return read_number(value, settings.seed);
  if (name == "fail") return read_fault(value, settings.faults.emplace_back());
  std::uint64_t number = 0;
  if (!read_number(value, number)) return false;
  if (name == "devices") {
    settings.devices = static_cast<int>(number);
    return number <= 64;
  }
  settings.capability = static_cast<int>(number);
  return name == "capability" && number <= 1000 && find_profile(settings.capability) != nullptr;
}

}  // namespace

const Profile* find_profile(int capability) {
  for (const Profile& profile : kProfiles) {
    if (profile.capability == capability) return &profile;
  }
  return nullptr;
}

int attribute_of(const Profile& profile, int ordinal, int attribute) {
  switch (attribute) {  // by the numbers of CUdevice_attribute
    case 1:
      return 1024;  // threads per block
    case 2:
    case 3:
      return 1024;  // block dimensions
    case 4:
      return 64;
    case 5:
      return 0x7FFFFFFF;  // grid dimensions
    case 6:
    case 7:
      return 65535;
    case 8:
      return static_cast<int>(kSharedBytesPerBlock);
    case 9:
      return 65536;  // constant memory
    case 10:
      return 32;  // warp
    case 11:
      return 0x7FFFFFFF;  // pitch
    case 12:
      return 65536;  // registers per block
    case 13:
      return profile.clock;
    case 14:
      return 512;  // alignment of textures
    case 15:
      return 1;  // overlap of copies and kernels
    case 16:
      return profile.multiprocessors;
    case 19:
      return 1;  // mapped host memory
    case 31:
      return 1;  // concurrent kernels
    case 33:
      return ordinal + 1;  // PCI bus
    case 36:
      return profile.memory_clock;
    case 37:
      return profile.memory_bus_bits;
    case 38:
      return profile.l2_bytes;
    case 39:
      return profile.threads_per_multiprocessor;
    case 40:
      return profile.copy_engines;
    case 41:
      return 1;  // unified addressing
    case 75:
      return profile.capability / 10;
    case 76:
      return profile.capability % 10;
    case 81:
      return profile.shared_bytes_per_multiprocessor;
    case 82:
      return 65536;  // registers per multiprocessor
    case 97:
      return profile.shared_bytes_per_block;
    case 102:
      return 1;  // virtual memory management
    case 106:
      return 32;  // blocks per multiprocessor
    default:
      return 0;
  }
}

std::string read_settings(const std::string& text, Settings& settings) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view setting = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), setting.size() + 1));
    const std::size_t equals = setting.find('=');
    if (equals == std::string_view::npos ||
        !read_setting(setting.substr(0, equals), setting.substr(equals + 1), settings))
      return "the simulated driver does not understand '" + std::string(setting) +
             "'; settings are devices, capability, memory, seed and fail (tests/cuda/driver/control.h)";
  }
  return "";
}

}  // namespace tessera::cuda::driver
