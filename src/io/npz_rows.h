// Arrays of an .npz archive read side by side, some rows at a time, so that no array is in memory as a whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "tessera/tensor.h"

namespace tessera::io {

// Numbers in C order and little endian, as numpy writes them. Not thread-safe.
class NpzRows {
 public:
  // Throws Error: not_found, io, and invalid_argument for a file that is no such archive, for arrays without a first
  // dimension and for others that cannot be read so.
  explicit NpzRows(const std::filesystem::path& path);
  ~NpzRows();
  NpzRows(const NpzRows&) = delete;
  NpzRows& operator=(const NpzRows&) = delete;

  struct Array {
    DType dtype = DType::undefined;
    Shape shape;
  };
  const std::map<std::string, Array>& arrays() const;
  // The next `rows` rows of an array, which must have as many. Throws Error(invalid_argument) for damaged data.
  Tensor read(const std::string& name, std::int64_t rows);
  // Passes over the next `rows` rows, as read() does.
  void skip(const std::string& name, std::int64_t rows);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::io
