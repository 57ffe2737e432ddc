// Speed of products with weights in the blocks of language models: bench_block_linear [FORMAT].
//
// A line per format and layer of SmolLM2-135M and of a model of 1.2 billion weights, for one thread and for all. For
// one row, GB/s of the weights as the file has them, read from as many copies as the caches cannot hold, and the share
// of the bandwidth at which the machine reads memory; for 512 rows, GFLOP/s and the share of the best of a loop of
// nothing but int8 products. Both peaks are measured in turn with the products, since the speed of a machine drifts.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/cpu_device.h"
#include "backends/cpu/machine/roof.h"
#include "backends/cpu/machine/simd.h"
#include "base/numbers/block_format.h"
#include "ops/core/builder.h"
#include "ops/op_table.h"
#include "plan/choose_kernel.h"
#include "plan/kernel_trial.h"
#include "runtime/memory/weight_store.h"
#include "tests/support/random_tensor.h"

namespace {

using namespace tessera;

constexpr std::int64_t kManyRows = 512, kCopiedBytes = std::int64_t{128} << 20;
constexpr int kRounds = 4;

struct Layer {
  std::string_view name;
  std::int64_t n, k;
};
constexpr Layer kLayers[] = {{"135M query", 576, 576},  {"135M up", 1536, 576},  {"135M down", 576, 1536},
                             {"135M head", 49152, 576}, {"1.2B up", 8192, 2048}, {"1.2B down", 2048, 8192}};

// A product with weights of its own, and the kernel that the planner chooses for it.
class Trial {
 public:
  Trial(std::string_view format, const Layer& layer, std::int64_t rows, int threads)
      : tensors_{test::random_tensor(DType::f32, {rows, layer.k}, 1),
                 Tensor(DType::u8, {layer.n * base::row_bytes(*base::block_format_from_name(format), layer.k)})},
        resources_{.host = {&base::ThreadPool::process(), threads}} {
    std::ranges::fill(tensors_[1].mutable_values<std::uint8_t>(), std::uint8_t{0x21});
    ops::GraphBuilder builder(graph_);
    const ir::ValueId x = graph_.add_input("x", ir::ValueType::tensor(DType::f32, tensors_[0].shape()));
    const ir::ValueId y = builder.add("tessera::BlockLinear", {x, builder.constant(tensors_[1])},
                                      {{"format", std::string(format)}, {"N", layer.n}, {"K", layer.k}});
    for (const Tensor& tensor : tensors_) inputs_.push_back({tensor.dtype(), tensor.shape()});
    outputs_ = {{DType::f32, *builder.type(y).shape()}};
    constants_ = {nullptr, &tensors_[1]};
    const ir::Node& node = graph_.node(graph_.order().front());
    const ops::NodeView view(node, ops::op_of(node), inputs_, outputs_, constants_);
    const backends::KernelEntry& entry = *plan::choose_kernel(backends::cpu_device(), view).entry;
    kernel_ = entry.name;
    trial_ = std::make_unique<plan::KernelTrial>(
        backends::cpu_device(), entry, view, std::vector<Value>(tensors_.begin(), tensors_.end()), store_, resources_);
  }
  void run() { trial_->run(); }
  std::string_view kernel() const { return kernel_; }
  std::int64_t bytes() const { return tensors_[1].bytes(); }

 private:
  std::vector<Tensor> tensors_;
  backends::ExecutionResources resources_;
  ir::Graph graph_;
  std::vector<ops::TensorType> inputs_, outputs_;
  std::vector<const Tensor*> constants_;
  std::string_view kernel_;
  runtime::PackAtOnce store_;
  std::unique_ptr<plan::KernelTrial> trial_;
};

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The best of all loops for int8 products, or of the last kind where the machine has none.
double peak_of_products(int threads) {
  double best = 0;
  const std::vector<backends::cpu::ComputeLoop> loops = backends::cpu::compute_loops();
  const bool has_dot = std::ranges::any_of(loops, [](const auto& loop) { return loop.what == "int8 dot"; });
  for (const backends::cpu::ComputeLoop& loop : loops) {
    if (loop.what == "int8 dot" || (!has_dot && &loop == &loops.back()))
      best = std::max(best, backends::cpu::measure_compute(loop, threads, {.seconds = 0.005, .runs = 2}));
  }
  return best;
}

void measure_one_row(std::string_view format, const Layer& layer, int threads) {
  std::vector<std::unique_ptr<Trial>> copies;
  std::int64_t bytes = 0;
  for (; bytes < kCopiedBytes; bytes += copies.back()->bytes())
    copies.push_back(std::make_unique<Trial>(format, layer, 1, threads));
  const backends::cpu::MemoryLevel memory{"memory", 0, kCopiedBytes / threads};  // as many bytes as the copies have
  double best = 0, peak = 0;
  for (int round = 0; round < kRounds; ++round) {
    peak = std::max(peak, backends::cpu::measure_bandwidth(memory, backends::cpu::stream_loops().front(), threads,
                                                           {.seconds = 0.01, .runs = 1})
                              .bytes_per_second);
    const double seconds = seconds_of([&] {
      for (const auto& copy : copies) copy->run();
    });
    best = std::max(best, static_cast<double>(bytes) / seconds);
  }
  fmt::print("  {:6.1f} GB/s {:5.1f} %", best * 1e-9, 100 * best / peak);
}

void measure_many_rows(std::string_view format, const Layer& layer, int threads) {
  Trial trial(format, layer, kManyRows, threads);
  double best = 0, peak = 0;
  const double operations = 2.0 * kManyRows * static_cast<double>(layer.n) * static_cast<double>(layer.k);
  for (int round = 0; round < kRounds; ++round) {
    peak = std::max(peak, peak_of_products(threads));
    best = std::max(best, operations / seconds_of([&] { trial.run(); }));
  }
  fmt::print("  {:7.1f} GFLOP/s {:5.1f} %", best * 1e-9, 100 * best / peak);
}

}  // namespace

int main(int count, char** arguments) {
  backends::cpu::initialise_simd();
  const base::ThreadPool::CoreLease lease(base::ThreadPool::process());
  const std::vector<std::string_view> formats =
      count > 1 ? std::vector<std::string_view>{arguments[1]} : std::vector<std::string_view>{"q4_0", "q4_1", "q8_0"};
  const int cores = base::ThreadPool::process().cores();
  fmt::print("one row, then {} rows, by one thread and by {}\n", kManyRows, cores);
  for (const std::string_view format : formats) {
    if (!base::block_format_from_name(format)) return fmt::print(stderr, "no format is named '{}'\n", format), 2;
    for (const Layer& layer : kLayers) {
      fmt::print("{:6} {:10} {:24}", format, layer.name, Trial(format, layer, 1, 1).kernel());
      for (const int threads : {1, cores}) {
        if (threads == cores && threads == 1) continue;
        measure_one_row(format, layer, threads);
        measure_many_rows(format, layer, threads);
      }
      fmt::print("\n");
      std::fflush(stdout);
    }
  }
  return 0;
}
