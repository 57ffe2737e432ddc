// NumPy's .npz archives: a zip file with one .npy array an entry, stored or deflated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "tessera/tensor.h"

namespace tessera::io {

struct NpzLimits {
  // Bytes of all arrays together, as the entries' uncompressed sizes state them.
  std::int64_t max_total_bytes = std::int64_t{16} << 30;
  // The same for compressed entries only, which can state a thousand times what the file holds. Beyond it they are read
  // if they inflate to no more than max_inflation times their bytes in the file.
  std::int64_t max_inflated_bytes = std::int64_t{256} << 20;
  std::int64_t max_inflation = 20;
  std::int64_t max_arrays = 65536;
};

// Arrays by name (entry name without ".npy"). Limits are checked before anything is unpacked, and an entry must hold
// exactly what its array's header says and match its checksum. Throws Error: not_found, io, invalid_argument for a file
// that is no such archive, over_budget; the message names the entry.
//
// `raw_type` says for an array's name what raw bytes in it stand for, if it is not empty; see read_npy.
using RawTypes = std::function<DType(const std::string& name)>;
std::map<std::string, Tensor> read_npz(const std::filesystem::path& path, const NpzLimits& limits = {},
                                       const RawTypes& raw_type = {});
// Reads an archive from memory.
std::map<std::string, Tensor> read_npz_bytes(std::span<const std::byte> bytes, const NpzLimits& limits = {},
                                             const RawTypes& raw_type = {});

// Writes the arrays uncompressed, with a fixed time stamp, so that equal arrays make equal files. Replaces the file
// completely or leaves it as it was. Throws Error(io), and invalid_argument for an empty name.
void write_npz(const std::filesystem::path& path, const std::map<std::string, Tensor>& arrays);

}  // namespace tessera::io
