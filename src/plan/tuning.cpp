#include "plan/tuning.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/error.h"
#include "base/no_memory.h"
#include "base/numbers/half.h"
#include "base/numbers/philox.h"
#include "ir/text.h"
#include "ops/symbols.h"
#include "plan/kernel_trial.h"

namespace tessera::plan {
namespace {

constexpr double kClearlyFaster = 0.97;    // of the time of the kernel that would be taken without measuring
constexpr double kHopeless = 2;            // times the best time so far: not measured further
constexpr double kSecondsOfKernel = 0.04;  // timed runs of each kernel
constexpr int kFewestRuns = 5, kMostRuns = 20;
constexpr std::int64_t kMostEvicted = std::int64_t{48} << 20;  // more than a core's part of the last-level cache
constexpr std::int64_t kCacheLine = 64;

std::string type_text(const ops::TensorType& type) {
  return fmt::format("{}{}", name_of(type.dtype), to_string(type.shape));
}

// Clears the caches of weights between two runs of a kernel, as the weights of other layers do in a model.
class CacheEviction {
 public:
  CacheEviction(std::int64_t bytes, const backends::ExecutionResources& resources) {
    try {
      bytes_ = resources.allocate(DType::u8, {std::min(bytes, kMostEvicted)});
      std::fill_n(bytes_.mutable_data<std::uint8_t>(), bytes_.elements(), std::uint8_t{1});
    } catch (const Error&) {
      // Under a tight memory limit, weights are measured as they are in the caches.
    }
  }
  void evict() const { read(bytes_); }

  static void read(const Tensor& tensor) {
    if (!tensor.has_value() || tensor.dtype() == DType::string) return;
    const auto* bytes = static_cast<const std::uint8_t*>(tensor.raw());
    std::uint32_t sum = 0;
    for (std::int64_t i = 0; i < tensor.bytes(); i += kCacheLine) sum += bytes[i];
    asm volatile("" : : "r"(sum));
  }

 private:
  Tensor bytes_;
};

// Random numbers like those of real data: floats in [-1, 1), or any byte. Other integers are zeros, which are valid
// indices.
Tensor plausible(const ops::TensorType& type, const backends::ExecutionResources& resources) {
  Tensor tensor = resources.allocate(type.dtype, type.shape);
  if (type.dtype == DType::string) return tensor;
  base::Philox random(1);
  const auto fill = [&](auto* to, auto make) {
    for (std::int64_t i = 0; i < tensor.elements(); ++i) to[i] = make(random.next_u32());
  };
  const auto real = [](std::uint32_t bits) { return static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-31f; };
  switch (type.dtype) {
    case DType::f32:
      fill(tensor.mutable_data<float>(), real);
      break;
    case DType::bf16:
      fill(tensor.mutable_data<bf16_t>(), [&](std::uint32_t bits) { return base::to_bf16(real(bits)); });
      break;
    case DType::f16:
      fill(tensor.mutable_data<f16_t>(), [&](std::uint32_t bits) { return base::to_f16(real(bits)); });
      break;
    case DType::u8:
      fill(tensor.mutable_data<std::uint8_t>(), [](std::uint32_t bits) { return static_cast<std::uint8_t>(bits); });
      break;
    case DType::i8:
      fill(tensor.mutable_data<std::int8_t>(), [](std::uint32_t bits) { return static_cast<std::int8_t>(bits); });
      break;
    default:
      std::fill_n(static_cast<std::byte*>(tensor.mutable_raw()), tensor.bytes(), std::byte{0});
  }
  return tensor;
}

struct Candidate {
  std::string_view name;
  std::unique_ptr<KernelTrial> trial;
  double best = 0;  // seconds
};

// Seconds of one run that began with only its data and results in the caches, not the weights.
double timed_run(Candidate& candidate, const std::vector<Tensor>& data, const CacheEviction& eviction) {
  eviction.evict();
  for (const Tensor& each : data) CacheEviction::read(each);
  for (const Value& each : candidate.trial->outputs()) {
    if (each.is_tensor()) CacheEviction::read(each.tensor());
  }
  const auto start = std::chrono::steady_clock::now();
  candidate.trial->run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

MeasuredKernels measure(const backends::Device& device, const ops::NodeView& view, backends::WeightStore& weights,
                        const CacheEviction& eviction, const backends::ExecutionResources& resources) {
  std::vector<Value> inputs;
  std::vector<Tensor> data;
  for (std::size_t i = 0; i < view.input_count(); ++i) {
    if (!view.has_input(i)) inputs.emplace_back();
    else if (view.constant(i) != nullptr) inputs.emplace_back(*view.constant(i));
    else inputs.emplace_back(data.emplace_back(plausible(view.input(i), resources)));
  }
  std::vector<Candidate> candidates;
  for (const backends::KernelEntry* entry : accepting_kernels(device, view)) {
    try {
      base::with_memory_errors([&] {
        Candidate candidate{entry->name,
                            std::make_unique<KernelTrial>(device, *entry, view, inputs, weights, resources)};
        candidate.trial->run();
        candidate.best = timed_run(candidate, data, eviction);
        candidates.push_back(std::move(candidate));
      });
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::cancelled)
        throw;  // the kernel may exceed the session's memory, or fail on such data: others can be measured
    }
  }
  MeasuredKernels measured;
  if (candidates.empty()) return measured;
  const auto best_of = [&] { return std::ranges::min_element(candidates, {}, &Candidate::best); };
  const int runs = static_cast<int>(
      std::clamp(kSecondsOfKernel / best_of()->best, static_cast<double>(kFewestRuns), static_cast<double>(kMostRuns)));
  // Kernels take turns, so that disturbances by other work on the machine meet all of them; none is given up after a
  // single time, which may have been disturbed.
  for (int i = 0; i < runs; ++i) {
    for (Candidate& candidate : candidates) {
      if (i == 0 || candidate.best <= kHopeless * best_of()->best)
        candidate.best = std::min(candidate.best, timed_run(candidate, data, eviction));
    }
  }
  for (const Candidate& candidate : candidates) measured.seconds.emplace(candidate.name, candidate.best);
  const auto usual = std::ranges::find(candidates, choose_kernel(device, view).entry->name, &Candidate::name);
  measured.fastest =
      usual == candidates.end() || best_of()->best < kClearlyFaster * usual->best ? best_of()->name : usual->name;
  return measured;
}

}  // namespace

std::string tuning_key(const ops::NodeView& view, int threads) {
  std::string key(view.op().name);
  ir::Attributes attributes = view.node().attributes;
  attributes.insert(ops::attributes_of_symbol(view.node()).begin(), ops::attributes_of_symbol(view.node()).end());
  if (!attributes.empty()) key += " " + ir::print(attributes);
  key += " (";
  for (std::size_t i = 0; i < view.input_count(); ++i) {
    key += i > 0 ? ", " : "";
    key += view.has_input(i) ? type_text(view.input(i)) + (view.constant(i) != nullptr ? " constant" : "") : "none";
  }
  key += ") ->";
  for (std::size_t i = 0; i < view.output_count(); ++i)
    key += view.wants_output(i) ? " " + type_text(view.output(i)) : " none";
  return key + fmt::format(", {} thread{}", threads, threads == 1 ? "" : "s");
}

std::vector<MeasuredKernels> Tuner::choose(const Plan& plan, const std::vector<StepOperands>& operands,
                                           const backends::Device& device, backends::WeightStore& weights,
                                           const backends::ExecutionResources& resources) {
  std::vector<MeasuredKernels> choices(operands.size());
  if (!device.computes()) return choices;
  const int threads = resources.threads();
  std::lock_guard lock(mutex_);
  std::vector<std::string> keys(operands.size());
  std::map<std::string, std::size_t, std::less<>> unknown;  // a step that has the key
  const auto view_of = [&](std::size_t i) {
    const Step& step = plan.steps[operands[i].step];
    return ops::NodeView(plan.graph.node(step.node), *step.op, operands[i].inputs, operands[i].outputs,
                         operands[i].constants);
  };
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const ops::NodeView view = view_of(i);
    const std::vector<const backends::KernelEntry*> entries = accepting_kernels(device, view);
    if (entries.size() < 2) continue;
    keys[i] = tuning_key(view, threads);
    const auto known = table_.find(keys[i]);
    const bool usable = known != table_.end() && std::ranges::any_of(entries, [&](const backends::KernelEntry* entry) {
                          return entry->name == known->second.fastest;
                        });
    if (!usable) unknown.emplace(keys[i], i);
  }
  if (!unknown.empty()) {
    const CacheEviction eviction(plan.constant_bytes, resources);
    std::size_t done = 0;
    for (const auto& [key, i] : unknown) {
      const ops::NodeView view = view_of(i);
      if (progress_) progress_(view.op().name, static_cast<double>(done++) / static_cast<double>(unknown.size()));
      try {
        MeasuredKernels measured = measure(device, view, weights, eviction, resources);
        if (!measured.fastest.empty()) table_.insert_or_assign(key, std::move(measured));
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::over_budget)
          throw;  // if there is no memory for measuring, the device's order stands
      }
    }
    if (progress_) progress_("", 1);
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (const auto found = table_.find(keys[i]); !keys[i].empty() && found != table_.end()) choices[i] = found->second;
  }
  return choices;
}

TuningTable Tuner::table() const {
  std::lock_guard lock(mutex_);
  return table_;
}

}  // namespace tessera::plan
