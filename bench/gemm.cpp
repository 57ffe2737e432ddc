// Speed of products with constant weights and its share of what the machine's arithmetic can do: bench_gemm [precision
// [ROWS COLUMNS DEPTH]].
//
// A line a shape and precision ("f32", "bf16", "int8", "integer" for MatMulInteger, "variable" for a float32 product of
// two variables; "all"), for one thread and for all: the best of several runs, and its share of the best of a loop of
// nothing but multiply-adds (bench_roof), which runs in turn with them, since the speed of a machine drifts.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "backends/cpu/cpu_device.h"
#include "backends/cpu/machine/roof.h"
#include "backends/cpu/machine/simd.h"
#include "ops/core/builder.h"
#include "ops/op_table.h"
#include "plan/choose_kernel.h"
#include "plan/kernel_trial.h"
#include "runtime/memory/weight_store.h"
#include "tests/support/random_tensor.h"

namespace {

using namespace tessera;

struct Precision {
  std::string_view name;
  std::string_view peak;  // of ComputeLoop
  const char* op;
  bool constant_weights = true;
};
constexpr Precision kPrecisions[] = {{"f32", "float32 multiply-add", "tessera::Linear"},
                                     {"bf16", "bf16 dot", "tessera::Linear"},
                                     {"int8", "int8 dot", "tessera::QuantisedLinear"},
                                     {"integer", "int8 dot", "MatMulInteger"},
                                     {"variable", "float32 multiply-add", "MatMul", false}};

struct Product {
  std::int64_t rows, columns, depth;
};

// Squares, DeepBench's (peer_tools/models.py), and those of layers.
constexpr Product kProducts[] = {
    {512, 512, 512},   {1024, 1024, 1024}, {2048, 2048, 2048}, {4096, 4096, 4096}, {16, 1760, 1760}, {128, 1760, 1760},
    {700, 5124, 2048}, {700, 35, 2048},    {1500, 3072, 1024}, {8, 512, 50000},    {64, 64, 64},     {256, 256, 256},
    {128, 768, 768},   {128, 768, 3072},   {1, 768, 768},      {8, 1024, 1024},    {49, 512, 2048},  {3136, 64, 256}};

std::vector<Tensor> operands(const Precision& precision, const Product& product) {
  const auto [rows, columns, depth] = product;
  if (precision.peak != "int8 dot")
    return {test::random_tensor(DType::f32, {rows, depth}, 1), test::random_tensor(DType::f32, {depth, columns}, 2)};
  const Tensor x = test::random_tensor(DType::u8, {rows, depth}, 1, 0, 255),
               w = test::random_tensor(DType::i8, {depth, columns}, 2, -127, 127);
  if (precision.name == "integer") return {x, w, Tensor::scalar<std::uint8_t>(119)};
  return {x,
          w,
          Tensor(),
          Tensor::scalar(0.02f),
          Tensor::scalar<std::uint8_t>(119),
          Tensor::scalar(0.01f),
          Tensor::scalar(2.0f),
          Tensor::scalar<std::uint8_t>(131)};
}

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

const backends::cpu::ComputeLoop& peak_loop(const std::vector<backends::cpu::ComputeLoop>& loops,
                                            std::string_view what) {
  for (std::size_t i = loops.size(); i-- > 0;) {
    if (loops[i].what == what) return loops[i];
  }
  return loops.back();  // no such instructions: the best of float32, by which the numbers are computed then
}

void measure(const Precision& precision, const Product& product, const std::vector<backends::cpu::ComputeLoop>& loops) {
  const std::vector<Tensor> tensors = operands(precision, product);
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  std::vector<ir::ValueId> values;
  std::vector<ops::TensorType> inputs;
  std::vector<const Tensor*> constants;
  for (const Tensor& tensor : tensors) {
    const bool absent = !tensor.has_value(), constant = !absent && !values.empty() && precision.constant_weights;
    inputs.push_back({tensor.dtype(), tensor.shape()});
    constants.push_back(constant ? &tensor : nullptr);
    values.push_back(absent     ? ir::ValueId{}
                     : constant ? builder.constant(tensor)
                                : graph.add_input(values.empty() ? "x" : "w",
                                                  ir::ValueType::tensor(tensor.dtype(), tensor.shape())));
  }
  ir::Attributes attributes;
  if (precision.name == "bf16")
    attributes = {{"precision", std::string("bf16")}, {"output_dtype", static_cast<std::int64_t>(DType::bf16)}};
  const ir::ValueId output = builder.add(precision.op, values, attributes);
  const ir::Node& node = graph.node(graph.order().front());
  const std::vector<ops::TensorType> outputs{{builder.dtype(output), *builder.type(output).shape()}};
  const ops::NodeView view(node, ops::op_of(node), inputs, outputs, constants);
  const backends::KernelEntry& entry = *plan::choose_kernel(backends::cpu_device(), view).entry;
  runtime::PackAtOnce store;
  const backends::cpu::ComputeLoop& loop = peak_loop(loops, precision.peak);
  fmt::print("{:6} {:6} {:6}  {:9} {:21}", product.rows, product.columns, product.depth, precision.name, entry.name);
  const double operations = 2.0 * static_cast<double>(product.rows) * static_cast<double>(product.columns) *
                            static_cast<double>(product.depth);
  const int cores = base::ThreadPool::process().cores();
  for (const int threads : {1, cores}) {
    if (threads == cores && threads == 1) continue;
    const backends::ExecutionResources resources{.host = {&base::ThreadPool::process(), threads}};
    plan::KernelTrial trial(backends::cpu_device(), entry, view, std::vector<Value>(tensors.begin(), tensors.end()),
                            store, resources);
    double best = 1e9, peak = 0;
    trial.run();
    for (int round = 0; round < 6; ++round) {
      peak = std::max(peak, backends::cpu::measure_compute(loop, threads, {.seconds = 0.005, .runs = 2}));
      double total = 0;
      for (int run = 0; run < 1 || (total < 0.03 && run < 10000); ++run) {
        const double seconds = seconds_of([&] { trial.run(); });
        best = std::min(best, seconds);
        total += seconds;
      }
    }
    fmt::print("  {:8.1f} {:5.1f} %", operations / best * 1e-9, 100 * operations / best / peak);
  }
  fmt::print("\n");
}

}  // namespace

int main(int count, char** arguments) {
  backends::cpu::initialise_simd();
  const base::ThreadPool::CoreLease lease(base::ThreadPool::process());
  const std::string_view chosen = count > 1 ? arguments[1] : "all";
  std::vector<Product> products(std::begin(kProducts), std::end(kProducts));
  if (count == 5) products = {{std::atoll(arguments[2]), std::atoll(arguments[3]), std::atoll(arguments[4])}};
  const std::vector<backends::cpu::ComputeLoop> loops = backends::cpu::compute_loops();
  fmt::print("GFLOP/s (int8: Gop/s) and share of the peak, of one thread, of all\n  rows columns depth\n");
  for (const Precision& precision : kPrecisions) {
    if (chosen != "all" && chosen != precision.name) continue;
    for (const Product& product : products) measure(precision, product, loops);
  }
  return 0;
}
