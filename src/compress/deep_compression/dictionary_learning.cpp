#include "compress/deep_compression/dictionary_learning.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

namespace tessera::compress {
namespace {

constexpr int kClusterRounds = 8, kRounds = 20;
constexpr double kNothing = 1e-12;

using Vector = std::vector<double>;

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// A row-major matrix.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  Vector values = {};

  Matrix(std::int64_t r, std::int64_t c) : rows(r), columns(c), values(static_cast<std::size_t>(r * c)) {}
  std::span<double> row(std::int64_t i) {
    return std::span(values).subspan(static_cast<std::size_t>(i * columns), static_cast<std::size_t>(columns));
  }
  std::span<const double> row(std::int64_t i) const {
    return std::span(values).subspan(static_cast<std::size_t>(i * columns), static_cast<std::size_t>(columns));
  }
};

// Scales the vector to length 1. Returns false if it is zero.
bool normalise(std::span<double> vector) {
  const double length = std::sqrt(dot(vector, vector));
  if (!(length > kNothing)) return false;
  for (double& value : vector) value /= length;
  return true;
}

// Solves A X = B by Cholesky decomposition. X overwrites B, and the decomposition overwrites A. Returns false if A is
// not positive definite.
bool solve(Matrix& a, Matrix& b) {
  for (std::int64_t j = 0; j < a.rows; ++j) {
    for (std::int64_t i = j; i < a.rows; ++i) {
      const auto k = static_cast<std::size_t>(j);
      const double value = a.row(i)[k] - dot(a.row(i).first(k), a.row(j).first(k));
      if (i == j && !(value > kNothing)) return false;
      a.row(i)[k] = i == j ? std::sqrt(value) : value / a.row(j)[k];
    }
  }
  for (std::int64_t column = 0; column < b.columns; ++column) {
    const auto at = static_cast<std::size_t>(column);
    for (std::int64_t i = 0; i < a.rows; ++i) {
      double value = b.row(i)[at];
      for (std::int64_t k = 0; k < i; ++k) value -= a.row(i)[static_cast<std::size_t>(k)] * b.row(k)[at];
      b.row(i)[at] = value / a.row(i)[static_cast<std::size_t>(i)];
    }
    for (std::int64_t i = a.rows - 1; i >= 0; --i) {
      double value = b.row(i)[at];
      for (std::int64_t k = i + 1; k < a.rows; ++k) value -= a.row(k)[static_cast<std::size_t>(i)] * b.row(k)[at];
      b.row(i)[at] = value / a.row(i)[static_cast<std::size_t>(i)];
    }
  }
  return true;
}

struct Combination {
  std::vector<std::int64_t> indices;
  Vector coefficients;
};

class Learner {
 public:
  Learner(Matrix samples, std::int64_t vectors, std::int64_t terms)
      : samples_(std::move(samples)),
        dictionary_(std::min(vectors, samples_.rows), samples_.columns),
        terms_(std::min(terms, dictionary_.rows)),
        combinations_(static_cast<std::size_t>(samples_.rows)) {}

  void run() {
    choose_apart();
    for (int i = 0; i < kClusterRounds; ++i) cluster();
    pursue();
    for (int i = 0; i < kRounds; ++i) {
      const Matrix before = dictionary_;
      const std::vector<Combination> combinations = combinations_;
      const double error = error_;
      improve_vectors();
      pursue();
      if (error_ < error * (1 - 1e-4)) continue;
      if (error_ >= error) {
        dictionary_ = before;
        combinations_ = combinations;
        error_ = error;
      }
      break;
    }
  }

  const Matrix& dictionary() const { return dictionary_; }
  const std::vector<Combination>& combinations() const { return combinations_; }
  std::int64_t terms() const { return terms_; }
  double relative_error() const {
    const double all = dot(samples_.values, samples_.values);
    return all > 0 ? std::sqrt(std::max(0.0, error_) / all) : 0;
  }

 private:
  // Starts from samples that are long and far from the directions chosen so far.
  void choose_apart() {
    Vector left(static_cast<std::size_t>(samples_.rows));
    for (std::int64_t i = 0; i < samples_.rows; ++i)
      left[static_cast<std::size_t>(i)] = dot(samples_.row(i), samples_.row(i));
    for (std::int64_t k = 0; k < dictionary_.rows; ++k) {
      const auto farthest = std::ranges::max_element(left) - left.begin();
      std::ranges::copy(samples_.row(farthest), dictionary_.row(k).begin());
      if (!normalise(dictionary_.row(k))) set_unit(k);
      for (std::int64_t i = 0; i < samples_.rows; ++i) {
        const double along = dot(samples_.row(i), dictionary_.row(k));
        double& rest = left[static_cast<std::size_t>(i)];
        rest = std::min(rest, dot(samples_.row(i), samples_.row(i)) - along * along);
      }
    }
  }

  void set_unit(std::int64_t k) {
    std::ranges::fill(dictionary_.row(k), 0.0);
    dictionary_.row(k)[static_cast<std::size_t>(k % dictionary_.columns)] = 1;
  }

  // Makes each vector the mean of the samples closest to its line, after turning them to its side.
  void cluster() {
    Matrix sums(dictionary_.rows, dictionary_.columns);
    for (std::int64_t i = 0; i < samples_.rows; ++i) {
      std::int64_t best = 0;
      double most = 0;
      for (std::int64_t k = 0; k < dictionary_.rows; ++k) {
        const double along = dot(samples_.row(i), dictionary_.row(k));
        if (std::abs(along) > std::abs(most)) best = k, most = along;
      }
      for (std::size_t c = 0; c < samples_.row(i).size(); ++c)
        sums.row(best)[c] += most < 0 ? -samples_.row(i)[c] : samples_.row(i)[c];
    }
    for (std::int64_t k = 0; k < dictionary_.rows; ++k) {
      if (normalise(sums.row(k))) std::ranges::copy(sums.row(k), dictionary_.row(k).begin());
    }
  }

  void pursue() {
    Matrix gram(dictionary_.rows, dictionary_.rows);
    for (std::int64_t i = 0; i < gram.rows; ++i) {
      for (std::int64_t k = 0; k < gram.rows; ++k)
        gram.row(i)[static_cast<std::size_t>(k)] = dot(dictionary_.row(i), dictionary_.row(k));
    }
    error_ = 0;
    for (std::int64_t i = 0; i < samples_.rows; ++i) {
      Vector along(static_cast<std::size_t>(dictionary_.rows));
      for (std::int64_t k = 0; k < dictionary_.rows; ++k)
        along[static_cast<std::size_t>(k)] = dot(samples_.row(i), dictionary_.row(k));
      Combination& combination = combinations_[static_cast<std::size_t>(i)];
      combination = pursue(gram, along);
      // Adds the error with the best coefficients for these vectors.
      error_ += dot(samples_.row(i), samples_.row(i));
      for (std::size_t t = 0; t < combination.indices.size(); ++t)
        error_ -= combination.coefficients[t] * along[static_cast<std::size_t>(combination.indices[t])];
    }
  }

  // Chooses vectors one by one, each time the one most aligned with what is left of the sample, and then recomputes all
  // coefficients.
  Combination pursue(const Matrix& gram, const Vector& along) const {
    Combination chosen;
    Vector rest = along;
    while (static_cast<std::int64_t>(chosen.indices.size()) < terms_) {
      for (const std::int64_t index : chosen.indices) rest[static_cast<std::size_t>(index)] = 0;
      const auto next = std::ranges::max_element(rest, {}, [](double value) { return std::abs(value); }) - rest.begin();
      if (std::abs(rest[static_cast<std::size_t>(next)]) < kNothing) break;
      std::vector<std::int64_t> indices = chosen.indices;
      indices.push_back(next);
      const auto size = static_cast<std::int64_t>(indices.size());
      Matrix a(size, size), b(size, 1);
      for (std::int64_t i = 0; i < size; ++i) {
        const std::int64_t index = indices[static_cast<std::size_t>(i)];
        for (std::int64_t k = 0; k < size; ++k)
          a.row(i)[static_cast<std::size_t>(k)] =
              gram.row(index)[static_cast<std::size_t>(indices[static_cast<std::size_t>(k)])];
        b.row(i)[0] = along[static_cast<std::size_t>(index)];
      }
      if (!solve(a, b)) break;
      chosen = {std::move(indices), b.values};
      rest = along;
      for (std::size_t t = 0; t < chosen.indices.size(); ++t) {
        for (std::size_t k = 0; k < rest.size(); ++k)
          rest[k] -= chosen.coefficients[t] * gram.row(chosen.indices[t])[k];
      }
    }
    return chosen;
  }

  // Finds the vectors that approximate the samples best with these coefficients: (AᵀA) D = Aᵀ V. A vector that no
  // sample uses takes the direction of the sample with the largest error.
  void improve_vectors() {
    Matrix a(dictionary_.rows, dictionary_.rows), b(dictionary_.rows, dictionary_.columns);
    for (std::int64_t i = 0; i < samples_.rows; ++i) {
      const Combination& each = combinations_[static_cast<std::size_t>(i)];
      for (std::size_t t = 0; t < each.indices.size(); ++t) {
        for (std::size_t u = 0; u < each.indices.size(); ++u)
          a.row(each.indices[t])[static_cast<std::size_t>(each.indices[u])] +=
              each.coefficients[t] * each.coefficients[u];
        for (std::size_t c = 0; c < samples_.row(i).size(); ++c)
          b.row(each.indices[t])[c] += each.coefficients[t] * samples_.row(i)[c];
      }
    }
    for (std::int64_t k = 0; k < a.rows; ++k) a.row(k)[static_cast<std::size_t>(k)] += 1e-9;
    if (!solve(a, b)) return;
    std::vector<bool> taken(static_cast<std::size_t>(samples_.rows), false);
    for (std::int64_t k = 0; k < dictionary_.rows; ++k) {
      if (!normalise(b.row(k))) std::ranges::copy(worst_sample(taken), b.row(k).begin());
      if (normalise(b.row(k))) std::ranges::copy(b.row(k), dictionary_.row(k).begin());
    }
  }

  std::span<const double> worst_sample(std::vector<bool>& taken) const {
    std::int64_t worst = 0;
    double most = -1;
    for (std::int64_t i = 0; i < samples_.rows; ++i) {
      if (taken[static_cast<std::size_t>(i)]) continue;
      Vector rest(samples_.row(i).begin(), samples_.row(i).end());
      const Combination& each = combinations_[static_cast<std::size_t>(i)];
      for (std::size_t t = 0; t < each.indices.size(); ++t) {
        for (std::size_t c = 0; c < rest.size(); ++c)
          rest[c] -= each.coefficients[t] * dictionary_.row(each.indices[t])[c];
      }
      if (const double error = dot(rest, rest); error > most) worst = i, most = error;
    }
    taken[static_cast<std::size_t>(worst)] = true;
    return samples_.row(worst);
  }

  Matrix samples_, dictionary_;  // rows are vectors
  std::int64_t terms_;
  std::vector<Combination> combinations_;  // by sample
  double error_ = 0;                       // sum of squares
};

}  // namespace

LearnedDictionary learn_dictionary(const Tensor& kernels, std::int64_t vectors, std::int64_t terms) {
  Shape shape = kernels.shape();
  const std::int64_t outputs = shape[0], channels = shape[1], taps = kernels.elements() / (outputs * channels);
  Matrix samples(outputs * taps, channels);
  const float* values = kernels.data<float>();
  for (std::int64_t i = 0; i < kernels.elements(); ++i) {
    const std::int64_t tap = i % taps, channel = i / taps % channels, output = i / taps / channels;
    samples.row(output * taps + tap)[static_cast<std::size_t>(channel)] = values[i];
  }
  Learner learner(std::move(samples), vectors, terms);
  learner.run();
  const Matrix& dictionary = learner.dictionary();
  shape[1] = learner.terms();
  LearnedDictionary learned{Tensor(DType::f32, {dictionary.rows, channels}), Tensor(DType::i32, shape),
                            Tensor(DType::f32, shape), learner.relative_error()};
  std::ranges::transform(dictionary.values, learned.vectors.mutable_data<float>(),
                         [](double value) { return static_cast<float>(value); });
  std::ranges::fill(learned.indices.mutable_values<std::int32_t>(), 0);
  std::ranges::fill(learned.coefficients.mutable_values<float>(), 0.0f);
  for (std::int64_t i = 0; i < outputs * taps; ++i) {
    const Combination& each = learner.combinations()[static_cast<std::size_t>(i)];
    for (std::size_t t = 0; t < each.indices.size(); ++t) {
      const std::int64_t at = (i / taps * shape[1] + static_cast<std::int64_t>(t)) * taps + i % taps;
      learned.indices.mutable_data<std::int32_t>()[at] = static_cast<std::int32_t>(each.indices[t]);
      learned.coefficients.mutable_data<float>()[at] = static_cast<float>(each.coefficients[t]);
    }
  }
  return learned;
}

}  // namespace tessera::compress
