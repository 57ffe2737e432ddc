#include "compress/deep_compression/weight_sharing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "ops/core/builder.h"

namespace tessera::compress {
namespace {

constexpr int kMostIterations = 300;

// k-means of sorted numbers. A cluster is a contiguous run of them, represented by the position of its first number.
class Clusters {
 public:
  Clusters(const std::vector<float>& sorted, std::size_t count) : sorted_(sorted), sums_(sorted.size() + 1) {
    for (std::size_t i = 0; i < sorted.size(); ++i) sums_[i + 1] = sums_[i] + static_cast<double>(sorted[i]);
    const double low = static_cast<double>(sorted.front()), high = static_cast<double>(sorted.back());
    const std::size_t most = low == high ? 1 : count;
    for (std::size_t i = 0; i < most; ++i)
      centroids_.push_back(most == 1 ? low
                                     : low + (high - low) * static_cast<double>(i) / static_cast<double>(most - 1));
  }

  std::vector<double> run() {
    std::vector<std::size_t> begins;
    for (int i = 0; i < kMostIterations; ++i) {
      std::vector<std::size_t> next = assign();
      if (next == begins) break;
      begins = std::move(next);
      move(begins);
    }
    std::vector<double> used;
    for (std::size_t i = 0; i < centroids_.size(); ++i) {
      if (begins[i] < begins[i + 1]) used.push_back(centroids_[i]);
    }
    return used;
  }

 private:
  // The position of the first number nearest to each centroid, followed by the count of numbers.
  std::vector<std::size_t> assign() const {
    std::vector<std::size_t> begins{0};
    for (std::size_t i = 0; i + 1 < centroids_.size(); ++i) {
      const double middle = (centroids_[i] + centroids_[i + 1]) / 2;
      begins.push_back(static_cast<std::size_t>(
          std::ranges::upper_bound(sorted_, middle, {}, [](float value) { return static_cast<double>(value); }) -
          sorted_.begin()));
    }
    begins.push_back(sorted_.size());
    return begins;
  }

  void move(const std::vector<std::size_t>& begins) {
    for (std::size_t i = 0; i < centroids_.size(); ++i) {
      const std::size_t count = begins[i + 1] - begins[i];
      if (count > 0) centroids_[i] = (sums_[begins[i + 1]] - sums_[begins[i]]) / static_cast<double>(count);
    }
  }

  const std::vector<float>& sorted_;
  std::vector<double> sums_, centroids_;
};

}  // namespace

Tensor SharedWeights::expand() const {
  Tensor weights(DType::f32, indices.shape());
  const auto values = codebook.values<float>();
  std::ranges::transform(
      indices.values<std::int32_t>(), weights.mutable_values<float>().begin(),
      [&](std::int32_t index) { return index == 0 ? 0.0f : values[static_cast<std::size_t>(index)]; });
  return weights;
}

SharedWeights share_weights(const Tensor& weights, int bits) {
  require(bits >= 1 && bits <= 8, ErrorKind::invalid_argument,
          "weights cannot share values of {} bits, expected 1 to 8", bits);
  std::vector<float> sorted;
  for (const float value : weights.values<float>()) {
    require(std::isfinite(value), ErrorKind::invalid_argument, "weights that are not finite cannot share values");
    if (value != 0) sorted.push_back(value);
  }
  std::ranges::sort(sorted);
  const std::vector<double> centroids =
      sorted.empty() ? std::vector<double>() : Clusters(sorted, std::size_t{1} << bits).run();
  SharedWeights shared{Tensor(DType::f32, {static_cast<std::int64_t>(centroids.size()) + 1}),
                       Tensor(DType::i32, weights.shape())};
  float* codebook = shared.codebook.mutable_data<float>();
  codebook[0] = 0;
  std::ranges::transform(centroids, codebook + 1, [](double centroid) { return static_cast<float>(centroid); });
  std::vector<double> middles;
  for (std::size_t i = 0; i + 1 < centroids.size(); ++i) middles.push_back((centroids[i] + centroids[i + 1]) / 2);
  std::ranges::transform(weights.values<float>(), shared.indices.mutable_values<std::int32_t>().begin(),
                         [&](float value) -> std::int32_t {
                           if (value == 0) return 0;
                           const auto at = std::ranges::lower_bound(middles, static_cast<double>(value));
                           return static_cast<std::int32_t>(at - middles.begin()) + 1;
                         });
  return shared;
}

std::string codebook_of(const std::string& weight) {
  return weight + "/codebook";
}
std::string zero_of(const std::string& weight) {
  return weight + "/zero";
}

ir::Graph with_shared_weights(ir::Graph model, const std::map<std::string, SharedWeights>& shared) {
  ops::GraphBuilder builder(model);
  for (const auto& [name, each] : shared) {
    const ir::ValueId weight = model.find_value(name);
    require(model.is_constant(weight), ErrorKind::invalid_argument, "the model has no constant '{}'", name);
    const std::int64_t values = each.codebook.elements() - 1;
    Tensor codebook(DType::f32, {values}), zero(DType::f32, {1});
    std::memcpy(codebook.mutable_raw(), each.codebook.data<float>() + 1, static_cast<std::size_t>(codebook.bytes()));
    zero.mutable_data<float>()[0] = 0;
    model.value(weight).name = name + "/initial";
    const ir::ValueId table = builder.add(
        "Concat", {model.add_constant(zero, zero_of(name)), model.add_constant(codebook, codebook_of(name))},
        {{"axis", std::int64_t{0}}});
    const ir::ValueId looked_up = builder.add("Gather", {table, model.add_constant(each.indices, name + "/indices")},
                                              {{"axis", std::int64_t{0}}});
    model.value(looked_up).name = name;
    model.replace_uses(weight, looked_up);
  }
  model.sort_topologically();
  model.remove_dead_and_compact();
  return model;
}

}  // namespace tessera::compress
