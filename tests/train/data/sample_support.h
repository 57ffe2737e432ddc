// What the tests of training data share.
#pragma once

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "train/data/dataset.h"

namespace tessera::test {

// A sample's fields as tensors.
inline std::vector<Tensor> read_sample(const train::Dataset& data, std::int64_t index) {
  std::vector<Tensor> sample;
  std::vector<std::byte*> to;
  for (const train::Field& field : data.fields()) {
    sample.emplace_back(field.dtype, field.shape);
    to.push_back(static_cast<std::byte*>(sample.back().mutable_raw()));
  }
  data.read(index, to);
  return sample;
}

inline void write_bytes(const std::filesystem::path& path, const std::vector<std::uint8_t>& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

inline void write_text_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Sample i has x = i · 10 in every element and y = i; those in `corrupt` cannot be read.
class CountingDataset final : public train::Dataset {
 public:
  CountingDataset(std::int64_t size, Shape shape, std::set<std::int64_t> corrupt = {})
      : size_(size),
        corrupt_(std::move(corrupt)),
        fields_{{"x", DType::f32, std::move(shape)}, {"y", DType::i64, {}}} {}
  const std::vector<train::Field>& fields() const override { return fields_; }
  std::int64_t size() const override { return size_; }
  std::string describe(std::int64_t index) const override { return fmt::format("sample {}", index); }
  void read(std::int64_t index, std::span<std::byte* const> to) const override {
    require(!corrupt_.contains(index), ErrorKind::invalid_argument, "its bytes are damaged");
    auto* x = reinterpret_cast<float*>(to[0]);
    for (std::int64_t i = 0; i < element_count(fields_[0].shape); ++i) x[i] = static_cast<float>(index * 10);
    std::memcpy(to[1], &index, sizeof(index));
    ++reads_;
  }
  std::int64_t reads() const { return reads_; }

 private:
  std::int64_t size_;
  std::set<std::int64_t> corrupt_;
  std::vector<train::Field> fields_;
  mutable std::atomic<std::int64_t> reads_{0};
};

}  // namespace tessera::test
