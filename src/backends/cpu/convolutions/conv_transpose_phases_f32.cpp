// Channels-last transposed convolution in float32 with any stride: the backward pass of a convolution with respect to
// its data, and ConvTranspose itself.
//
// Each phase (transposed_phases.h) is a convolution of stride 1 with its share of the taps, computed as an indirect
// product (indirect_product_f32.h).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "backends/cpu/convolutions/channels_last.h"
#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/convolutions/transposed_phases.h"
#include "backends/cpu/products/gemm_f32.h"
#include "backends/cpu/products/layer_operands.h"
#include "backends/cpu/products/windows/indirect_product_f32.h"
#include "base/numbers/checked.h"
#include "base/threads/yield_point.h"

namespace tessera::backends::cpu {
namespace {

using base::ceil_divide;
using base::round_up;

constexpr double kPhaseChunkOperations = 4e6;
constexpr std::int64_t kFewestPieces = 4;  // of rows in a chunk, all of which use each panel of weights

// One phase along each of the three axes.
struct Phase {
  std::array<const AxisPhase*, 3> axes;
  std::vector<std::int64_t> taps;  // indices of the phase's taps among all taps
  std::int64_t taps_before = 0;    // taps of earlier phases

  std::int64_t positions() const { return axes[0]->count * axes[1]->count * axes[2]->count; }
};

struct Chunk {
  std::size_t phase;
  std::int64_t first, rows;
};

class ConvTransposePhases final : public Kernel {
 public:
  ConvTransposePhases(const ops::NodeView& view, WeightStore& store)
      : isa_(&indirect_product_isa()),
        geometry_(channels_last_conv_transpose_geometry(view)),
        activation_(plan_activation(view)),
        groups_(view.integer("group")),
        inputs_(view.input(1).shape[0] / groups_),
        outputs_(view.input(1).shape[1]),
        zeros_(static_cast<std::size_t>(inputs_), 0.0f),
        axis_phases_{phases_of(geometry_.axes[0]), phases_of(geometry_.axes[1]), phases_of(geometry_.axes[2])},
        phases_(joined_phases()),
        operands_(
            view, store,
            {.name = fmt::format("channels_last_conv_transpose_phases_v1:{}:{}:{}", isa_->name, groups_, layout_name()),
             .floats = base::checked_multiply(groups_, group_floats()),
             .pieces = groups_ * group_panels(),
             .pack = [this](const float* weights, float* to, std::int64_t piece) { pack(weights, to, piece); }},
            {.floats = groups_ * padded_outputs(), .place = [this](const float* bias, float* to) {
               for (std::int64_t g = 0; g < groups_; ++g)
                 std::copy_n(bias + g * outputs_, outputs_, to + g * padded_outputs());
             }}) {
    make_chunks();
  }

  std::int64_t scratch_bytes() const override { return operands_.scratch_bytes(); }

  void run(KernelContext& context) const override {
    if (context.output(0).elements() == 0) return;
    const LayerOperands::Pointers operands = operands_.prepare(context, context.scratch());
    const float* x = context.input(0).data<float>();
    float* y = context.output(0).mutable_data<float>();
    const auto chunks = static_cast<std::int64_t>(chunks_.size());
    context.parallel_for(chunks * groups_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        run_chunk(operands, chunks_[static_cast<std::size_t>(i % chunks)], i / chunks, x, y);
    });
  }

 private:
  std::int64_t padded_outputs() const { return round_up(outputs_, isa_->lanes); }
  std::int64_t group_floats() const {
    return base::checked_multiply(base::checked_multiply(geometry_.taps(), inputs_), padded_outputs());
  }
  std::int64_t group_panels() const { return ceil_divide(outputs_, isa_->columns); }
  // Names the properties that determine the phase of each tap, and the order of taps.
  std::string layout_name() const {
    std::string name;
    for (const ops::WindowAxis& axis : geometry_.axes)
      name += fmt::format("{}.{}.{}.{},", axis.kernel, axis.stride, axis.dilation, axis.pad_begin);
    return name;
  }

  std::vector<Phase> joined_phases() const {
    std::vector<Phase> phases;
    std::int64_t taps = 0;
    for (const AxisPhase& depth : axis_phases_[0]) {
      for (const AxisPhase& lines : axis_phases_[1]) {
        for (const AxisPhase& line : axis_phases_[2]) {
          Phase phase{{&depth, &lines, &line}, {}, taps};
          for (const auto& d : depth.taps) {
            for (const auto& h : lines.taps) {
              for (const auto& w : line.taps)
                phase.taps.push_back((d.index * geometry_.axes[1].kernel + h.index) * geometry_.axes[2].kernel +
                                     w.index);
            }
          }
          taps += static_cast<std::int64_t>(phase.taps.size());
          phases.push_back(std::move(phase));
        }
      }
    }
    return phases;
  }

  void make_chunks() {
    for (std::size_t i = 0; i < phases_.size(); ++i) {
      const Phase& phase = phases_[i];
      const std::int64_t rows = geometry_.batch * phase.positions();
      const double row_operations = 2.0 * static_cast<double>(std::max<std::size_t>(phase.taps.size(), 1)) *
                                    static_cast<double>(inputs_) * static_cast<double>(outputs_);
      const auto pieces = static_cast<std::int64_t>(
          std::clamp(kPhaseChunkOperations / (row_operations * static_cast<double>(isa_->rows)),
                     static_cast<double>(kFewestPieces), 1024.0));
      const std::int64_t count = ceil_divide(rows, pieces * isa_->rows);
      for (std::int64_t k = 0; k < count; ++k) {
        const std::int64_t begin = rows * k / count, end = rows * (k + 1) / count;
        chunks_.push_back({i, begin, end - begin});
      }
    }
  }

  // [group][phase][panel][tap][input][output], outputs rounded up to whole vectors; a piece is a panel of a group.
  void pack(const float* weights, float* to, std::int64_t piece) const {
    const std::int64_t taps = geometry_.taps(), group = piece / group_panels(),
                       first = piece % group_panels() * isa_->columns;
    const std::int64_t columns = std::min(isa_->columns, outputs_ - first), width = round_up(columns, isa_->lanes);
    to += group * group_floats();
    thread_local std::vector<float> rows;  // the weights of one input, [tap][output]
    rows.assign(static_cast<std::size_t>(taps * width), 0.0f);
    for (std::int64_t c = 0; c < inputs_; ++c) {
      gemm_f32_transpose(weights + ((group * inputs_ + c) * outputs_ + first) * taps, taps, 1, columns, taps,
                         rows.data(), width);
      for (const Phase& phase : phases_) {
        float* panel = to + panel_offset(phase, first);
        for (std::size_t t = 0; t < phase.taps.size(); ++t)
          std::copy_n(rows.data() + phase.taps[t] * width, width,
                      panel + (static_cast<std::int64_t>(t) * inputs_ + c) * width);
      }
    }
  }
  // The offset of a panel within the weights of a group.
  std::int64_t panel_offset(const Phase& phase, std::int64_t first_output) const {
    return (phase.taps_before * padded_outputs() + static_cast<std::int64_t>(phase.taps.size()) * first_output) *
           inputs_;
  }

  // The position of a row of a phase: the image, and the position in the phase along each axis.
  struct Place {
    std::int64_t image, at[3];
  };
  static Place place_of(const Phase& phase, std::int64_t row) {
    const std::int64_t columns = phase.axes[2]->count, lines = phase.axes[1]->count, slices = phase.axes[0]->count;
    return {row / columns / lines / slices, {row / columns / lines % slices, row / columns % lines, row % columns}};
  }
  static void move_on(const Phase& phase, Place& place) {
    for (std::size_t i = 2; ++place.at[i] == phase.axes[i]->count; --i) {
      place.at[i] = 0;
      if (i > 0) continue;
      ++place.image;
      return;
    }
  }
  std::int64_t output_offset(const Phase& phase, const Place& place) const {
    std::int64_t position = place.image;
    for (std::size_t i = 0; i < 3; ++i) {
      const ops::WindowAxis& axis = geometry_.axes[i];
      position = position * axis.output + phase.axes[i]->first + place.at[i] * axis.stride;
    }
    return position * groups_ * outputs_;
  }

  // The outer loop runs over panels of weights, so that each stays in a cache while all rows of the chunk use it.
  void run_chunk(const LayerOperands::Pointers& operands, const Chunk& chunk, std::int64_t group, const float* x,
                 float* y) const {
    const Phase& phase = phases_[chunk.phase];
    const std::int64_t pieces = ceil_divide(chunk.rows, isa_->rows);
    thread_local std::vector<const float*> left;
    left.resize(std::max<std::size_t>(phase.taps.size(), 1) * IndirectProduct::kMostRows);
    for (std::int64_t first = 0; first < outputs_; first += isa_->columns) {
      for (std::int64_t piece = 0; piece < pieces; ++piece) {
        const std::int64_t begin = chunk.first + chunk.rows * piece / pieces,
                           end = chunk.first + chunk.rows * (piece + 1) / pieces;
        base::yield_point();
        point_to_inputs(phase, begin, end - begin, x + group * inputs_, left.data());
        run_piece(operands, phase, group, first, begin, end - begin, left.data(), y);
      }
    }
  }

  // Sets left[tap * kMostRows + row]; null for row 0 if no row has an input under the tap.
  void point_to_inputs(const Phase& phase, std::int64_t first, std::int64_t rows, const float* x,
                       const float** left) const {
    Place place = place_of(phase, first);
    for (std::int64_t i = 0; i < rows; ++i, move_on(phase, place)) {
      const float** to = left + i;
      for (const auto& d : phase.axes[0]->taps) {
        const std::int64_t slice = d.base + place.at[0];
        for (const auto& h : phase.axes[1]->taps) {
          const std::int64_t line = h.base + place.at[1];
          const bool inside =
              slice >= 0 && slice < geometry_.axes[0].input && line >= 0 && line < geometry_.axes[1].input;
          const float* from = x + ((place.image * geometry_.axes[0].input + slice) * geometry_.axes[1].input + line) *
                                      geometry_.axes[2].input * geometry_.channels;
          for (const auto& w : phase.axes[2]->taps) {
            const std::int64_t column = w.base + place.at[2];
            const bool reads = inside && column >= 0 && column < geometry_.axes[2].input;
            *to = reads ? from + column * geometry_.channels : zeros_.data();
            to += IndirectProduct::kMostRows;
          }
        }
      }
    }
    for (std::size_t t = 0; t < phase.taps.size(); ++t) {
      const float** tap = left + t * IndirectProduct::kMostRows;
      if (std::all_of(tap, tap + rows, [&](const float* each) { return each == zeros_.data(); })) *tap = nullptr;
    }
  }

  // Rows of one line of the result are evenly spaced and written in place; others are computed contiguously and copied.
  void run_piece(const LayerOperands::Pointers& operands, const Phase& phase, std::int64_t group, std::int64_t first,
                 std::int64_t begin, std::int64_t rows, const float* const* left, float* y) const {
    const std::int64_t columns = std::min(isa_->columns, outputs_ - first), channels = groups_ * outputs_;
    const std::int64_t in_line = begin % phase.axes[2]->count;
    const bool one_line = in_line + rows <= phase.axes[2]->count;
    float* to = y + group * outputs_ + first;
    thread_local std::vector<CacheLine> side_by_side;
    IndirectProduct product{.rows = rows,
                            .segments = static_cast<std::int64_t>(phase.taps.size()),
                            .length = inputs_,
                            .left = left,
                            .right = operands.weights + group * group_floats() + panel_offset(phase, first),
                            .columns = columns,
                            .bias = operands.bias + group * padded_outputs() + first,
                            .low = activation_.low,
                            .high = activation_.high};
    if (one_line) {
      product.c = to + output_offset(phase, place_of(phase, begin));
      product.ldc = geometry_.axes[2].stride * channels;
    } else {
      product.ldc = round_up(columns, CacheLine::kFloats);
      side_by_side.resize(static_cast<std::size_t>(IndirectProduct::kMostRows * product.ldc / CacheLine::kFloats));
      product.c = side_by_side.data()->floats;
    }
    isa_->multiply(product);
    if (one_line && activation_.after.function == nullptr) return;
    Place place = place_of(phase, begin);
    for (std::int64_t i = 0; i < rows; ++i, move_on(phase, place)) {
      float* row = product.c + i * product.ldc;
      if (activation_.after.function != nullptr) activation_.after(row, columns);
      if (!one_line) std::copy_n(row, columns, to + output_offset(phase, place));
    }
  }

  const IndirectProductIsa* isa_;
  ChannelsLastGeometry geometry_;
  ActivationPlan activation_;
  std::int64_t groups_, inputs_, outputs_;  // channels of a group
  std::vector<float> zeros_;
  std::array<std::vector<AxisPhase>, 3> axis_phases_;
  std::vector<Phase> phases_;
  std::vector<Chunk> chunks_;
  LayerOperands operands_;
};

}  // namespace

std::string reject_conv_transpose_phases_f32(const ops::NodeView& view) {
  if (std::string reason = reject_channels_last_operands(view); !reason.empty()) return reason;
  constexpr std::int64_t kFewOutputs = 8, kMostPhases = 4096;
  if (view.integer("group") > 1 && view.input(1).shape[1] < kFewOutputs) return "few output channels a group";
  if (view.input(1).elements() == 0) return "no weights";
  std::int64_t phases = 1;
  for (const ops::WindowAxis& axis : channels_last_conv_transpose_geometry(view).axes) {
    phases *= std::min(axis.stride, kMostPhases);
    if (phases > kMostPhases) return "long strides";
  }
  return "";
}

KernelPointer make_conv_transpose_phases_f32(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<ConvTransposePhases>(view, weights);
}

}  // namespace tessera::backends::cpu
