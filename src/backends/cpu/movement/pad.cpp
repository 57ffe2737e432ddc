#include "ops/movement/pad.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/movement/kernels.h"
#include "backends/cpu/movement/movement.h"
#include "backends/transient_memory.h"
#include "base/error.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kPadGrainBytes = 128 * 1024;
// A plan holds 8 bytes per position of an axis: for axes up to this length it is kept with the model's plan, for longer
// ones only during a run.
constexpr std::int64_t kLongestKeptAxis = std::int64_t{1} << 22, kLongestAxis = std::int64_t{1} << 28;

// The source of position `i` of an axis, counted from the first of `kept` elements; -1: the constant. Reflection
// continues back and forth as numpy.pad does.
std::int64_t source_position(std::int64_t i, std::int64_t kept, ops::PadMode mode) {
  if (i >= 0 && i < kept) return i;
  if (mode == ops::PadMode::constant) return -1;
  if (mode == ops::PadMode::edge) return i < 0 ? 0 : kept - 1;
  if (mode == ops::PadMode::wrap) return (i % kept + kept) % kept;
  if (kept == 1) return 0;
  const std::int64_t period = 2 * (kept - 1);
  const std::int64_t phase = (i % period + period) % period;
  return phase < kept ? phase : period - phase;
}

// The geometry of one padding. Axes behind the last padded one are copied together, as `run` bytes.
struct PadPlan {
  Shape shape;                                      // of the output
  std::vector<std::vector<std::int64_t>> sources;   // by axis up to the last padded one: input position, or -1
  std::vector<std::int64_t> stride_bytes;           // of the input, by axis
  std::int64_t rows = 1, run = 1;                   // rows: product of the axes before the last padded one
  std::int64_t middle_begin = 0, middle_count = 0;  // the part of the last padded axis that is copied unchanged
};

PadPlan plan_pad(DType type, const Shape& input, const ops::PadAmounts& amounts, ops::PadMode mode) {
  PadPlan plan;
  std::size_t last = 0;
  for (std::size_t i = 0; i < input.size(); ++i) {
    plan.shape.push_back(ops::padded_dim(input[i], amounts.begin[i], amounts.end[i]).value());
    if (amounts.begin[i] != 0 || amounts.end[i] != 0) last = i;
  }
  for (const std::int64_t dim : plan.shape) {
    require(dim <= kLongestAxis, ErrorKind::over_budget, "a padded dimension of {}, expected at most {}", dim,
            kLongestAxis);
  }
  element_count(plan.shape);  // reports an overflow as the user's error before anything is allocated
  const std::int64_t element = bits_of(type) / 8;
  for (const std::int64_t stride : row_major_strides(input)) plan.stride_bytes.push_back(stride * element);
  for (std::size_t i = 0; i < input.size(); ++i) {
    const std::int64_t front = std::max<std::int64_t>(amounts.begin[i], 0),
                       cut = std::max<std::int64_t>(0, -amounts.begin[i]);
    const std::int64_t kept =
        input[i] + std::min<std::int64_t>(amounts.begin[i], 0) + std::min<std::int64_t>(amounts.end[i], 0);
    require(mode == ops::PadMode::constant || kept > 0 || plan.shape[i] == 0, ErrorKind::failed,
            "mode {} cannot pad axis {}, which has no elements",
            mode == ops::PadMode::edge   ? "edge"
            : mode == ops::PadMode::wrap ? "wrap"
                                         : "reflect",
            i);
    if (i > last) {
      plan.run *= input[i];
      continue;
    }
    if (i < last) plan.rows *= plan.shape[i];
    if (i == last) plan.middle_begin = front, plan.middle_count = kept;
    std::vector<std::int64_t>& sources = plan.sources.emplace_back();
    if (std::find(plan.shape.begin(), plan.shape.end(), 0) != plan.shape.end()) continue;  // nothing will be read
    TransientMemory::take(plan.shape[i] * static_cast<std::int64_t>(sizeof(std::int64_t)));
    sources.reserve(static_cast<std::size_t>(plan.shape[i]));
    for (std::int64_t position = 0; position < plan.shape[i]; ++position) {
      const std::int64_t source = source_position(position - front, kept, mode);
      sources.push_back(source < 0 ? -1 : source + cut);
    }
  }
  plan.run *= element;
  return plan;
}

PadPlan plan_pad(const Tensor& pads, const Tensor* axes, DType type, const Shape& input, ops::PadMode mode) {
  const auto list = axes != nullptr ? std::optional(ops::integers_of(*axes)) : std::nullopt;
  return plan_pad(type, input, ops::pad_amounts(ops::integers_of(pads), list, static_cast<std::int64_t>(input.size())),
                  mode);
}

void fill(std::byte* target, std::int64_t bytes, const std::byte* element, std::int64_t element_bytes) {
  if (element_bytes == 4) {
    std::uint32_t value;
    std::memcpy(&value, element, 4);
    std::fill_n(reinterpret_cast<std::uint32_t*>(target), bytes / 4, value);
    return;
  }
  for (std::int64_t i = 0; i < bytes; i += element_bytes)
    std::memcpy(target + i, element, static_cast<std::size_t>(element_bytes));
}

// Computes the rows [begin, end) of the plan.
void pad_rows(const PadPlan& plan, const std::byte* input, std::byte* output, const std::byte* constant,
              std::int64_t element_bytes, std::int64_t begin, std::int64_t end) {
  const std::size_t last = plan.sources.size() - 1;
  const std::vector<std::int64_t>& along = plan.sources[last];
  const auto length = static_cast<std::int64_t>(along.size());
  for (std::int64_t row = begin; row < end; ++row) {
    std::byte* target = output + row * length * plan.run;
    std::int64_t offset = 0, rest = row;
    for (std::size_t i = last; i-- > 0 && offset >= 0;) {
      const auto count = static_cast<std::int64_t>(plan.sources[i].size());
      const std::int64_t source = plan.sources[i][static_cast<std::size_t>(rest % count)];
      rest /= count;
      offset = source < 0 ? -1 : offset + source * plan.stride_bytes[i];
    }
    if (offset < 0) {
      fill(target, length * plan.run, constant, element_bytes);
      continue;
    }
    const std::byte* source = input + offset;
    const auto put = [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t position = from, end; position < to; position = end) {
        // Copies contiguous elements of the input together, and fills contiguous padding together.
        const std::int64_t at = along[static_cast<std::size_t>(position)];
        for (end = position + 1; end < to; ++end) {
          if (along[static_cast<std::size_t>(end)] != (at < 0 ? at : at + end - position)) break;
        }
        const std::int64_t bytes = (end - position) * plan.run;
        if (at < 0) fill(target + position * plan.run, bytes, constant, element_bytes);
        else
          std::memcpy(target + position * plan.run, source + at * plan.stride_bytes[last],
                      static_cast<std::size_t>(bytes));
      }
    };
    put(0, plan.middle_begin);
    if (plan.middle_count > 0) {
      std::memcpy(target + plan.middle_begin * plan.run,
                  source + along[static_cast<std::size_t>(plan.middle_begin)] * plan.stride_bytes[last],
                  static_cast<std::size_t>(plan.middle_count * plan.run));
    }
    put(plan.middle_begin + plan.middle_count, length);
  }
}

void run_pad(KernelContext& context, const PadPlan& plan) {
  const Tensor& input = context.input(0);
  Tensor& output = context.allocate_output(0, plan.shape);
  if (output.elements() == 0) return;
  const std::byte zero[16] = {};
  const std::byte* constant = zero;
  if (context.has_input(2)) {
    require(context.input(2).elements() == 1, ErrorKind::invalid_model,
            "constant_value has shape {}, expected one element", to_string(context.input(2).shape()));
    constant = static_cast<const std::byte*>(context.input(2).raw());
  }
  const std::int64_t grain =
      std::max<std::int64_t>(1, kPadGrainBytes * plan.rows / std::max<std::int64_t>(1, output.bytes()));
  context.parallel_for(plan.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    pad_rows(plan, static_cast<const std::byte*>(input.raw()), static_cast<std::byte*>(output.mutable_raw()), constant,
             bits_of(input.dtype()) / 8, begin, end);
  });
}

class PadKernel final : public Kernel {
 public:
  explicit PadKernel(PadPlan plan) : plan_(std::move(plan)) {}
  void run(KernelContext& context) const override { run_pad(context, plan_); }

 private:
  PadPlan plan_;
};

// A kernel of Pad whose amounts are computed by the model.
class DynamicPadKernel final : public Kernel {
 public:
  void run(KernelContext& context) const override {
    const Tensor& input = context.input(0);
    run_pad(context, plan_pad(context.input(1), context.has_input(3) ? &context.input(3) : nullptr, input.dtype(),
                              input.shape(), ops::pad_mode(context)));
  }
};

}  // namespace

std::string reject_pad(const ops::NodeView& view) {
  if (view.input(0).shape.empty()) return "wants at least one axis";
  for (const std::int64_t dim : view.output(0).shape) {
    if (dim > kLongestKeptAxis) return "takes axes up to 2^22";
  }
  return reject_unless_bytes(view);
}

std::unique_ptr<Kernel> make_pad(const ops::NodeView& view, WeightStore&) {
  const bool known = view.constant(1) != nullptr && (!view.has_input(3) || view.constant(3) != nullptr);
  if (!known) return std::make_unique<DynamicPadKernel>();
  return std::make_unique<PadKernel>(plan_pad(*view.constant(1), view.has_input(3) ? view.constant(3) : nullptr,
                                              view.input(0).dtype, view.input(0).shape, ops::pad_mode(view)));
}

}  // namespace tessera::backends::cpu
