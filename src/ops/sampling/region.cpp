#include "ops/sampling/region.h"

#include "ops/core/check_operand.h"
#include "ops/core/gradient.h"
#include "ops/core/shape_arguments.h"

namespace tessera::ops {
namespace {

void infer_roi_align(InferContext& context) {
  const std::string& mode = context.text("mode");
  context.check(mode == "avg" || mode == "max", "mode is '{}', expected avg or max", mode);
  const std::string& transformation = context.text("coordinate_transformation_mode");
  context.check(transformation == "half_pixel" || transformation == "output_half_pixel",
                "coordinate_transformation_mode is '{}', expected half_pixel or output_half_pixel", transformation);
  const std::int64_t height = context.integer("output_height"), width = context.integer("output_width");
  context.check(height > 0 && width > 0, "an output of {} x {}", height, width);
  context.check(context.integer("sampling_ratio") >= 0, "sampling_ratio is {}", context.integer("sampling_ratio"));
  const ir::Dims image = dims_of_rank(context, 0, 4), rois = dims_of_rank(context, 1, 2),
                 batch = dims_of_rank(context, 2, 1);
  context.check(rois[1].may_equal(4), "rois is {}, expected [regions, 4]", ir::to_string(rois));
  context.set_output(0, context.dtype(0), {same_dim(rois[0], batch[0]), image[1], height, width});
}

void infer_roi_align_gradient(InferContext& context) {
  infer_roi_align(context);
  const ir::Dims image = dims_of_rank(context, 0, 4), rois = dims_of_rank(context, 1, 2),
                 given = dims_of_rank(context, 3, 4);
  const ir::Dims expected{rois[0], image[1], context.integer("output_height"), context.integer("output_width")};
  for (std::size_t i = 0; i < 4; ++i)
    context.check(given[i].may_equal(expected[i]), "'dY' has shape {}, expected {}", to_string(given),
                  to_string(expected));
  context.set_output(0, context.input(0));
}

// The gradient with respect to X only: regions are constant, as in the training of detectors.
void gradient_of_roi_align(GradientContext& c) {
  c.set(0,
        c.input(0).combine("tessera::RoiAlignGradient", {c.input(1), c.input(2), c.gradient()}, c.node().attributes));
}

std::vector<AttributeSpec> roi_align_attributes() {
  return {{"coordinate_transformation_mode", ir::AttributeKind::text, ir::Attribute(std::string("half_pixel"))},
          {"mode", ir::AttributeKind::text, ir::Attribute(std::string("avg"))},
          {"output_height", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})},
          {"output_width", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})},
          {"sampling_ratio", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})},
          {"spatial_scale", ir::AttributeKind::real, ir::Attribute(1.0f)}};
}

void infer_max_roi_pool(InferContext& context) {
  const std::vector<std::int64_t>& pooled = context.integers("pooled_shape");
  context.check(pooled.size() == 2 && pooled[0] > 0 && pooled[1] > 0,
                "pooled_shape is {}, expected two positive numbers", to_string(pooled));
  const ir::Dims image = dims_of_rank(context, 0, 4), rois = dims_of_rank(context, 1, 2);
  context.check(rois[1].may_equal(5), "rois is {}, expected [regions, 5]", ir::to_string(rois));
  context.set_output(0, context.dtype(0), {rois[0], image[1], pooled[0], pooled[1]});
}

void infer_max_roi_pool_gradient(InferContext& context) {
  infer_max_roi_pool(context);
  const ir::Dims image = dims_of_rank(context, 0, 4), rois = dims_of_rank(context, 1, 2),
                 given = dims_of_rank(context, 2, 4);
  const std::vector<std::int64_t>& pooled = context.integers("pooled_shape");
  const ir::Dims expected{rois[0], image[1], pooled[0], pooled[1]};
  for (std::size_t i = 0; i < 4; ++i)
    context.check(given[i].may_equal(expected[i]), "'dY' has shape {}, expected {}", to_string(given),
                  to_string(expected));
  context.set_output(0, context.input(0));
}

// The gradient with respect to X only, as for RoiAlign.
void gradient_of_max_roi_pool(GradientContext& c) {
  c.set(0, c.input(0).combine("tessera::MaxRoiPoolGradient", {c.input(1), c.gradient()}, c.node().attributes));
}

std::vector<AttributeSpec> max_roi_pool_attributes() {
  return {{"pooled_shape", ir::AttributeKind::integers, std::nullopt, true},
          {"spatial_scale", ir::AttributeKind::real, ir::Attribute(1.0f)}};
}

void infer_non_max_suppression(InferContext& context) {
  const std::int64_t layout = context.integer("center_point_box");
  context.check(layout == 0 || layout == 1, "center_point_box is {}, expected 0 or 1", layout);
  const ir::Dims boxes = dims_of_rank(context, 0, 3), scores = dims_of_rank(context, 1, 3);
  context.check(boxes[2].may_equal(4), "boxes is {}, expected [batch, boxes, 4]", ir::to_string(boxes));
  context.check(boxes[0].may_equal(scores[0]) && boxes[1].may_equal(scores[2]),
                "boxes {} and scores {} do not fit together", ir::to_string(boxes), ir::to_string(scores));
  context.set_output(0, DType::i64, {ir::Dim(), 3});
}

// Four weighted neighbours per sample; with an adaptive number of samples, one of them stands for all.
double operations_roi_align(const NodeView& view) {
  const double ratio = std::max<double>(1, static_cast<double>(view.integer("sampling_ratio")));
  return 8 * ratio * ratio * static_cast<double>(view.output(0).elements());
}

}  // namespace

const OpDef roi_align{
    .name = "RoiAlign",
    .since = 22,
    .inputs = {{"X", types::floats, "T1"}, {"rois", types::floats, "T1"}, {"batch_indices", types::i64}},
    .outputs = {{"Y", types::floats, "T1"}},
    .attributes = roi_align_attributes(),
    .infer = infer_roi_align,
    .operations = operations_roi_align,
    .gradient = gradient_of_roi_align,
};

// Computes the gradient of X from that of Y: each bin gives its gradient to the pixels that its samples weigh, or with
// mode max to the largest one.
const OpDef roi_align_gradient{
    .name = "tessera::RoiAlignGradient",
    .since = 1,
    .inputs = {{"X", types::floats, "T1"},
               {"rois", types::floats, "T1"},
               {"batch_indices", types::i64},
               {"dY", types::floats, "T1"}},
    .outputs = {{"dX", types::floats, "T1"}},
    .attributes = roi_align_attributes(),
    .infer = infer_roi_align_gradient,
    .operations = [](const NodeView& view) { return 8 * static_cast<double>(view.input(3).elements()); },
};

const OpDef max_roi_pool{
    .name = "MaxRoiPool",
    .since = 22,
    .inputs = {{"X", types::floats, "T"}, {"rois", types::floats, "T"}},
    .outputs = {{"Y", types::floats, "T"}},
    .attributes = max_roi_pool_attributes(),
    .infer = infer_max_roi_pool,
    .operations = operations_per_input<1>,
    .gradient = gradient_of_max_roi_pool,
};

// Computes the gradient of X from that of Y: each bin gives its gradient to its largest pixel, the first of equal ones.
const OpDef max_roi_pool_gradient{
    .name = "tessera::MaxRoiPoolGradient",
    .since = 1,
    .inputs = {{"X", types::floats, "T"}, {"rois", types::floats, "T"}, {"dY", types::floats, "T"}},
    .outputs = {{"dX", types::floats, "T"}},
    .attributes = max_roi_pool_attributes(),
    .infer = infer_max_roi_pool_gradient,
    .operations = operations_per_input<1>,
};

const OpDef non_max_suppression{
    .name = "NonMaxSuppression",
    .since = 11,
    .inputs = {{"boxes", {DType::f32}},
               {"scores", {DType::f32}},
               {"max_output_boxes_per_class", types::i64, "", optional},
               {"iou_threshold", {DType::f32}, "", optional},
               {"score_threshold", {DType::f32}, "", optional}},
    .outputs = {{"selected_indices", types::i64}},
    .attributes = {{"center_point_box", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})}},
    .infer = infer_non_max_suppression,
};

}  // namespace tessera::ops
