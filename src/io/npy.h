// NumPy's .npy arrays. Format: numpy.lib.format, versions 1.0, 2.0 and 3.0.
//
// Read: bool, signed and unsigned integers, f16, f32, f64, complex, either byte order, C or Fortran order (the result
// is always row-major, native order); 'U' and 'S' strings become string tensors (UTF-8; trailing NULs are padding).
// Types that NumPy lacks are read and written as ml_dtypes writes them (npy_raw.h): np.load gives raw bytes, which
// .view(ml_dtypes.bfloat16) turns into numbers. Refused: object arrays (they hold pickled code), structured arrays,
// other raw bytes, dates. Any byte of a bool other than 0 reads as true.
//
// Written: version 1.0, C order, little endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "tessera/tensor.h"

namespace tessera::io {

// Throws Error: not_found or io for the file, invalid_argument for a malformed or refused one, with the reason; the
// data's length must be exactly what the header says. `raw`: what raw bytes of one byte an element stand for, of which
// the file says no more than that; without it they are refused as unsupported.
Tensor read_npy(const std::filesystem::path& path, DType raw = DType::undefined);
Tensor read_npy_bytes(std::span<const std::byte> bytes, DType raw = DType::undefined);

// Replaces the file completely or leaves it as it was. Throws Error(io).
void write_npy(const std::filesystem::path& path, const Tensor& tensor);

// Reads an array from a source of `total_bytes` bytes; `read` must fill the span or throw. Nothing is allocated before
// the header has been checked against total_bytes.
Tensor read_npy_stream(const std::function<void(std::span<std::byte>)>& read, std::int64_t total_bytes,
                       DType raw = DType::undefined);

// An array as it stands in a file: the header, and data that follows it.
struct NpyImage {
  std::string header;
  Tensor data;  // for strings a u32 tensor of code points
  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(data.raw()), static_cast<std::size_t>(data.bytes())};
  }
};
NpyImage npy_image(const Tensor& tensor);

}  // namespace tessera::io
