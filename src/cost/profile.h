// The peak rates and sizes of a device. Profiles are data: src/cost/profiles/*.toml are part of the program; users can
// add files of their own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost/correction.h"
#include "cost/precision.h"

namespace tessera::cost {

// Operations per second by number type (a multiply-add counts two); 0: the device does not have it.
struct Rates {
  double f32 = 0, tf32 = 0, f16 = 0, bf16 = 0, int8 = 0;
  double of(Precision precision) const;
  double& of(Precision precision);
};

struct Cache {
  std::string name;             // "L2"
  std::int64_t bytes = 0;       // of all cores or multiprocessors together
  double bytes_per_second = 0;  // 0: not known
};

struct Link {
  std::string name;             // "NVLink 3"
  double bytes_per_second = 0;  // both directions together
};

// Rows and columns of the result that one multiprocessor works on.
struct Tile {
  std::int64_t m = 0, n = 0;
};
struct WarpTile {
  std::int64_t m = 0, n = 0, k = 0;
};

enum class DeviceKind : std::uint8_t { cpu, gpu };

// The limits of a GPU's blocks of threads, as its programming guide tabulates them by compute capability; zeros: not
// known.
struct BlockLimits {
  int capability_major = 0, capability_minor = 0;
  std::int64_t shared_memory_per_block = 0, shared_memory_per_multiprocessor = 0;  // bytes
  int registers_per_multiprocessor = 0;                                            // of 32 bits
  int threads_per_block = 0;
  bool multiplies_f64 = false, multiplies_f8 = false, multiplies_int4 = false;  // by matrix units
};

struct DeviceProfile {
  std::string name;   // "a100-40-sxm"
  std::string title;  // "NVIDIA A100 SXM4 40 GB"
  DeviceKind kind = DeviceKind::gpu;
  std::vector<std::string> sources;
  std::string note;
  Rates vector_rates, matrix_rates, sparse_matrix_rates;  // sparse: counting the zeros that 2:4 sparsity skips
  std::int64_t memory_bytes = 0;
  double bandwidth = 0;       // of the memory, bytes per second
  std::vector<Cache> caches;  // nearest first
  std::vector<Link> links;
  double overhead_seconds = 0;  // of starting an operator
  int multiprocessors = 0;      // a CPU: cores
  BlockLimits block_limits;
  std::vector<Tile> tiles;  // largest first
  std::vector<WarpTile> warp_tiles;
  double misaligned_share = 1;  // of the matrix units' rate, with operands whose rows do not begin at 16 bytes
  double watts = 0;             // 0: not known
  // The rates of a measured CPU with one thread.
  struct OneThread {
    Rates vector_rates;
    double bandwidth = 0;
    std::vector<Cache> caches;
    Correction correction;
  };
  std::optional<OneThread> one_thread;
  Correction correction;  // empty unless measured

  bool supports(Precision precision) const { return peak(precision, true) > 0; }
  // Operations per second of products (where the device has matrix units for the type) or of other work; 0: not
  // supported.
  double peak(Precision precision, bool product) const;
  // Operations per byte at which arithmetic and memory transfers take equally long.
  double ridge(Precision precision, bool product = true) const { return peak(precision, product) / bandwidth; }
  bool has_matrix_units(Precision precision) const { return matrix_rates.of(precision) > 0; }
  // The profile of the same device with one thread; unchanged where that was not measured.
  DeviceProfile with_one_thread() const;
  // The profile of a CPU with fewer threads than cores: as measured for one thread, else with arithmetic and caches
  // scaled in proportion and memory unchanged. `scaled` is set if the result is such an estimate. Unchanged for 0, for
  // as many threads as there are cores, and for other devices.
  DeviceProfile with_threads(int threads, bool& scaled) const;
};

// The profiles that are part of the program, sorted by name.
std::span<const DeviceProfile> built_in_profiles();
const DeviceProfile* find_built_in_profile(std::string_view name);
// The usual variant of a device named without one: "a100-80-sxm" for "a100"; "" for other names.
std::string_view usual_variant(std::string_view name);

// Parses TOML text; `where` names it in errors. Throws Error(invalid_argument) that says what is missing or wrong.
DeviceProfile parse_profile(std::string_view text, const std::string& where);
// Loads a profile by the name of a built-in one, with or without its variant, or by the path of a .toml file. Throws
// Error: invalid_argument (listing the names), not_found, io.
DeviceProfile load_profile(const std::string& name_or_path);
// The profile as text that parse_profile reads.
std::string profile_text(const DeviceProfile& profile);

}  // namespace tessera::cost
