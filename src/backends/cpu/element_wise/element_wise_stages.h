// The steps of an element-wise program (ops/element_wise/element_wise_program.h) as its kernel runs them: steps of the
// program, some of which a table stands for, and where their results lie.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "ops/element_wise/element_wise_program.h"

namespace tessera::backends::cpu {

using ByteTable = std::array<std::uint8_t, 256>;

// An operator's step, or a table in its place.
struct ProgramStage {
  ops::ElementWiseStep step;
  std::shared_ptr<const ByteTable> table;

  std::size_t operand_count() const { return table != nullptr ? 1 : step.operand_count(); }
  bool is_constant() const { return table == nullptr && step.form->kind == ops::ElementWiseKind::constant; }
  // A table stands for what ends so.
  bool quantises() const { return step.form->kind == ops::ElementWiseKind::quantise; }
  int operations() const { return table != nullptr ? 1 : step.form->operations; }
};

// Values are numbered as in ops/element_wise/element_wise_program.h.
struct ProgramStages {
  std::vector<DType> inputs;
  std::vector<ProgramStage> list;

  const ProgramStage* made_by(std::int64_t value) const {
    return value < static_cast<std::int64_t>(inputs.size()) ? nullptr
                                                            : &list[static_cast<std::size_t>(value) - inputs.size()];
  }
  bool is_quantised(std::int64_t value) const { return type(value) == DType::u8 || type(value) == DType::i8; }
  std::int64_t bytes(std::int64_t value) const { return bits_of(type(value)) / 8; }
  DType type(std::int64_t value) const {
    return made_by(value) != nullptr ? result_type(made_by(value)->step) : inputs[static_cast<std::size_t>(value)];
  }
  std::int64_t value_of(std::size_t stage) const { return static_cast<std::int64_t>(inputs.size() + stage); }
};

// Where results lie: in a register, each a block of floats; the last in the output.
struct ProgramRegisters {
  std::vector<std::size_t> of;  // by stage
  std::size_t count = 0;
};

ProgramStages stages_of(const ops::NodeView& view);

// The stages that `value` needs when `source` is given, in order; nothing when they need another input, or not
// `source`.
std::optional<std::vector<std::size_t>> stages_between(const ProgramStages& stages, std::int64_t source,
                                                       std::int64_t value);

// The stages of a list alone, with the values of `inputs` as inputs.
ProgramStages part_of(const ProgramStages& stages, std::span<const std::int64_t> inputs,
                      std::span<const std::size_t> list);

ProgramRegisters place_registers(const ProgramStages& stages);

}  // namespace tessera::backends::cpu
