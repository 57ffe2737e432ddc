// The stages of an element-wise program (ops/element_wise/element_wise_program.h) as its kernel runs them: steps of the
// program or tables that replace them, and the registers of their results.
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

// A step of the program, or a table that replaces steps.
struct ProgramStage {
  ops::ElementWiseStep step;
  std::shared_ptr<const ByteTable> table;

  std::size_t operand_count() const { return table != nullptr ? 1 : step.operand_count(); }
  bool is_constant() const { return table == nullptr && step.form->kind == ops::ElementWiseKind::constant; }
  // Whether the stage ends in bytes, so that a table may replace the steps up to it.
  bool quantises() const { return step.form->kind == ops::ElementWiseKind::quantise; }
  int operations() const { return table != nullptr ? 1 : step.form->operations; }
};

// The stages of a program. Values are numbered as in ops/element_wise/element_wise_program.h.
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

// The places of results: registers, each a block of floats; the last result is in the output.
struct ProgramRegisters {
  std::vector<std::size_t> of;  // by stage
  std::size_t count = 0;
};

ProgramStages stages_of(const ops::NodeView& view);

// Returns the stages that compute `value` from `source`, in order; nothing if they need another input, or do not need
// `source`.
std::optional<std::vector<std::size_t>> stages_between(const ProgramStages& stages, std::int64_t source,
                                                       std::int64_t value);

// A part of the stages as a program of its own, with the values `inputs` as its inputs.
ProgramStages part_of(const ProgramStages& stages, std::span<const std::int64_t> inputs,
                      std::span<const std::size_t> list);

ProgramRegisters place_registers(const ProgramStages& stages);

}  // namespace tessera::backends::cpu
