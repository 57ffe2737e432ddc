// Softmax and normalisations in the emulation, against the formulas in double.
#include "backends/cuda/kernels/rows/rows.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cuda/kernels/typed_buffer.h"
#include "emulation/faults.h"

namespace tessera::cuda {
namespace {

using emulation::DeviceBuffer;

emulation::LaunchOptions one_block_per_row(int rows, std::uint64_t seed) {
  emulation::LaunchOptions options = emulation::one_block(kRowThreads, seed);
  options.grid = {static_cast<unsigned>(rows), 1, 1};
  return options;
}

template <class T>
void expect_softmax(void (*kernel)(SoftmaxParameters)) {
  std::mt19937 random(11);
  for (const int columns : {1, 2, 31, 256, 257, 1000}) {
    for (const bool logarithm : {false, true}) {
      const int rows = 3;
      const auto x = random_values<T>(static_cast<std::size_t>(rows * columns), 50, random);
      const DeviceBuffer<T> buffer(x, sizeof(T));  // in place
      emulation::launch(one_block_per_row(rows, static_cast<std::uint64_t>(columns)), kernel,
                        SoftmaxParameters{buffer.data(), buffer.data(), columns, logarithm});
      EXPECT_TRUE(buffer.intact());
      for (int row = 0; row < rows; ++row) {
        const auto at = [&](int i) {
          return static_cast<double>(NumberType<T>::decode(x[static_cast<std::size_t>(row * columns + i)]));
        };
        double most = at(0), sum = 0;
        for (int i = 0; i < columns; ++i) most = std::max(most, at(i));
        for (int i = 0; i < columns; ++i) sum += std::exp(at(i) - most);
        for (int i = 0; i < columns; ++i) {
          const double expected = logarithm ? at(i) - most - std::log(sum) : std::exp(at(i) - most) / sum;
          const double allowed =
              2 * NumberType<T>::kEpsilon * std::max(std::fabs(expected), 0x1p-14) + 8e-6 * std::fabs(expected) + 1e-7;
          const float actual = NumberType<T>::decode(buffer.values()[static_cast<std::size_t>(row * columns + i)]);
          ASSERT_NEAR(actual, expected, allowed) << columns << " columns, row " << row << ", column " << i;
        }
      }
    }
  }
}

TEST(CudaSoftmax, RandomOddAndTinyRows) {
  expect_softmax<float>(softmax_f32);
  expect_softmax<Float16>(softmax_f16);
  expect_softmax<Bfloat16>(softmax_bf16);
}

TEST(CudaSoftmax, KeepsNotANumberAndLargeValues) {
  const DeviceBuffer<float> x(std::vector<float>{1, NAN, 2, 3e38f, -3e38f, 0}), y(6);
  emulation::launch(one_block_per_row(2, 1), softmax_f32, SoftmaxParameters{x.data(), y.data(), 3, false});
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(y.values()[i]));
  EXPECT_EQ(y.values()[3], 1);
  EXPECT_EQ(y.values()[4], 0);
}

template <class T>
void expect_normalised(void (*kernel)(NormalisationParameters), bool centred) {
  std::mt19937 random(12);
  for (const int columns : {1, 3, 64, 255, 700}) {
    for (const bool affine : {false, true}) {
      const int rows = 2;
      const float epsilon = 1e-3f;
      const auto x = random_values<T>(static_cast<std::size_t>(rows * columns), 20, random);
      const auto weight = random_values<T>(static_cast<std::size_t>(columns), 1, random),
                 bias = random_values<T>(static_cast<std::size_t>(columns), 0, random);
      const DeviceBuffer<T> in(x, sizeof(T)), w(weight, sizeof(T)), b(bias, sizeof(T));
      const DeviceBuffer<T> out(x.size(), sizeof(T));
      emulation::launch(one_block_per_row(rows, static_cast<std::uint64_t>(columns)), kernel,
                        NormalisationParameters{in.data(), out.data(), affine ? w.data() : nullptr,
                                                affine ? b.data() : nullptr, columns, epsilon});
      EXPECT_TRUE(out.intact());
      for (int row = 0; row < rows; ++row) {
        const auto at = [&](int i) {
          return static_cast<double>(NumberType<T>::decode(x[static_cast<std::size_t>(row * columns + i)]));
        };
        double mean = 0, squares = 0;
        for (int i = 0; i < columns; ++i) mean += at(i) / columns;
        if (!centred) mean = 0;
        for (int i = 0; i < columns; ++i) squares += (at(i) - mean) * (at(i) - mean) / columns;
        for (int i = 0; i < columns; ++i) {
          const auto column = static_cast<std::size_t>(i);
          const double w_i = affine ? NumberType<T>::decode(weight[column]) : 1,
                       b_i = affine ? NumberType<T>::decode(bias[column]) : 0;
          const double product = (at(i) - mean) / std::sqrt(squares + epsilon) * w_i, expected = product + b_i;
          // Sums lose epsilons of float, of values near 20.
          const double allowed = 2 * NumberType<T>::kEpsilon * std::fabs(expected) +
                                 20 * 8 * 0x1p-23 * (std::fabs(w_i) + 1) * (columns == 1 ? 40 : 1) +
                                 1e-6 * std::fabs(product);
          const float actual = NumberType<T>::decode(out.values()[static_cast<std::size_t>(row * columns + i)]);
          ASSERT_NEAR(actual, expected, allowed) << columns << " columns, row " << row << ", column " << i;
        }
      }
    }
  }
}

TEST(CudaNormalisation, RandomOddAndTinyRows) {
  expect_normalised<float>(layer_normalisation_f32, true);
  expect_normalised<Float16>(layer_normalisation_f16, true);
  expect_normalised<Bfloat16>(layer_normalisation_bf16, true);
  expect_normalised<float>(rms_normalisation_f32, false);
  expect_normalised<Float16>(rms_normalisation_f16, false);
  expect_normalised<Bfloat16>(rms_normalisation_bf16, false);
}

}  // namespace
}  // namespace tessera::cuda
