#include "runtime/memory/weight_arrival.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>

#include "base/cpu_info.h"
#include "cost/machine.h"
#include "cost/transfer_groups.h"

namespace tessera::runtime {
namespace {

// How long a run may go on waiting after it was cancelled.
constexpr std::chrono::milliseconds kPatience{10};
// Of a group: the calls that read it and the wake-up of who waits. And of a disk of which nothing is known.
constexpr double kGroupSeconds = 30e-6, kUsualBytesPerSecond = 2e9;

const Tensor* constant_of(const plan::Plan& plan, std::int32_t index) {
  if (index < 0) return nullptr;
  const plan::Slot& slot = plan.slots[static_cast<std::size_t>(index)];
  const plan::Slot& root = slot.place == plan::Place::alias ? plan.slots[static_cast<std::size_t>(slot.source)] : slot;
  const bool has_bytes =
      root.place == plan::Place::constant && root.constant.dtype() != DType::string && root.constant.bytes() > 0;
  return has_bytes ? &root.constant : nullptr;
}

void for_each_stored_constant(const ir::Graph& graph, const std::function<void(const Tensor&)>& visit) {
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    const Tensor* constant = graph.constant(ir::ValueId{static_cast<std::int32_t>(i)});
    if (constant != nullptr && constant->dtype() != DType::string && constant->bytes() > 0) visit(*constant);
  }
}

}  // namespace

void for_each_weights(const plan::Plan& plan, const plan::Step& step,
                      const std::function<void(const StepWeights&)>& visit) {
  if (step.kind == plan::StepKind::alias) return;
  for (const plan::UsedPacking& packing : step.packings) {
    StepWeights weights{nullptr, packing.packed.get(), false};
    for (const std::int32_t input : step.inputs) {
      const Tensor* constant = constant_of(plan, input);
      if (constant != nullptr && constant->storage() == packing.storage) weights.constant = constant;
    }
    visit(weights);
  }
  for (const std::int32_t input : step.inputs) {
    const Tensor* constant = constant_of(plan, input);
    if (constant == nullptr) continue;
    const bool packed = std::ranges::any_of(
        step.packings, [&](const plan::UsedPacking& packing) { return packing.storage == constant->storage(); });
    const auto bytes = static_cast<double>(constant->bytes());
    if (!packed) visit({constant, nullptr, step.kind == plan::StepKind::kernel && step.cost.bytes_read < bytes / 2});
  }
}

std::vector<io::FirstUse> first_uses(const plan::Plan& plan, const ir::Graph& graph) {
  std::set<const void*> in_graph;
  for_each_stored_constant(graph, [&](const Tensor& constant) { in_graph.insert(constant.storage()); });
  std::vector<io::FirstUse> whole, parts;
  for (const plan::Step& step : plan.steps) {
    for_each_weights(plan, step, [&](const StepWeights& weights) {
      if (weights.packed != nullptr) {
        whole.push_back({{}, weights.packed->data.get(), io::PieceUse::whole});
      } else if (in_graph.contains(weights.constant->storage()) && !weights.constant->is_deferred()) {
        const io::PieceUse use = weights.in_part ? io::PieceUse::parts : io::PieceUse::whole;
        (weights.in_part ? parts : whole).push_back({*weights.constant, nullptr, use});
      }
    });
  }
  whole.insert(whole.end(), parts.begin(), parts.end());
  return whole;
}

WeightArrival::WeightArrival(const plan::Plan& plan, const ir::Graph& source, const io::PackageOrigin& package,
                             int threads)
    : stream_(package.stream), packings_(package.packings) {
  for (const plan::Step& step : plan.steps) {
    add_step(plan, step);
    ends_.push_back(pieces_.size());
  }
  add_rest(plan, source);
  for (std::vector<std::size_t>* list : {&rest_, &all_}) {
    std::ranges::sort(*list);
    list->erase(std::ranges::unique(*list).begin(), list->end());
  }
  if (!stream_->is_complete()) choose_groups(plan, threads);
}

void WeightArrival::add(const void* data, std::int64_t bytes, std::vector<std::size_t>& to) const {
  const std::vector<std::size_t> found = stream_->find(data, bytes);
  to.insert(to.end(), found.begin(), found.end());
}

void WeightArrival::add_step(const plan::Plan& plan, const plan::Step& step) {
  if (step.kind == plan::StepKind::late) {  // its kernel may find any packing of its constants
    for (const std::int32_t input : step.inputs) {
      const Tensor* constant = constant_of(plan, input);
      if (constant == nullptr || constant->is_deferred()) continue;
      for (const std::span<const std::byte> packing : packings_->all_of(constant->raw()))
        add(packing.data(), static_cast<std::int64_t>(packing.size()), pieces_);
    }
  }
  for_each_weights(plan, step, [this](const StepWeights& weights) {
    if (weights.packed != nullptr) add(weights.packed->data.get(), weights.packed->bytes, pieces_);
    else if (!weights.constant->is_deferred())
      add(weights.constant->raw(), weights.constant->bytes(), weights.in_part ? rest_ : pieces_);
  });
}

void WeightArrival::add_rest(const plan::Plan& plan, const ir::Graph& source) {
  for (const std::int32_t output : plan.output_slots) {
    const Tensor* constant = constant_of(plan, output);
    if (constant != nullptr && !constant->is_deferred()) add(constant->raw(), constant->bytes(), rest_);
  }
  std::set<const void*> kept;
  for_each_stored_constant(plan.graph, [&](const Tensor& constant) { kept.insert(constant.storage()); });
  for_each_stored_constant(source, [&](const Tensor& constant) {
    if (!kept.contains(constant.storage()) && !constant.is_deferred()) add(constant.raw(), constant.bytes(), rest_);
  });
  all_ = pieces_;
  all_.insert(all_.end(), rest_.begin(), rest_.end());
}

// The stages of the pipeline are the pieces in the order in which they are read; a step computes in the stage of the
// last piece that it needs.
void WeightArrival::choose_groups(const plan::Plan& plan, int threads) {
  const double usual = stream_->bytes_per_second();
  const double bytes_per_second = usual > 0 ? usual : kUsualBytesPerSecond;
  std::vector<std::size_t> places(stream_->pieces().size(), 0);
  std::vector<cost::TransferStage> stages;
  for (const io::PieceUse use : {io::PieceUse::whole, io::PieceUse::parts}) {
    for (std::size_t i = 0; i < stream_->pieces().size(); ++i) {
      if (stream_->pieces()[i].use != use) continue;
      places[i] = stages.size();
      stages.push_back({static_cast<double>(stream_->pieces()[i].bytes.size()) / bytes_per_second, 0});
    }
  }
  if (stages.empty()) return;
  const cost::Machine machine(base::cpu_info());
  const int cores = threads > 0 ? threads : base::cpu_info().usable_cores;
  std::size_t stage = 0, begin = 0;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    for (; begin < ends_[i]; ++begin) stage = std::max(stage, places[pieces_[begin]]);
    stages[stage].compute_seconds +=
        machine.bytes_from_memory(plan.steps[i].cost) / (machine.bytes_per_second * std::max(1, cores));
  }
  stream_->set_groups(cost::choose_transfer_groups(stages, kGroupSeconds));
}

bool WeightArrival::is_complete() const {
  return std::ranges::all_of(all_, [this](std::size_t piece) { return stream_->has(piece); });
}

void WeightArrival::wait_for_step(std::size_t step, RunControl& control) const {
  const std::size_t begin = step > 0 ? ends_[step - 1] : 0;
  wait(std::span(pieces_).subspan(begin, ends_[step] - begin), control);
}

void WeightArrival::wait_for_all(RunControl& control) const {
  wait(all_, control);
}

void WeightArrival::wait_for_rest(RunControl& control) const {
  wait(rest_, control);
}

void WeightArrival::wait(std::span<const std::size_t> pieces, RunControl& control) const {
  for (const std::size_t piece : pieces) {
    if (stream_->has(piece)) continue;
    const WithoutCore without_core(control);
    while (!stream_->wait_for(piece, kPatience)) control.resources.check_stop();
  }
}

}  // namespace tessera::runtime
