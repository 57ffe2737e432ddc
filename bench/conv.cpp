// Speed of float32 convolutions as they occur in known nets: bench_conv [threads [part of a name]]; the best of several
// short runs.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <vector>

#include "backends/cpu/cpu_device.h"
#include "ops/op_table.h"
#include "plan/choose_kernel.h"
#include "plan/kernel_trial.h"
#include "runtime/memory/weight_store.h"
#include "tests/support/random_tensor.h"

namespace {

using namespace tessera;

struct Layer {
  const char* name;
  std::int64_t channels, size, outputs, kernel, stride, group, dilation = 1;
};

void measure(const Layer& layer, int threads) {
  const auto [name, channels, size, outputs, kernel, stride, group, dilation] = layer;
  const std::int64_t pad = kernel / 2 * dilation, extent = (kernel - 1) * dilation + 1;
  const std::int64_t out = (size + 2 * pad - extent) / stride + 1;
  const Tensor x = test::random_tensor(DType::f32, {1, channels, size, size}, 1);
  const Tensor w = test::random_tensor(DType::f32, {outputs, channels / group, kernel, kernel}, 2);
  const Tensor b = test::random_tensor(DType::f32, {outputs}, 3);
  ir::Node node{"Conv",
                "conv",
                {{0}, {1}, {2}},
                {{3}},
                {{"group", group},
                 {"strides", std::vector<std::int64_t>{stride, stride}},
                 {"dilations", std::vector<std::int64_t>{dilation, dilation}},
                 {"pads", std::vector<std::int64_t>(4, pad)}},
                0};
  const std::vector<ops::TensorType> inputs{{DType::f32, x.shape()}, {DType::f32, w.shape()}, {DType::f32, b.shape()}};
  const std::vector<ops::TensorType> output_types{{DType::f32, {1, outputs, out, out}}};
  const std::vector<const Tensor*> constants{nullptr, &w, &b};
  const ops::NodeView view(node, ops::op_of(node), inputs, output_types, constants);
  runtime::PackAtOnce store;
  const auto& entry = *plan::choose_kernel(backends::cpu_device(), view).entry;
  const backends::ExecutionResources resources{.host = {&base::ThreadPool::process(), threads}};
  plan::KernelTrial trial(backends::cpu_device(), entry, view, {x, w, b}, store, resources);
  double best = 1e9, total = 0;
  for (int run = 0; run < 3 || (total < 0.1 && run < 1000); ++run) {
    const auto start = std::chrono::steady_clock::now();
    trial.run();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::min(best, seconds);
    total += seconds;
  }
  const double operations = 2.0 * static_cast<double>(out * out * outputs * channels / group * kernel * kernel);
  fmt::print("{:28} {:28} {:8.3f} ms {:8.1f} GFLOP/s\n", name, entry.name, best * 1e3, operations / best * 1e-9);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view only = count > 2 ? arguments[2] : "";
  const int threads = count > 1 ? std::atoi(arguments[1]) : 1;
  const base::ThreadPool::CoreLease lease(base::ThreadPool::process());
  constexpr Layer layers[] = {
      {"resnet conv1 7x7/2", 3, 224, 64, 7, 2, 1},         {"resnet 3x3 64@56", 64, 56, 64, 3, 1, 1},
      {"resnet 3x3 128@28", 128, 28, 128, 3, 1, 1},        {"resnet 3x3 256@14", 256, 14, 256, 3, 1, 1},
      {"resnet 3x3 512@7", 512, 7, 512, 3, 1, 1},          {"resnet 1x1 64-256@56", 64, 56, 256, 1, 1, 1},
      {"resnet 1x1 256-64@56", 256, 56, 64, 1, 1, 1},      {"resnet 1x1/2 256-512@56", 256, 56, 512, 1, 2, 1},
      {"resnet 1x1 2048-512@7", 2048, 7, 512, 1, 1, 1},    {"resnet 3x3/2 128@56", 128, 56, 128, 3, 2, 1},
      {"mobilenet 3x3/2 3-32@224", 3, 224, 32, 3, 2, 1},   {"mobilenet 1x1 32-16@112", 32, 112, 16, 1, 1, 1},
      {"mobilenet 1x1 16-96@112", 16, 112, 96, 1, 1, 1},   {"mobilenet 1x1 24-144@56", 24, 56, 144, 1, 1, 1},
      {"mobilenet 1x1 320-1280@7", 320, 7, 1280, 1, 1, 1}, {"depthwise 3x3 96@112", 96, 112, 96, 3, 1, 96},
      {"depthwise 3x3/2 96@112", 96, 112, 96, 3, 2, 96},   {"depthwise 3x3 144@56", 144, 56, 144, 3, 1, 144},
      {"depthwise 3x3 384@14", 384, 14, 384, 3, 1, 384},   {"depthwise 3x3 960@7", 960, 7, 960, 3, 1, 960},
      {"depthwise 5x5 120@28", 120, 28, 120, 5, 1, 120},   {"grouped 3x3 128@56 g32", 128, 56, 128, 3, 1, 32},
      {"dilated 3x3 256@20 d2", 256, 20, 256, 3, 1, 1, 2}, {"dilated 3x3 256@20 d12", 256, 20, 256, 3, 1, 1, 12},
      {"dilated 3x3 256@64 d6", 256, 64, 256, 3, 1, 1, 6}};
  for (const Layer& layer : layers) {
    if (std::string_view(layer.name).find(only) != std::string_view::npos) measure(layer, threads);
  }
  return 0;
}
