// The product with sparse weights beside that with dense ones, in turn, by structure, shape, density and rows:
//
//   build/release/bench/bench_sparse [--quick] [--precision f32|bf16|int8]
//
// A ratio is the median of those of pairs of runs, so that a busy machine disturbs both sides alike. Above 1 the sparse
// kernel wins. Where no sparse kernel is taken the kernel's name says so.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "ops/core/builder.h"
#include "tessera/session.h"
#include "tests/support/random_tensor.h"

namespace {

using namespace tessera;
using Clock = std::chrono::steady_clock;

struct Case {
  std::string structure;  // "none", "2:4", "16x16": blocks of outputs and inputs, …
  double density;
};

// Weights [outputs, inputs] with zeros.
Tensor weights_of(const Case& given, std::int64_t outputs, std::int64_t inputs) {
  Tensor weights = test::random_tensor(DType::f32, {outputs, inputs}, 1, 0.1, 1);
  float* data = weights.mutable_data<float>();
  std::mt19937 generator(3);
  const auto keeps = [&] { return std::generate_canonical<double, 32>(generator) < given.density; };
  std::int64_t high = 1, wide = 1;
  if (const auto x = given.structure.find('x'); x != std::string::npos) {
    high = std::stoll(given.structure);
    wide = std::stoll(given.structure.substr(x + 1));
  }
  for (std::int64_t i = 0; i < outputs; i += high) {
    for (std::int64_t k = 0; k < inputs; k += wide) {
      if (given.structure == "2:4") {
        if (k % 4 != 0) continue;
        const auto first = static_cast<std::int64_t>(generator() % 4);
        const std::int64_t second = (first + 1 + static_cast<std::int64_t>(generator() % 3)) % 4;
        for (std::int64_t each = 0; each < 4 && k + each < inputs; ++each) {
          if (each != first && each != second) data[i * inputs + k + each] = 0;
        }
        continue;
      }
      if (keeps()) continue;
      for (std::int64_t a = i; a < std::min(i + high, outputs); ++a) {
        for (std::int64_t b = k; b < std::min(k + wide, inputs); ++b) data[a * inputs + b] = 0;
      }
    }
  }
  return weights;
}

enum class Precision { f32, bf16, int8 };

SessionOptions options_of(Precision precision) {
  SessionOptions options;
  if (precision == Precision::bf16) options.precision = DType::bf16;
  return options;
}

class Product {
 public:
  Product(const Tensor& weights, std::int64_t rows, Precision precision)
      : x_(precision == Precision::int8 ? test::random_tensor(DType::u8, {rows, weights.shape()[1]}, 2, 0, 255)
                                        : test::random_tensor(DType::f32, {rows, weights.shape()[1]}, 2, -1, 1)),
        session_(precision == Precision::int8 ? quantised_model(weights) : model(weights), options_of(precision)) {
    run();
  }

  double run() {
    const Clock::time_point begin = Clock::now();
    session_.run({{"x", x_}});
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  std::string kernel() {
    std::vector<StepTiming> timings;
    RunOptions options;
    options.timings = &timings;
    session_.run({{"x", x_}}, options);
    return timings.back().kernel;
  }

 private:
  Model model(const Tensor& weights) const {
    ir::Graph graph;
    ops::GraphBuilder builder(graph);
    const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, x_.shape()));
    const ir::ValueId y = builder.add("Gemm", {x, graph.add_constant(weights)}, {{"transB", std::int64_t{1}}});
    graph.value(y).name = "y";
    graph.add_output(y);
    return Model(std::make_shared<const ir::Graph>(std::move(graph)));
  }

  // Weights are a hundredth of a step each, [inputs, outputs].
  Model quantised_model(const Tensor& weights) const {
    const std::int64_t outputs = weights.shape()[0], inputs = weights.shape()[1];
    Tensor turned(DType::i8, {inputs, outputs});
    for (std::int64_t i = 0; i < outputs; ++i) {
      for (std::int64_t k = 0; k < inputs; ++k)
        turned.mutable_data<std::int8_t>()[k * outputs + i] =
            static_cast<std::int8_t>(100 * weights.data<float>()[i * inputs + k]);
    }
    ir::Graph graph;
    ops::GraphBuilder builder(graph);
    const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::u8, x_.shape()));
    const ir::ValueId step = builder.scalar(0.01), zero = builder.constant(Tensor::scalar(std::uint8_t{128}));
    const ir::ValueId y = builder.add("tessera::QuantisedLinear",
                                      {x, builder.constant(turned), {}, step, zero, step, builder.scalar(1), zero});
    graph.value(y).name = "y";
    graph.add_output(y);
    return Model(std::make_shared<const ir::Graph>(std::move(graph)));
  }

  Tensor x_;
  Session session_;
};

void measure(const Case& given, std::int64_t outputs, std::int64_t inputs, std::int64_t rows, int pairs,
             Precision precision) {
  Product sparse(weights_of(given, outputs, inputs), rows, precision);
  Product dense(test::random_tensor(DType::f32, {outputs, inputs}, 4, 0.1, 1), rows, precision);
  std::vector<double> ratios, times;
  for (int i = 0; i < pairs; ++i) {
    const double with = sparse.run(), without = dense.run();
    ratios.push_back(without / with);
    times.push_back(with);
  }
  std::ranges::nth_element(ratios, ratios.begin() + pairs / 2);
  std::ranges::nth_element(times, times.begin() + pairs / 2);
  fmt::print("| {} x {} | {} | {} | {:g}% | {:.1f} | {:.2f} | {} |\n", outputs, inputs, rows, given.structure,
             100 * given.density, 1e6 * times[static_cast<std::size_t>(pairs / 2)],
             ratios[static_cast<std::size_t>(pairs / 2)], sparse.kernel());
}

}  // namespace

int main(int argc, char** argv) {
  bool quick = false;
  Precision precision = Precision::f32;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--quick") quick = true;
    if (argument == "bf16") precision = Precision::bf16;
    if (argument == "int8") precision = Precision::int8;
  }
  const int pairs = quick ? 101 : 301;
  std::vector<Case> cases{{"2:4", 0.5}};
  for (const double density : {0.02, 0.05, 0.1, 0.2, 0.3, 0.5}) {
    for (const char* structure : {"none", "16x16", "4x4"}) cases.push_back({structure, density});
  }
  std::vector<std::int64_t> sizes{1024};
  if (!quick) sizes = {256, 1024, 4096};
  fmt::print("| outputs x inputs | rows | structure | density | µs | times as fast as dense | kernel |\n");
  fmt::print("|---|---|---|---|---|---|---|\n");
  for (const std::int64_t size : sizes) {
    for (const std::int64_t rows : {1, 2, 4, 16, 64}) {
      for (const Case& given : cases)
        measure(given, size, size, rows, size > 2048 || rows > 4 ? pairs / 5 : pairs, precision);
    }
  }
}
