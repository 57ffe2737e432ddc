// Speed of the float32 product: bench_gemm [M N K]; one line a shape, the best of several short runs.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <vector>

#include "backends/cpu/gemm_f32.h"
#include "backends/cpu/simd.h"

namespace {

using namespace tessera;
using backends::cpu::GemmF32;
using backends::cpu::GemmOperand;

double best_seconds(const auto& work) {
  double best = 1e9, total = 0;
  for (int run = 0; run < 3 || (total < 0.15 && run < 10000); ++run) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::min(best, seconds);
    total += seconds;
  }
  return best;
}

void measure(std::int64_t m, std::int64_t n, std::int64_t k) {
  const Tensor a(DType::f32, {m, k}), b(DType::f32, {k, n}), c(DType::f32, {m, n});
  for (const Tensor* tensor : {&a, &b, &c}) {
    float* values = static_cast<float*>(const_cast<void*>(tensor->raw()));
    for (std::int64_t i = 0; i < tensor->elements(); ++i) values[i] = static_cast<float>(i % 7) * 0.25f;
  }
  const Tensor packed_a(DType::u8, {backends::cpu::gemm_f32_left_bytes(m, k)}),
      packed_b(DType::u8, {backends::cpu::gemm_f32_right_bytes(k, n)});
  auto* left_data = static_cast<float*>(const_cast<void*>(packed_a.raw()));
  auto* right_data = static_cast<float*>(const_cast<void*>(packed_b.raw()));
  const GemmOperand left = GemmOperand::strided(a.data<float>(), k, 1),
                    right = GemmOperand::strided(b.data<float>(), n, 1);
  gemm_f32_pack_left(left, m, k, left_data);
  gemm_f32_pack_right(right, k, n, right_data);
  auto* to = static_cast<float*>(const_cast<void*>(c.raw()));
  base::ThreadPool& pool = base::ThreadPool::process();
  const base::ThreadPool::CoreLease lease(pool);
  const auto speed = [&](const GemmOperand& l, const GemmOperand& r, int threads) {
    const GemmF32 gemm({m, n, k}, l.packed, r.packed);
    const double seconds = best_seconds([&] {
      pool.parallel_for(gemm.tiles(), 1, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t tile = begin; tile < end; ++tile) gemm.run(tile, l, r, to, n, {});
      });
    });
    return 2e-9 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / seconds;
  };
  const GemmOperand packed_left = GemmOperand::prepacked(left_data), packed_right = GemmOperand::prepacked(right_data);
  fmt::print("{:6} {:6} {:6}  {:8.1f} {:8.1f} {:8.1f} {:8.1f}\n", m, n, k, speed(left, right, 1),
             speed(left, packed_right, 1), speed(packed_left, right, 1), speed(left, packed_right, 0));
}

}  // namespace

int main(int count, char** arguments) {
  backends::cpu::initialise_simd();
  fmt::print(
      "GFLOP/s; one thread but for the last column\n     M      N      K   unpacked B packed A packed threads\n");
  if (count == 4) {
    measure(std::atoll(arguments[1]), std::atoll(arguments[2]), std::atoll(arguments[3]));
    return 0;
  }
  const std::vector<std::array<std::int64_t, 3>> shapes{
      {64, 64, 64},     {256, 256, 256}, {512, 512, 512},  {1024, 1024, 1024}, {128, 768, 768},
      {128, 3072, 768}, {1, 768, 768},   {8, 1024, 1024},  {64, 3136, 64},     {256, 3136, 64},
      {512, 49, 2048},  {24, 12544, 16}, {1760, 16, 1760}, {35, 700, 2048},    {512, 8, 4096}};
  for (const auto& [m, n, k] : shapes) measure(m, n, k);
  return 0;
}
