// Chains and small graphs of element-wise operators in one pass over their operands: a block of elements that stays in
// the first-level cache goes through every step before the next block is read. Each step calls the line of the
// operator's own kernel, so results are equal bit for bit. A sequence of steps from one byte to another is replaced by
// a look-up in a table of 256 entries, however long it is.
#include "ops/element_wise/element_wise_program.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backends/cpu/element_wise/cast.h"
#include "backends/cpu/element_wise/comparison.h"
#include "backends/cpu/element_wise/element_wise_binary.h"
#include "backends/cpu/element_wise/element_wise_stages.h"
#include "backends/cpu/element_wise/element_wise_unary.h"
#include "backends/cpu/element_wise/kernels.h"
#include "backends/cpu/element_wise/look_up_bytes.h"
#include "backends/cpu/element_wise/quantisation_rows.h"
#include "base/assert.h"
#include "base/numbers/checked.h"

namespace tessera::backends::cpu {
namespace {

using Kind = ops::ElementWiseKind;

constexpr std::int64_t kBlock = 1024;
constexpr std::size_t kMostRegisters = 8;  // with blocks of floats: 32 KiB
// Operations on elements per chunk, and the limits of elements per chunk.
constexpr std::int64_t kGrainOperations = 1 << 17, kMostGrain = 1 << 15, kLeastGrain = 1 << 11;

// With many shorter lines that cannot be run several at a time, starting each would cost more than its elements.
constexpr std::int64_t kShortLine = 16, kManyElements = 1 << 14;

class Program {
 public:
  // `moves`: which inputs advance along a line; others repeat one element.
  Program(ProgramStages stages, const std::vector<bool>& moves)
      : stages_(std::move(stages)), registers_(place_registers(stages_)), rows_(quantisation_rows()), moves_(moves) {
    TESSERA_ASSERT(registers_.count <= kMostRegisters, "the kernel was rejected for programs that keep more values");
    for (const ProgramStage& stage : stages_.list) {
      bool any = false;
      for (std::size_t i = 0; i < stage.operand_count(); ++i) any = any || operand_moves(stage, i);
      lines_.push_back(stage.table == nullptr ? line_of(stage) : Line{});
      moves_.push_back(any);
    }
  }

  // The operations per element.
  std::int64_t operations() const {
    return std::accumulate(stages_.list.begin(), stages_.list.end(), std::int64_t{0},
                           [](std::int64_t sum, const ProgramStage& stage) { return sum + stage.operations(); });
  }

  // Computes `count` elements of a line.
  void run(std::span<const std::byte* const> inputs, std::byte* output, std::int64_t count) const {
    alignas(64) float registers[kMostRegisters][kBlock];
    std::array<const std::byte*, kMostValues> values;
    for (std::size_t i = 0; i < stages_.list.size(); ++i) {
      values[inputs.size() + i] = stages_.list[i].is_constant()
                                      ? reinterpret_cast<const std::byte*>(stages_.list[i].step.parameters.data())
                                      : reinterpret_cast<const std::byte*>(registers[registers_.of[i]]);
    }
    const std::int64_t output_bytes = stages_.bytes(stages_.value_of(stages_.list.size() - 1));
    for (std::int64_t begin = 0; begin < count; begin += kBlock) {
      const std::int64_t block = std::min(kBlock, count - begin);
      for (std::size_t i = 0; i < inputs.size(); ++i)
        values[i] = inputs[i] + (moves_[i] ? begin * stages_.bytes(static_cast<std::int64_t>(i)) : 0);
      for (std::size_t i = 0; i < stages_.list.size(); ++i) {
        if (stages_.list[i].is_constant()) continue;
        std::byte* result = i + 1 == stages_.list.size() ? output + begin * output_bytes
                                                         : reinterpret_cast<std::byte*>(registers[registers_.of[i]]);
        run_stage(i, values, result, moves_[inputs.size() + i] ? block : 1);
      }
    }
  }

 private:
  static constexpr std::size_t kMostValues = Broadcast::kMaxOperands + ops::kMostElementWiseSteps;

  struct Line {
    BinaryLine binary = nullptr;
    RowActivation unary;
    CastLine cast = nullptr;
  };

  bool operand_moves(const ProgramStage& stage, std::size_t operand) const {
    return moves_[static_cast<std::size_t>(stage.step.operands[operand])];
  }

  // The line of a stage, depending on which of its operands advance.
  Line line_of(const ProgramStage& stage) const {
    const std::string_view name = stage.step.form->name;
    Line line;
    switch (stage.step.form->kind) {
      case Kind::binary:
        line.binary = f32_arithmetic_line(name, operand_moves(stage, 0), operand_moves(stage, 1));
        break;
      case Kind::comparison:
        line.binary = f32_comparison_line(name, operand_moves(stage, 0), operand_moves(stage, 1));
        break;
      case Kind::logic:
        line.binary = logic_line(name, operand_moves(stage, 0), operand_moves(stage, 1));
        break;
      case Kind::unary:
      case Kind::activation:
        line.unary = row_activation(name, stage.step.parameters);
        break;
      case Kind::test:
        if (name == "ToBool") line.cast = cast_line(DType::f32, DType::boolean);
        break;
      case Kind::widen:
        line.cast = cast_line(stages_.type(stage.step.operands[0]), DType::f32);
        break;
      default:
        break;
    }
    return line;
  }

  void run_stage(std::size_t i, const std::array<const std::byte*, kMostValues>& values, std::byte* result,
                 std::int64_t count) const {
    const ProgramStage& stage = stages_.list[i];
    const std::byte* x = values[static_cast<std::size_t>(stage.step.operands[0])];
    if (stage.table != nullptr)
      return look_up_(reinterpret_cast<const std::uint8_t*>(x), reinterpret_cast<std::uint8_t*>(result), count,
                      stage.table->data());
    const auto [a, b] = stage.step.parameters;
    const auto* reals = reinterpret_cast<const float*>(x);
    auto* y = reinterpret_cast<float*>(result);
    switch (stage.step.form->kind) {
      case Kind::binary:
      case Kind::comparison:
      case Kind::logic:
        return lines_[i].binary(x, values[static_cast<std::size_t>(stage.step.operands[1])], result, count);
      case Kind::unary:
      case Kind::activation:
        return lines_[i].unary.function(reals, y, count, lines_[i].unary.parameters);
      case Kind::quantise:
        if (result_type(stage.step) == DType::u8)
          return rows_.to_u8(reals, reinterpret_cast<std::uint8_t*>(result), count, a, b);
        return rows_.to_i8(reals, reinterpret_cast<std::int8_t*>(result), count, a, b);
      case Kind::dequantise:
        if (stages_.type(stage.step.operands[0]) == DType::u8)
          return rows_.from_u8(reinterpret_cast<const std::uint8_t*>(x), y, count, a, b);
        return rows_.from_i8(reinterpret_cast<const std::int8_t*>(x), y, count, a, b);
      case Kind::test:
        return lines_[i].cast != nullptr ? lines_[i].cast(x, result, count)
                                         : is_nan_line(reals, reinterpret_cast<bool*>(result), count);
      case Kind::widen:
        return lines_[i].cast(x, result, count);
      case Kind::inverse:
        return not_line(reinterpret_cast<const bool*>(x), reinterpret_cast<bool*>(result), count);
      case Kind::choice: {
        const std::byte *chosen = values[static_cast<std::size_t>(stage.step.operands[1])],
                        *other = values[static_cast<std::size_t>(stage.step.operands[2])];
        return f32_where_line(reinterpret_cast<const bool*>(x), operand_moves(stage, 0), chosen,
                              operand_moves(stage, 1), other, operand_moves(stage, 2), result, count);
      }
      case Kind::constant:
        return;
    }
  }

  ProgramStages stages_;
  ProgramRegisters registers_;
  QuantisationRows rows_;
  LookUpBytes look_up_ = look_up_bytes();
  std::vector<bool> moves_;  // by value
  std::vector<Line> lines_;
};

std::shared_ptr<const ByteTable> tabulate(const ProgramStages& part) {
  ByteTable bytes, results;
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  const std::byte* input = reinterpret_cast<const std::byte*>(bytes.data());
  Program(part, {true})
      .run({&input, 1}, reinterpret_cast<std::byte*>(results.data()), static_cast<std::int64_t>(results.size()));
  return std::make_shared<const ByteTable>(results);
}

// Replaces each byte that depends on only one other byte by a table; of several such bytes, uses the earliest.
ProgramStages with_tables(ProgramStages stages) {
  for (std::size_t i = stages.list.size(); i-- > 0;) {
    if (!stages.list[i].quantises()) continue;
    for (std::int64_t source = 0; source < stages.value_of(i); ++source) {
      if (!stages.is_quantised(source)) continue;
      const std::optional<std::vector<std::size_t>> between = stages_between(stages, source, stages.value_of(i));
      if (!between) continue;
      stages.list[i].table = tabulate(part_of(stages, {&source, 1}, *between));
      stages.list[i].step.operands = {source, -1, -1};
      break;
    }
  }
  // Removes the stages that only tables needed.
  std::vector<bool> needed(stages.list.size());
  std::vector<std::size_t> list;
  needed.back() = true;
  for (std::size_t i = stages.list.size(); i-- > 0;) {
    if (!needed[i]) continue;
    list.insert(list.begin(), i);
    for (std::size_t k = 0; k < stages.list[i].operand_count(); ++k) {
      const std::int64_t operand = stages.list[i].step.operands[k];
      if (stages.made_by(operand) != nullptr) needed[static_cast<std::size_t>(operand) - stages.inputs.size()] = true;
    }
  }
  std::vector<std::int64_t> inputs(stages.inputs.size());
  std::iota(inputs.begin(), inputs.end(), std::int64_t{0});
  return part_of(stages, inputs, list);
}

Broadcast broadcast_of(const ops::NodeView& view) {
  std::vector<const Shape*> shapes;
  for (std::size_t i = 0; i < view.input_count(); ++i) shapes.push_back(&view.input(i).shape);
  return Broadcast(view.output(0).shape, shapes);
}

class ElementWise final : public Kernel {
 public:
  explicit ElementWise(const ops::NodeView& view)
      : broadcast_(broadcast_of(view)), program_(program_of(view, broadcast_)) {
    for (std::size_t i = 0; i < view.input_count(); ++i) input_bytes_.push_back(bits_of(view.input(i).dtype) / 8);
    if (broadcast_.lines_repeat()) lines_together_ = std::max<std::int64_t>(1, kBlock / broadcast_.line_length());
    grain_ = std::clamp(kGrainOperations / (program_.operations() + 2 * static_cast<std::int64_t>(view.input_count())),
                        kLeastGrain, kMostGrain);
  }

  void run(KernelContext& context) const override {
    if (lines_together_ > 1) return run_together(context);
    auto* output = static_cast<std::byte*>(context.output(0).mutable_raw());
    const std::int64_t output_bytes = bits_of(context.output(0).dtype()) / 8;
    broadcast_.walk(context, grain_, [&](const auto& from, std::int64_t to, std::int64_t count) {
      std::array<const std::byte*, Broadcast::kMaxOperands> inputs;
      for (std::size_t i = 0; i < input_bytes_.size(); ++i)
        inputs[i] = static_cast<const std::byte*>(context.input(i).raw()) + from[i] * input_bytes_[i];
      program_.run(std::span(inputs).first(input_bytes_.size()), output + to * output_bytes, count);
    });
  }

 private:
  void run_together(KernelContext& context) const {
    auto* output = static_cast<std::byte*>(context.output(0).mutable_raw());
    const std::int64_t output_bytes = bits_of(context.output(0).dtype()) / 8;
    std::array<const std::byte*, Broadcast::kMaxOperands> operands;
    for (std::size_t i = 0; i < input_bytes_.size(); ++i)
      operands[i] = static_cast<const std::byte*>(context.input(i).raw());
    broadcast_.walk_together(context, grain_, lines_together_, operands, input_bytes_,
                             [&](const auto& inputs, std::int64_t to, std::int64_t count) {
                               program_.run(std::span(inputs).first(input_bytes_.size()), output + to * output_bytes,
                                            count);
                             });
  }

  static Program program_of(const ops::NodeView& view, const Broadcast& broadcast) {
    std::vector<bool> moves;
    for (std::size_t i = 0; i < view.input_count(); ++i) moves.push_back(broadcast.line_stride(i) != 0);
    // A table reads its byte later than the steps that it replaces did, and so may keep one more value alive.
    ProgramStages plain = stages_of(view), tabulated = with_tables(plain);
    return {place_registers(tabulated).count > kMostRegisters ? std::move(plain) : std::move(tabulated), moves};
  }

  Broadcast broadcast_;
  Program program_;
  std::vector<std::int64_t> input_bytes_;
  std::int64_t grain_ = kMostGrain;
  std::int64_t lines_together_ = 1;
};

}  // namespace

std::string reject_element_wise(const ops::NodeView& view) {
  if (view.output(0).dtype == DType::undefined) return "wants known shapes";
  if (view.input_count() > Broadcast::kMaxOperands) return "takes up to 8 operands";
  const ProgramStages stages = stages_of(view);
  if (stages.list.size() > ops::kMostElementWiseSteps) return "takes up to 64 steps";
  for (const ProgramStage& stage : stages.list) {
    if ((stage.step.form->kind == Kind::unary || stage.step.form->kind == Kind::activation) &&
        row_activation(stage.step.form->name, stage.step.parameters).function == nullptr)
      return "no vectorised " + std::string(stage.step.form->name);
  }
  return place_registers(stages).count > kMostRegisters ? "keeps more than 8 values at once" : "";
}

std::string avoid_element_wise(const ops::NodeView& view) {
  const Broadcast broadcast = broadcast_of(view);
  const bool many = view.output(0).elements() >= kManyElements;
  return many && broadcast.line_length() < kShortLine && !broadcast.lines_repeat() ? "its lines are short" : "";
}

std::string reject_element_wise_f32(const ops::NodeView& view) {
  for (std::size_t i = 0; i < view.input_count(); ++i) {
    if (view.input(i).dtype != DType::f32) return "takes f32";
  }
  return view.output(0).dtype == DType::f32 ? reject_element_wise(view) : "gives f32";
}

KernelPointer make_element_wise(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<ElementWise>(view);
}

}  // namespace tessera::backends::cpu
