// Removes taps of a convolution that read only padding for every output: a 3 × 3 window of dilation 24 on 20 × 20
// pixels becomes its centre tap. Only outermost taps are removed, axis by axis, as far as the padding on their side is
// removed with them; this needs the size of the axis.
#include <algorithm>
#include <optional>
#include <span>

#include "base/error.h"
#include "ops/convolutions/channels_last.h"
#include "ops/convolutions/conv.h"
#include "ops/convolutions/window_geometry.h"
#include "ops/op_table.h"
#include "ops/quantised/quantised_layers.h"
#include "passes/find.h"
#include "passes/pass.h"
#include "passes/patterns/deferred_constants.h"
#include "passes/patterns/linear_weights.h"
#include "passes/rewriter.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;
using Integers = std::vector<std::int64_t>;

// The taps removed at the beginning and the end of a spatial axis.
struct DroppedTaps {
  std::int64_t begin = 0, end = 0;
};

// Whether a tap reads the input for some output of the axis.
bool is_read(const ops::WindowAxis& axis, std::int64_t tap) {
  // Positions grow by a stride from output to output; the first one not before the input decides.
  const std::int64_t start = tap * axis.dilation - axis.pad_begin;
  const std::int64_t first = start >= 0 ? 0 : (-start + axis.stride - 1) / axis.stride;
  return first < axis.output && start + first * axis.stride < axis.input;
}

DroppedTaps unread_taps(const ops::WindowAxis& axis) {
  DroppedTaps unread;
  while (unread.begin < axis.kernel && !is_read(axis, unread.begin)) ++unread.begin;
  if (unread.begin == axis.kernel) return {};  // the result is the bias alone
  while (!is_read(axis, axis.kernel - 1 - unread.end)) ++unread.end;
  // Padding does not become negative.
  unread.begin = std::min(unread.begin, axis.pad_begin / axis.dilation);
  unread.end = std::min(unread.end, axis.pad_end / axis.dilation);
  return unread;
}

class TapDropper {
 public:
  TapDropper(ir::Graph graph, const PassContext& context) : graph_(std::move(graph)), context_(context) {}

  ir::Graph run() {
    rewrite_each(graph_, [&](NodeId id) {
      const std::string& op = graph_.node(id).op;
      if (op != ops::conv.name && op != ops::channels_last_conv.name && op != ops::quantised_conv.name) return false;
      std::optional<ir::Node> node = if_legal([&] { return without_unread(graph_.node(id)); }).value_or(std::nullopt);
      if (!node) return false;
      graph_.replace_node(id, std::move(*node));
      return true;
    });
    return std::move(graph_);
  }

 private:
  // Sizes of the spatial axes, -1 where they are not known.
  static Integers sizes_of(const ir::Dims& dims, bool channels_last) {
    const std::size_t first = channels_last ? 1 : 2;
    Integers sizes;
    for (std::size_t i = first; i < dims.size() - (2 - first); ++i)
      sizes.push_back(dims[i].is_known() ? dims[i].value() : -1);
    return sizes;
  }

  std::optional<ir::Node> without_unread(ir::Node node) {
    const Tensor* weights = graph_.constant(node.inputs[1]);
    const ir::Dims* dims = dims_of(graph_, node.inputs[0]);
    if (weights == nullptr || !weights->has_data() || dims == nullptr || dims->size() < 3 ||
        weights->shape().size() != dims->size())
      return std::nullopt;
    const ops::AttributeReader reader(node, ops::op_of(node));
    const ops::WindowAttributes window = ops::read_window_attributes(reader, std::span(weights->shape()).subspan(2));
    const Integers sizes = sizes_of(*dims, node.op != ops::conv.name);
    const bool pads_by_size =
        window.auto_pad == ops::AutoPad::same_upper || window.auto_pad == ops::AutoPad::same_lower;
    Integers pads = window.pads, kernel = window.kernel, dilations = window.dilations, first(sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] < 1 && pads_by_size) return std::nullopt;
      if (sizes[i] < 1) continue;
      const ops::WindowAxis axis = ops::resolve_window_axis(window, i, sizes[i]);
      const DroppedTaps dropped = unread_taps(axis);
      // Every tap of a longer line is read.
      const std::int64_t extent = axis.kernel * axis.dilation + axis.pad_begin + axis.pad_end + axis.stride;
      if (axis.input < extent) context_.note_weighing();
      context_.note_threshold(extent);
      first[i] = dropped.begin;
      kernel[i] -= dropped.begin + dropped.end;
      pads[i] = axis.pad_begin - dropped.begin * axis.dilation;
      pads[i + sizes.size()] = axis.pad_end - dropped.end * axis.dilation;
      if (kernel[i] == 1) dilations[i] = 1;
    }
    if (kernel == window.kernel) return std::nullopt;
    Tensor kept = box_of_taps(*weights, first, kernel);
    if (!charge(context_, kept)) return std::nullopt;
    node.inputs[1] = graph_.add_constant(std::move(kept));
    node.attributes.erase("auto_pad");
    node.attributes.insert_or_assign("pads", std::move(pads));
    node.attributes.insert_or_assign("dilations", std::move(dilations));
    if (node.attributes.contains("kernel_shape")) node.attributes.insert_or_assign("kernel_shape", std::move(kernel));
    return node;
  }

  ir::Graph graph_;
  const PassContext& context_;
};

}  // namespace

ir::Graph drop_padding_taps(ir::Graph graph, const PassContext& context) {
  return TapDropper(std::move(graph), context).run();
}

}  // namespace tessera::passes
