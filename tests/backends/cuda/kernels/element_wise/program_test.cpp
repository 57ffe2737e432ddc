// Element-wise programs in the emulation, against the same formulas on the host.
#include "backends/cuda/kernels/element_wise/program.h"

#include <cmath>
#include <vector>

#include "backends/cuda/kernels/typed_buffer.h"
#include "emulation/faults.h"

namespace tessera::cuda {
namespace {

using emulation::DeviceBuffer;
using enum ElementOperation;

emulation::LaunchOptions blocks(unsigned count) {
  emulation::LaunchOptions options = emulation::one_block(256, 3);
  options.grid = {count, 1, 1};
  return options;
}

// Every operation once, on one pair of operands: loads into registers 1 and 2, the result into 0.
struct Formula {
  ElementOperation operation;
  double (*value)(double a, double b);
};
constexpr Formula kFormulas[] = {
    {add, [](double a, double b) { return a + b; }},
    {subtract, [](double a, double b) { return a - b; }},
    {multiply, [](double a, double b) { return a * b; }},
    {divide, [](double a, double b) { return a / b; }},
    {minimum, [](double a, double b) { return std::min(a, b); }},
    {maximum, [](double a, double b) { return std::max(a, b); }},
    {power, [](double a, double b) { return std::pow(a, b); }},
    {less, [](double a, double b) { return a < b ? 1.0 : 0.0; }},
    {equal, [](double a, double b) { return a == b ? 1.0 : 0.0; }},
    {select, [](double a, double b) { return a; }},  // by register 1, which is not 0
    {negate, [](double a, double b) { return -a; }},
    {absolute, [](double a, double b) { return std::fabs(a); }},
    {reciprocal, [](double a, double b) { return 1 / a; }},
    {square_root, [](double a, double b) { return std::sqrt(a); }},
    {exponential, [](double a, double b) { return std::exp(a); }},
    {logarithm, [](double a, double b) { return std::log(a); }},
    {error_function, [](double a, double b) { return std::erf(a); }},
    {sigmoid, [](double a, double b) { return 1 / (1 + std::exp(-a)); }},
    {ElementOperation::tanh, [](double a, double b) { return std::tanh(a); }},
    {relu, [](double a, double b) { return std::max(a, 0.0); }},
    {ElementOperation::floor, [](double a, double b) { return std::floor(a); }},
    {ElementOperation::round, [](double a, double b) { return std::nearbyint(a); }},
};

ElementProgram program_on(std::vector<ElementInstruction> instructions, std::int64_t count) {
  ElementProgram p{};
  std::copy(instructions.begin(), instructions.end(), p.instructions);
  p.length = static_cast<int>(instructions.size());
  p.count = count;
  for (std::int64_t& size : p.sizes) size = 1;
  p.sizes[kProgramAxes - 1] = count;
  return p;
}

template <class T>
void expect_operations(void (*kernel)(ElementProgram)) {
  std::mt19937 random(21);
  std::vector<T> a = random_values<T>(300, 0, random), b = random_values<T>(300, 0, random);
  for (std::size_t i = 0; i < a.size(); ++i) {  // positive, so that every formula has a value
    a[i] = NumberType<T>::encode(std::fabs(NumberType<T>::decode(a[i])) + 0.25f);
    b[i] = i % 10 == 0 ? a[i] : b[i];
  }
  const DeviceBuffer<T> a_buffer(a), b_buffer(b);
  for (const Formula& formula : kFormulas) {
    const DeviceBuffer<T> out(a.size(), sizeof(T));
    ElementProgram p =
        program_on({{load, 1, 0, 0, 0, 0}, {load, 2, 1, 0, 0, 0}, {formula.operation, 0, 1, 2, 1, 0}}, 300);
    p.inputs[0] = a_buffer.data();
    p.inputs[1] = b_buffer.data();
    p.strides[0][kProgramAxes - 1] = p.strides[1][kProgramAxes - 1] = 1;
    p.output = out.data();
    emulation::launch(blocks(1), kernel, p);
    EXPECT_TRUE(out.intact());
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double expected = formula.value(NumberType<T>::decode(a[i]), NumberType<T>::decode(b[i]));
      const double allowed =
          NumberType<T>::kEpsilon * std::max(std::fabs(expected), 0x1p-12) + 1e-6 * (std::fabs(expected) + 1);
      if (std::is_same_v<T, Float16> && std::fabs(expected) > 65504) continue;
      ASSERT_NEAR(NumberType<T>::decode(out.values()[i]), expected, allowed)
          << "operation " << static_cast<int>(formula.operation) << ", element " << i;
    }
  }
}

TEST(CudaElementProgram, EveryOperationInEveryType) {
  expect_operations<float>(element_program_f32);
  expect_operations<Float16>(element_program_f16);
  expect_operations<Bfloat16>(element_program_bf16);
}

// silu(x × scale + bias), the scale per row and the bias per column; more elements than threads.
TEST(CudaElementProgram, BroadcastsAndChains) {
  const int rows = 7, columns = 129;
  std::mt19937 random(22);
  const auto x = random_values<float>(rows * columns, 0, random), scale = random_values<float>(rows, 1, random),
             bias = random_values<float>(columns, 0, random);
  const DeviceBuffer<float> x_buffer(x), scale_buffer(scale), bias_buffer(bias);
  ElementProgram p = program_on({{load, 1, 0, 0, 0, 0},
                                 {load, 2, 1, 0, 0, 0},
                                 {load, 3, 2, 0, 0, 0},
                                 {multiply, 4, 1, 2, 0, 0},
                                 {add, 4, 4, 3, 0, 0},
                                 {sigmoid, 5, 4, 0, 0, 0},
                                 {multiply, 0, 4, 5, 0, 0},
                                 {constant, 6, 0, 0, 0, 2},
                                 {multiply, 0, 0, 6, 0, 0}},
                                rows * columns);
  p.sizes[2] = rows;
  p.sizes[3] = columns;
  p.inputs[0] = x_buffer.data();
  p.inputs[1] = scale_buffer.data();
  p.inputs[2] = bias_buffer.data();
  p.strides[0][2] = columns;
  p.strides[0][3] = p.strides[1][2] = p.strides[2][3] = 1;
  p.output = x_buffer.data();
  emulation::launch(blocks(2), element_program_f32, p);
  EXPECT_TRUE(x_buffer.intact());
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      const auto at = static_cast<std::size_t>(row * columns + column);
      const double sum =
          static_cast<double>(x[at]) * scale[static_cast<std::size_t>(row)] + bias[static_cast<std::size_t>(column)];
      const double expected = 2 * sum / (1 + std::exp(-sum));
      ASSERT_NEAR(x_buffer.values()[at], expected, 8 * 0x1p-23 * (std::fabs(expected) + 8)) << row << ", " << column;
    }
  }
}

TEST(CudaElementProgram, NotANumberWinsMinimumMaximumAndRelu) {
  const DeviceBuffer<float> a(std::vector<float>{NAN, 1}), b(std::vector<float>{1, NAN});
  for (const ElementOperation operation : {minimum, maximum, relu}) {
    const DeviceBuffer<float> out(2);
    ElementProgram p = program_on({{load, 1, 0, 0, 0, 0}, {load, 2, 1, 0, 0, 0}, {operation, 0, 1, 2, 0, 0}}, 2);
    p.inputs[0] = a.data();
    p.inputs[1] = b.data();
    p.strides[0][kProgramAxes - 1] = p.strides[1][kProgramAxes - 1] = 1;
    p.output = out.data();
    emulation::launch(blocks(1), element_program_f32, p);
    EXPECT_TRUE(std::isnan(out.values()[0]));
    EXPECT_EQ(std::isnan(out.values()[1]), operation != relu);
  }
}

}  // namespace
}  // namespace tessera::cuda
