#include "backends/cuda/movement/movement.h"

#include <algorithm>

#include "backends/cuda/launch_types.h"
#include "backends/cuda/movement/strided_copy.h"
#include "ops/core/shape_arguments.h"
#include "ops/movement/concat.h"
#include "ops/movement/slice.h"
#include "ops/movement/transpose.h"

namespace tessera::backends::cuda {
namespace {

// A copy from one input to one output.
struct Part {
  std::size_t input = 0, output = 0;
  CopyLayout layout;
};

std::vector<Part> parts_of_transpose(const ops::NodeView& view) {
  const Shape& x = view.input(0).shape;
  const std::vector<std::int64_t> strides = dense_strides(x);
  Part part;
  for (const std::int64_t axis : ops::permutation_of(view, static_cast<std::int64_t>(x.size()))) {
    part.layout.shape.push_back(x[static_cast<std::size_t>(axis)]);
    part.layout.x_strides.push_back(strides[static_cast<std::size_t>(axis)]);
  }
  part.layout.y_strides = dense_strides(part.layout.shape);
  return {part};
}

std::vector<Part> parts_of_expand(const ops::NodeView& view) {
  const Shape &x = view.input(0).shape, &y = view.output(0).shape;
  const std::vector<std::int64_t> strides = dense_strides(x);
  Part part;
  part.layout.shape = y;
  part.layout.y_strides = dense_strides(y);
  const std::size_t missing = y.size() - x.size();
  for (std::size_t axis = 0; axis < y.size(); ++axis)
    part.layout.x_strides.push_back(axis < missing || x[axis - missing] == 1 ? 0 : strides[axis - missing]);
  return {part};
}

// Each axis of y is a repetition in front of the axis of x.
std::vector<Part> parts_of_tile(const ops::NodeView& view) {
  const Shape &x = view.input(0).shape, &y = view.output(0).shape;
  const std::vector<std::int64_t> x_strides = dense_strides(x), y_strides = dense_strides(y);
  Part part;
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    part.layout.shape.insert(part.layout.shape.end(), {x[axis] == 0 ? 0 : y[axis] / x[axis], x[axis]});
    part.layout.x_strides.insert(part.layout.x_strides.end(), {0, x_strides[axis]});
    part.layout.y_strides.insert(part.layout.y_strides.end(), {x[axis] * y_strides[axis], y_strides[axis]});
  }
  return {part};
}

// Empty where the bounds are not known.
std::vector<Part> parts_of_slice(const ops::NodeView& view) {
  const auto list = [&](std::size_t i) {
    return view.has_input(i) ? std::optional(ops::integers_of(*view.constant(i))) : std::nullopt;
  };
  for (std::size_t i = 1; i < view.input_count(); ++i) {
    if (view.has_input(i) && view.constant(i) == nullptr) return {};
  }
  const Shape& x = view.input(0).shape;
  const ops::SliceRequest request =
      ops::slice_request(*list(1), *list(2), list(3), list(4), static_cast<std::int64_t>(x.size()));
  Part part;
  part.layout.shape = x;
  part.layout.x_strides = dense_strides(x);
  for (std::size_t i = 0; i < request.axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(request.axes[i]);
    const ops::SliceRange range = ops::slice_range(x[axis], request.starts[i], request.ends[i], request.steps[i]);
    part.layout.shape[axis] = range.count;
    part.layout.x_offset += range.start * part.layout.x_strides[axis];
    part.layout.x_strides[axis] *= range.step;
  }
  part.layout.y_strides = dense_strides(part.layout.shape);
  return {part};
}

std::size_t axis_of(const ops::NodeView& view, std::size_t rank) {
  const std::int64_t axis = view.integer("axis");
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

std::vector<Part> parts_of_concat(const ops::NodeView& view) {
  const std::vector<std::int64_t> y_strides = dense_strides(view.output(0).shape);
  const std::size_t axis = axis_of(view, y_strides.size());
  std::vector<Part> parts;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < view.input_count(); ++i) {
    const Shape& x = view.input(i).shape;
    parts.push_back({i, 0, {x, dense_strides(x), y_strides, 0, offset * y_strides[axis]}});
    offset += x[axis];
  }
  return parts;
}

// The sizes of the parts; an output that nobody wants has no shape. Empty where they are not known.
std::vector<std::int64_t> split_sizes(const ops::NodeView& view, std::size_t axis) {
  if (view.has_input(1) && view.constant(1) == nullptr) return {};
  return view.has_input(1)
             ? ops::integers_of(*view.constant(1))
             : ops::split_evenly(view.input(0).shape[axis], static_cast<std::int64_t>(view.output_count()));
}

std::vector<Part> parts_of_split(const ops::NodeView& view) {
  const std::vector<std::int64_t> x_strides = dense_strides(view.input(0).shape);
  const std::size_t axis = axis_of(view, x_strides.size());
  const std::vector<std::int64_t> sizes = split_sizes(view, axis);
  std::vector<Part> parts;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (view.wants_output(i)) {
      const Shape& y = view.output(i).shape;
      parts.push_back({0, i, {y, x_strides, dense_strides(y), offset * x_strides[axis], 0}});
    }
    offset += sizes[i];
  }
  return parts;
}

// Operators that change the shape alone are views wherever the planner can make them so; this is the copy for where it
// cannot.
std::vector<Part> parts_of_view(const ops::NodeView& view) {
  return {{0, 0, {{view.input(0).elements()}, {1}, {1}, 0, 0}}};
}

constexpr std::string_view kViews[] = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"};

std::vector<Part> parts_of(const ops::NodeView& view) {
  const std::string_view op = view.op().name;
  if (std::ranges::find(kViews, op) != std::end(kViews)) return parts_of_view(view);
  if (op == "Transpose") return parts_of_transpose(view);
  if (op == "Expand") return parts_of_expand(view);
  if (op == "Tile") return parts_of_tile(view);
  if (op == "Slice") return parts_of_slice(view);
  return op == "Concat" ? parts_of_concat(view) : parts_of_split(view);
}

std::string reject(const ops::NodeView& view, const DeviceProperties& device) {
  const DType type = view.input(0).dtype;
  const std::string kernel = copy_kernel_name(type);
  if (kernel.empty()) return fmt::format("the kernel does not copy {}", name_of(type));
  const std::vector<Part> parts = parts_of(view);
  if (parts.empty()) return "the kernel needs constant bounds";
  const bool fits =
      std::ranges::all_of(parts, [&](const Part& part) { return CopyLaunch::make(type, part.layout).has_value(); });
  if (!fits) return fmt::format("the kernel has {} axes", tessera::cuda::kCopyAxes);
  return reason_without_image(kernel, device);
}

class MovementKernel final : public Kernel {
 public:
  explicit MovementKernel(const ops::NodeView& view) : parts_(parts_of(view)) {
    for (const Part& part : parts_) copies_.push_back(*CopyLaunch::make(view.input(0).dtype, part.layout));
  }
  void run(KernelContext& context) const override {
    for (std::size_t i = 0; i < parts_.size(); ++i)
      copies_[i].launch(stream_of(context), context.input(parts_[i].input).raw(),
                        context.output(parts_[i].output).mutable_raw());
  }

 private:
  const std::vector<Part> parts_;
  std::vector<CopyLaunch> copies_;
};

KernelPointer create(const ops::NodeView& view, WeightStore&, const DeviceProperties&) {
  return std::make_unique<MovementKernel>(view);
}

constexpr KernelEntry entry(std::string_view op) {
  return {.op = op, .name = "cuda_strided_copy", .reject_on = reject, .create_on = create};
}

}  // namespace

std::span<const KernelEntry> movement_kernel_table() {
  static const std::vector<KernelEntry> table = [] {
    std::vector<KernelEntry> entries{entry("Transpose"), entry("Expand"), entry("Tile"),
                                     entry("Slice"),     entry("Concat"), entry("Split")};
    for (const std::string_view op : kViews) entries.push_back(entry(op));
    return entries;
  }();
  return table;
}

}  // namespace tessera::backends::cuda
