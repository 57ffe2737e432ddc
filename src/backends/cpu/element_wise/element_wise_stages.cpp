#include "backends/cpu/element_wise/element_wise_stages.h"

#include <algorithm>

namespace tessera::backends::cpu {

ProgramStages stages_of(const ops::NodeView& view) {
  ProgramStages stages;
  for (std::size_t i = 0; i < view.input_count(); ++i) stages.inputs.push_back(view.input(i).dtype);
  for (const ops::ElementWiseStep& step : ops::element_wise_steps(view)) stages.list.push_back({step, nullptr});
  return stages;
}

std::optional<std::vector<std::size_t>> stages_between(const ProgramStages& stages, std::int64_t source,
                                                       std::int64_t value) {
  std::vector<bool> needed(stages.list.size());
  std::vector<std::int64_t> open{value};
  bool reached = false;
  while (!open.empty()) {
    const std::int64_t each = open.back();
    open.pop_back();
    if (each == source) {
      reached = true;
      continue;
    }
    const ProgramStage* stage = stages.made_by(each);
    if (stage == nullptr) return std::nullopt;
    const auto index = static_cast<std::size_t>(stage - stages.list.data());
    if (needed[index]) continue;
    needed[index] = true;
    for (std::size_t i = 0; i < stage->operand_count(); ++i) open.push_back(stage->step.operands[i]);
  }
  if (!reached) return std::nullopt;
  std::vector<std::size_t> list;
  for (std::size_t i = 0; i < needed.size(); ++i) {
    if (needed[i]) list.push_back(i);
  }
  return list;
}

ProgramStages part_of(const ProgramStages& stages, std::span<const std::int64_t> inputs,
                      std::span<const std::size_t> list) {
  ProgramStages part;
  std::vector<std::int64_t> number(stages.inputs.size() + stages.list.size(), -1);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    part.inputs.push_back(stages.type(inputs[i]));
    number[static_cast<std::size_t>(inputs[i])] = static_cast<std::int64_t>(i);
  }
  for (const std::size_t stage : list) {
    ProgramStage moved = stages.list[stage];
    for (std::size_t i = 0; i < moved.operand_count(); ++i)
      moved.step.operands[i] = number[static_cast<std::size_t>(moved.step.operands[i])];
    number[static_cast<std::size_t>(stages.value_of(stage))] = part.value_of(part.list.size());
    part.list.push_back(std::move(moved));
  }
  return part;
}

ProgramRegisters place_registers(const ProgramStages& stages) {
  const std::size_t inputs = stages.inputs.size();
  std::vector<std::size_t> last_use(stages.list.size(), 0);
  for (std::size_t i = 0; i < stages.list.size(); ++i) {
    for (std::size_t k = 0; k < stages.list[i].operand_count(); ++k) {
      const auto operand = static_cast<std::size_t>(stages.list[i].step.operands[k]);
      if (operand >= inputs) last_use[operand - inputs] = i;
    }
  }
  ProgramRegisters registers{std::vector<std::size_t>(stages.list.size()), 0};
  std::vector<bool> taken;
  const auto release = [&](std::size_t user) {
    for (std::size_t i = 0; i < user; ++i) {
      if (last_use[i] == user && !stages.list[i].is_constant()) taken[registers.of[i]] = false;
    }
  };
  for (std::size_t i = 0; i < stages.list.size(); ++i) {
    if (stages.list[i].is_constant()) continue;
    // A result that is wider than its operand must not be written over it.
    bool grows = false;
    for (std::size_t k = 0; k < stages.list[i].operand_count(); ++k)
      grows = grows || stages.bytes(stages.list[i].step.operands[k]) < stages.bytes(stages.value_of(i));
    if (!grows) release(i);
    const auto free = std::find(taken.begin(), taken.end(), false);
    registers.of[i] = static_cast<std::size_t>(free - taken.begin());
    if (free == taken.end()) taken.push_back(true);
    else *free = true;
    if (grows) release(i);
  }
  registers.count = taken.size();
  return registers;
}

}  // namespace tessera::backends::cpu
