// Every rung of the ladder of matrix products, in the emulation, against sums in double.
#include "backends/cuda/kernels/products/product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "backends/cuda/kernels/kernel_table.h"
#include "emulation/faults.h"

namespace tessera::cuda {
namespace {

using emulation::DeviceBuffer;
using emulation::Format;
using emulation::Landing;

struct Shape {
  int rows, columns, depth;
};

// Of one kernel: the type of its operands and of its result, and its launch.
struct Rung {
  const char* name;
  Format operands;
  ProductLaunch tile;
  const char* splits;   // the kernel that adds split sums
  double epsilon;       // of the result's type
  bool needs_16_bytes;  // operands and strides
};

constexpr double kF32Epsilon = 0x1p-23, kF16Epsilon = 0x1p-10, kBf16Epsilon = 0x1p-7;
// Operands of product_*_f32 are tf32 numbers here, which lose nothing on the way.
constexpr Rung kRungs[] = {
    {"product_tiles_f32", Format::tf32, kTilesTile, "product_splits_f32", kF32Epsilon, false},
    {"product_tiles_f16", Format::f16, kTilesTile, "product_splits_f16", kF16Epsilon, false},
    {"product_tiles_bf16", Format::bf16, kTilesTile, "product_splits_bf16", kBf16Epsilon, false},
    {"product_tiles_s8", Format::s8, kTilesTile, "product_splits_s8", kF32Epsilon, false},
    {"product_wmma_f16", Format::f16, kWmmaTile, "product_splits_f16", kF16Epsilon, false},
    {"product_wmma_bf16", Format::bf16, kWmmaTile, "product_splits_bf16", kBf16Epsilon, false},
    {"product_wmma_s8", Format::s8, kWmmaTile, "product_splits_s8", kF32Epsilon, false},
    {"product_mma_f16", Format::f16, kMmaTile, "product_splits_f16", kF16Epsilon, true},
    {"product_mma_bf16", Format::bf16, kMmaTile, "product_splits_bf16", kBf16Epsilon, true},
    {"product_mma_tf32", Format::tf32, kMmaTile, "product_splits_f32", kF32Epsilon, true},
    {"product_mma_s8", Format::s8, kMmaTile, "product_splits_s8", kF32Epsilon, true},
    {"product_wgmma_f16", Format::f16, kWgmmaTile, "product_splits_f16", kF16Epsilon, true},
    {"product_wgmma_bf16", Format::bf16, kWgmmaTile, "product_splits_bf16", kBf16Epsilon, true},
    {"product_wgmma_s8", Format::s8, kWgmmaTile, "product_splits_s8", kF32Epsilon, true},
};

// A value of `format`, or a float where d is one (tf32 and s8 operands).
void put(Format format, std::byte* to, float value) {
  const std::uint16_t half = format == Format::f16 ? emulation::encode_f16(value) : emulation::encode_bf16(value);
  const auto byte = static_cast<std::int8_t>(value);
  switch (format) {
    case Format::s8:
      std::memcpy(to, &byte, 1);
      break;
    case Format::tf32:
      std::memcpy(to, &value, 4);
      break;
    default:
      std::memcpy(to, &half, 2);
  }
}

float random_value(Format format, std::mt19937& random) {
  if (format == Format::s8) return static_cast<float>(static_cast<int>(random() % 255) - 127);
  const float value = std::uniform_real_distribution<float>(-1, 1)(random);
  std::byte bytes[4];
  put(format, bytes, value);
  return emulation::decode(format, bytes, 0);
}

struct Matrix {
  std::vector<float> values;
  int rows, columns, stride;
  DeviceBuffer<std::byte> memory;
  Matrix(Format format, int rows_, int columns_, int stride_, std::mt19937& random)
      : values(static_cast<std::size_t>(rows_) * columns_),
        rows(rows_),
        columns(columns_),
        stride(stride_),
        memory(static_cast<std::size_t>(rows_) * stride_ * emulation::bytes_of(format)) {
    for (float& value : values) value = random_value(format, random);
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < columns; ++c) {
        put(format, memory.data() + (static_cast<std::size_t>(r) * stride + c) * emulation::bytes_of(format), at(r, c));
      }
    }
  }
  float at(int row, int column) const { return values[static_cast<std::size_t>(row) * columns + column]; }
};

double activated(ProductActivation activation, double x) {
  switch (activation) {
    case ProductActivation::none:
      return x;
    case ProductActivation::relu:
      return std::max(x, 0.0);
    case ProductActivation::gelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case ProductActivation::silu:
      return x / (1 + std::exp(-x));
    case ProductActivation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case ProductActivation::tanh:
      return std::tanh(x);
  }
  return x;
}

struct Case {
  Shape shape;
  int splits = 1;
  bool epilogue = false;
  ProductActivation activation = ProductActivation::none;
  std::uint64_t seed = 0;
  Landing landing = Landing::late;
};

void launch_packed(const char* kernel, const emulation::LaunchOptions& options, void** arguments) {
  const emulation::PackedKernel call = emulated_kernel(kernel).call;
  emulation::run_grid(options, [&] { call(arguments); });
}

TensorMap map_of(const Matrix& matrix, Format format) {
  const unsigned bytes = emulation::bytes_of(format);
  return emulation::encode_tensor_map(
      {reinterpret_cast<std::uint64_t>(matrix.memory.data()), static_cast<std::uint64_t>(matrix.columns),
       static_cast<std::uint64_t>(matrix.rows), static_cast<std::uint64_t>(matrix.stride) * bytes, bytes, 128 / bytes,
       128, 128});
}

void launch_rung(const Rung& rung, const Case& c, ProductParameters p, const Matrix& a, const Matrix& b) {
  emulation::LaunchOptions options;
  const auto blocks = [](int count, int tile) { return static_cast<unsigned>((count + tile - 1) / tile); };
  options.grid = {blocks(p.columns, rung.tile.columns), blocks(p.rows, rung.tile.rows),
                  static_cast<unsigned>(p.splits)};
  options.block = {static_cast<unsigned>(rung.tile.threads), 1, 1};
  options.seed = c.seed;
  options.landing = c.landing;
  if (std::string_view(rung.name).starts_with("product_wgmma")) {
    options.dynamic_shared_bytes = kWgmmaSharedBytes;
    TensorMap a_map = map_of(a, rung.operands), b_map = map_of(b, rung.operands);
    void* arguments[] = {&a_map, &b_map, &p};
    launch_packed(rung.name, options, arguments);
  } else {
    void* arguments[] = {&p};
    launch_packed(rung.name, options, arguments);
  }
  if (p.partial == nullptr) return;
  options.grid = {blocks(p.rows * p.columns, 256), 1, 1};
  options.block = {256, 1, 1};
  options.dynamic_shared_bytes = 0;
  void* arguments[] = {&p};
  launch_packed(rung.splits, options, arguments);
}

void expect_right(const Rung& rung, const Case& c) {
  SCOPED_TRACE(std::string(rung.name) + ", " + std::to_string(c.shape.rows) + "×" + std::to_string(c.shape.columns) +
               "×" + std::to_string(c.shape.depth) + ", splits " + std::to_string(c.splits) + ", seed " +
               std::to_string(c.seed));
  std::mt19937 random(static_cast<unsigned>(c.seed * 1000 + static_cast<unsigned>(c.shape.depth)));
  const int per_16_bytes = 16 / static_cast<int>(emulation::bytes_of(rung.operands));
  const int unit = rung.needs_16_bytes ? per_16_bytes : 1, stride = (c.shape.depth + unit - 1) / unit * unit + unit;
  const Matrix a(rung.operands, c.shape.rows, c.shape.depth, stride, random),
      b(rung.operands, c.shape.columns, c.shape.depth, stride, random);
  const Format result = rung.operands == Format::s8 ? Format::tf32 : rung.operands;
  const int d_stride = c.shape.columns + 3;
  const Matrix residual(result, c.shape.rows, c.shape.columns, d_stride, random);
  const DeviceBuffer<std::byte> d(static_cast<std::size_t>(c.shape.rows) * d_stride * emulation::bytes_of(result));
  const DeviceBuffer<float> partial(static_cast<std::size_t>(c.splits) * c.shape.rows * c.shape.columns);
  std::vector<float> bias(static_cast<std::size_t>(c.shape.columns)), scale(bias.size());
  for (float& value : bias) value = random_value(Format::tf32, random);
  for (float& value : scale)
    value = rung.operands == Format::s8 ? 0x1p-12f * static_cast<float>(1 + random() % 3) : 0.5f;
  const DeviceBuffer<float> bias_buffer(bias), scale_buffer(scale);
  ProductParameters p{};
  p.a = a.memory.data();
  p.b = b.memory.data();
  p.d = d.data();
  p.rows = c.shape.rows;
  p.columns = c.shape.columns;
  p.depth = c.shape.depth;
  p.a_stride = p.b_stride = stride;
  p.d_stride = d_stride;
  p.splits = c.splits;
  p.partial = c.splits > 1 ? partial.data() : nullptr;
  p.activation = c.activation;
  if (c.epilogue) {
    p.bias = bias_buffer.data();
    p.scale = scale_buffer.data();
    p.residual = residual.memory.data();
  }
  ASSERT_NO_THROW(launch_rung(rung, c, p, a, b));
  EXPECT_TRUE(d.intact() && partial.intact());
  for (int row = 0; row < p.rows; ++row) {
    for (int column = 0; column < p.columns; ++column) {
      double sum = 0, magnitude = 0;
      for (int k = 0; k < p.depth; ++k) {
        const double product = static_cast<double>(a.at(row, k)) * b.at(column, k);
        sum += product;
        magnitude += std::fabs(product);
      }
      const auto at = static_cast<std::size_t>(column);
      const double factor = c.epilogue ? scale[at] : 1;
      const double value = sum * factor + (c.epilogue ? bias[at] + static_cast<double>(residual.at(row, column)) : 0);
      const double expected = activated(c.activation, value);
      // The sum loses an epsilon of float for each step in the worst case, the result one of its type.
      const double allowed =
          2 * rung.epsilon * std::max(std::fabs(expected), 0x1p-14) + kF32Epsilon * (magnitude * factor + 4) * 2;
      const std::size_t place = static_cast<std::size_t>(row) * d_stride + at;
      const float actual = result == Format::tf32 ? reinterpret_cast<const float*>(d.data())[place]
                                                  : emulation::decode(result, d.data(), static_cast<unsigned>(place));
      ASSERT_NEAR(actual, expected, allowed) << "row " << row << ", column " << column;
    }
  }
}

TEST(CudaProducts, RandomOddAndTinyShapes) {
  const Shape shapes[] = {{1, 1, 1}, {3, 5, 7}, {64, 64, 64}, {65, 130, 100}, {17, 129, 33}};
  for (const Rung& rung : kRungs) {
    std::uint64_t seed = 0;
    for (const Shape& shape : shapes) expect_right(rung, {shape, 1, false, ProductActivation::none, seed++});
    if (HasFailure()) return;
  }
}

TEST(CudaProducts, Epilogues) {
  using enum ProductActivation;
  for (const Rung& rung : kRungs) {
    for (const ProductActivation activation : {none, relu, gelu, silu, sigmoid, tanh}) {
      expect_right(rung, {{9, 20, 40}, 1, true, activation, 3});
    }
    if (HasFailure()) return;
  }
}

TEST(CudaProducts, SplitDepth) {
  for (const Rung& rung : kRungs) {
    expect_right(rung, {{20, 30, 300}, 3, true, ProductActivation::relu, 5});
    expect_right(rung, {{5, 6, 40}, 4, false, ProductActivation::none, 6});  // more splits than steps of the depth
    if (HasFailure()) return;
  }
}

// Long pipelines, whose copies land early, late and at random.
TEST(CudaProducts, AnyLandingOfCopies) {
  for (const Rung& rung : kRungs) {
    if (!rung.needs_16_bytes) continue;
    for (const Landing landing : {Landing::late, Landing::early, Landing::random}) {
      for (std::uint64_t seed = 1; seed < 4; ++seed)
        expect_right(rung, {{40, 24, 700}, 1, false, ProductActivation::none, seed, landing});
    }
    if (HasFailure()) return;
  }
}

// Not-a-number in an operand reaches the rows and columns that use it, also through an activation.
TEST(CudaProducts, KeepNotANumber) {
  const DeviceBuffer<float> a(std::vector<float>{1, NAN, 1, 1}), b(std::vector<float>{1, 1, 1, 1}), d(4);
  ProductParameters p{};
  p.a = a.data();
  p.b = b.data();
  p.d = d.data();
  p.rows = p.columns = p.depth = 2;
  p.a_stride = p.b_stride = p.d_stride = 2;
  p.splits = 1;
  p.activation = ProductActivation::relu;
  emulation::launch(emulation::one_block(256), product_tiles_f32, p);
  EXPECT_TRUE(std::isnan(d.values()[0]) && std::isnan(d.values()[1]));
  EXPECT_EQ(d.values()[2], 2);
}

}  // namespace
}  // namespace tessera::cuda
