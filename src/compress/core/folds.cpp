#include "compress/core/folds.h"

#include <cstring>
#include <numeric>
#include <random>

#include "base/error.h"
#include "io/npz.h"

namespace tessera::compress {
namespace {

using Arrays = std::map<std::string, Tensor>;

Arrays arrays_of(const Arrays& given, const std::string& path) {
  if (!given.empty() || path.empty()) return given;
  require(path.ends_with(".npz"), ErrorKind::invalid_argument,
          "folds need data in .npz files, not '{}'; without folds the recipe runs once", path);
  return io::read_npz(path);
}

std::int64_t samples_of(const Arrays& arrays) {
  return arrays.empty() || arrays.begin()->second.rank() == 0 ? 0 : arrays.begin()->second.shape()[0];
}

Tensor rows(const Tensor& first, const Tensor* second, const std::vector<std::int64_t>& which) {
  Shape shape = first.shape();
  const std::int64_t in_first = shape[0], row = in_first == 0 ? 0 : first.bytes() / in_first;
  shape[0] = static_cast<std::int64_t>(which.size());
  Tensor taken(first.dtype(), shape);
  auto* to = static_cast<std::byte*>(taken.mutable_raw());
  for (const std::int64_t sample : which) {
    const bool is_first = sample < in_first;
    const auto* from = static_cast<const std::byte*>(is_first ? first.raw() : second->raw());
    std::memcpy(to, from + (is_first ? sample : sample - in_first) * row, static_cast<std::size_t>(row));
    to += row;
  }
  return taken;
}

void check_same_fields(const Arrays& train, const Arrays& test) {
  for (const auto& [name, array] : train) {
    require(array.rank() > 0 && array.shape()[0] == samples_of(train) && array.dtype() != DType::string,
            ErrorKind::invalid_argument, "field '{}' of the data is {} {}, expected numbers of {} samples", name,
            name_of(array.dtype()), to_string(array.shape()), samples_of(train));
    if (test.empty()) continue;
    const auto found = test.find(name);
    const bool fits = found != test.end() && found->second.dtype() == array.dtype() &&
                      found->second.rank() == array.rank() && found->second.shape()[0] == samples_of(test) &&
                      std::equal(array.shape().begin() + 1, array.shape().end(), found->second.shape().begin() + 1);
    require(fits, ErrorKind::invalid_argument, "field '{}' of the training data is missing or another in the test data",
            name);
  }
}

}  // namespace

TrainingData fold_of(const TrainingData& data, std::int64_t folds, std::int64_t fold, std::uint64_t seed) {
  require(!data.train_source && !data.test_source, ErrorKind::invalid_argument,
          "folds need data in .npz files or arrays, not a function");
  const Arrays train = arrays_of(data.train_arrays, data.train), test = arrays_of(data.test_arrays, data.test);
  check_same_fields(train, test);
  const std::int64_t samples = samples_of(train) + samples_of(test);
  require(folds >= 2 && samples >= folds, ErrorKind::invalid_argument, "{} samples cannot be divided into {} folds",
          samples, folds);
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::mt19937_64 generator(seed + 0x9E3779B97F4A7C15);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[generator() % i]);
  std::vector<std::int64_t> kept, tested;
  for (std::size_t i = 0; i < order.size(); ++i)
    (static_cast<std::int64_t>(i) % folds == fold ? tested : kept).push_back(order[i]);
  TrainingData divided = data;
  divided.train = divided.test = "";
  divided.hold_out = 0;
  for (const auto& [name, array] : train) {
    const Tensor* other = test.empty() ? nullptr : &test.at(name);
    divided.train_arrays[name] = rows(array, other, kept);
    divided.test_arrays[name] = rows(array, other, tested);
  }
  return divided;
}

}  // namespace tessera::compress
