// Quantised products with weights of which whole blocks are zero. Sums are exact: quantised results are those of the
// dense kernel to the bit.
#include <gtest/gtest.h>

#include <random>

#include "backends/cpu/machine/simd.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"
#include "support/tolerance.h"

namespace tessera::backends::cpu::sparse_linear_s8_test {
namespace {

using test::random_tensor;

// [inputs, outputs] in blocks of 16 by 16, of which one in `one_in` is not zero.
Tensor blocks(std::int64_t inputs, std::int64_t outputs, unsigned one_in) {
  Tensor weights = random_tensor(DType::i8, {inputs, outputs}, 2, -128, 127);
  std::mt19937 generator(7);
  for (std::int64_t k = 0; k < inputs; k += 16) {
    for (std::int64_t j = 0; j < outputs; j += 16) {
      if (generator() % one_in == 0) continue;
      for (std::int64_t a = k; a < std::min(k + 16, inputs); ++a)
        for (std::int64_t b = j; b < std::min(j + 16, outputs); ++b)
          weights.mutable_data<std::int8_t>()[a * outputs + b] = 0;
    }
  }
  return weights;
}

struct Form {
  DType data = DType::u8;
  bool real = false, addend = false;
};

test::OpCall call_of(std::int64_t rows, std::int64_t inputs, std::int64_t outputs, const Form& form = {},
                     unsigned one_in = 10) {
  const auto zero = [&](int value) {
    return form.data == DType::u8 ? Tensor::scalar(static_cast<std::uint8_t>(value))
                                  : Tensor::scalar(static_cast<std::int8_t>(value));
  };
  const bool is_signed = form.data == DType::i8;
  test::OpCall call{"tessera::QuantisedLinear",
                    {random_tensor(form.data, {rows, inputs}, 1, is_signed ? -128 : 0, is_signed ? 127 : 255),
                     blocks(inputs, outputs, one_in), random_tensor(DType::f32, {outputs}, 3, -1, 1),
                     Tensor::scalar(0.02f), zero(5), random_tensor(DType::f32, {outputs}, 4, 0.001, 0.002)}};
  if (form.real) {
    call.attributes["activation"] = std::string("Gelu");
    return call;
  }
  call.inputs.emplace_back(Tensor::scalar(0.05f));
  call.inputs.emplace_back(zero(9));
  if (!form.addend) return call;
  call.inputs.emplace_back(random_tensor(form.data, {rows, outputs}, 5, 0, 100));
  call.inputs.emplace_back(Tensor::scalar(0.03f));
  call.inputs.emplace_back(zero(2));
  call.inputs.emplace_back(Tensor::scalar(0.06f));
  call.inputs.emplace_back(zero(3));
  return call;
}

void expect_same_as_dense(const test::OpCall& call) {
  for (const Extensions extensions : kAllExtensions) {
    for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512}) {
      SCOPED_TRACE(fmt::format("{}, instruction set {}, extensions {}", to_string(call.inputs[0].tensor().shape()),
                               static_cast<int>(isa), static_cast<int>(extensions)));
      const ScopedIsa scoped(isa, extensions);
      const Tensor dense = test::run_op_tensor_by(call, "cpu_quantised_linear");
      for (const int threads : {1, 2, 3}) {
        const Tensor y = test::run_op_tensor_by(call, "cpu_quantised_sparse_linear", threads);
        // Real results may be rounded once or twice behind their sums.
        if (y.dtype() == DType::f32) EXPECT_TRUE(test::close_to(y, dense, test::Tolerance::epsilons(DType::f32, 16)));
        else EXPECT_TRUE(identical(y, dense)) << threads << " threads";
      }
    }
  }
}

TEST(CpuQuantisedSparseLinear, GivesWhatTheDenseProductGives) {
  expect_same_as_dense(call_of(1, 256, 128));
  expect_same_as_dense(call_of(3, 259, 131));  // neither whole groups nor whole panels
  expect_same_as_dense(call_of(14, 200, 100, {.data = DType::i8}));
  expect_same_as_dense(call_of(29, 160, 176, {.real = true}));
  expect_same_as_dense(call_of(2, 300, 64, {.addend = true}));
  expect_same_as_dense(call_of(1, 200, 100, {}, 1'000'000));  // panels without any weight
}

TEST(CpuQuantisedSparseLinear, IsTakenOnlyWhereItIsExpectedToWin) {
  EXPECT_EQ(test::chosen_cpu_kernel(call_of(1, 1024, 1024, {}, 20)), "cpu_quantised_sparse_linear");
  EXPECT_EQ(test::chosen_cpu_kernel(call_of(1, 512, 512, {}, 1)), "cpu_quantised_linear");
  EXPECT_EQ(test::chosen_cpu_kernel(call_of(1, 64, 64)), "cpu_quantised_linear");
}

}  // namespace
}  // namespace tessera::backends::cpu::sparse_linear_s8_test
