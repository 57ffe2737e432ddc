#include "ops/sampling/grid_sample.h"

#include <cmath>

#include "base/error.h"
#include "ops/core/gradient.h"
#include "ops/core/shape_arguments.h"
#include "ops/core/signatures.h"

namespace tessera::ops {
namespace {

void infer_grid_sample(InferContext& context) {
  const std::string& mode = context.text("mode");
  context.check(mode == "linear" || mode == "nearest" || mode == "cubic",
                "mode is '{}', expected linear, nearest or cubic", mode);
  context.check(context.dtype(0) != DType::string || mode == "nearest", "mode is '{}' for strings, expected nearest",
                mode);
  const std::string& padding = context.text("padding_mode");
  context.check(padding == "zeros" || padding == "border" || padding == "reflection",
                "padding_mode is '{}', expected zeros, border or reflection", padding);
  const ir::Dims* image = context.dims(0);
  const ir::Dims* grid = context.dims(1);
  if (image == nullptr || grid == nullptr) return context.set_output_unknown_rank(0, context.dtype(0));
  const std::int64_t spatial = static_cast<std::int64_t>(image->size()) - 2;
  context.check(spatial >= 1 && spatial <= 3, "X is {}, expected [N, C, …] with one to three more axes",
                ir::to_string(*image));
  context.check(grid->size() == image->size() && grid->back().may_equal(spatial),
                "grid is {}, expected rank {} and {} in the last axis", ir::to_string(*grid), image->size(), spatial);
  ir::Dims result{same_dim((*image)[0], (*grid)[0]), (*image)[1]};
  result.insert(result.end(), grid->begin() + 1, grid->end() - 1);
  context.set_output(0, context.dtype(0), std::move(result));
}

// Weights and a multiply-add for each neighbour.
double operations_grid_sample(const NodeView& view) {
  const double spatial = static_cast<double>(view.input(0).shape.size()) - 2;
  const double taps = view.text("mode") == "nearest" ? 0 : view.text("mode") == "linear" ? 2 : 4;
  return 2 * std::pow(taps, spatial) * static_cast<double>(view.output(0).elements());
}

void infer_affine_grid(InferContext& context) {
  const ir::Dims* theta = context.dims(0);
  const auto size = context.constant_integers(1);
  if (size)
    return context.set_output(0, context.dtype(0), affine_grid_dims(theta != nullptr ? *theta : ir::Dims(3), *size));
  if (const auto length = known_length(context, 1)) {
    context.check(*length == 4 || *length == 5, "size has {} elements, expected 4 or 5", *length);
    ir::Dims result(static_cast<std::size_t>(*length));
    if (theta != nullptr && !theta->empty()) result[0] = (*theta)[0];
    result.back() = *length - 2;
    return context.set_output(0, context.dtype(0), std::move(result));
  }
  context.set_output_unknown_rank(0, context.dtype(0));
}

double operations_affine_grid(const NodeView& view) {
  return 2 * static_cast<double>(view.output(0).elements()) * static_cast<double>(view.output(0).shape.size() - 1);
}

void infer_grid_sample_gradient(InferContext& context) {
  infer_grid_sample(context);
  const ir::Dims *image = context.dims(0), *grid = context.dims(1), *given = context.dims(2);
  if (image != nullptr && grid != nullptr && given != nullptr) {
    ir::Dims expected{same_dim((*image)[0], (*grid)[0]), (*image)[1]};
    expected.insert(expected.end(), grid->begin() + 1, grid->end() - 1);
    bool fits = given->size() == expected.size();
    for (std::size_t i = 0; fits && i < expected.size(); ++i) fits = (*given)[i].may_equal(expected[i]);
    context.check(fits, "'dY' has shape {}, expected {}", to_string(*given), to_string(expected));
  }
  context.set_output(0, context.input(0));
  context.set_output(1, context.input(1));
}

void gradient_of_grid_sample(GradientContext& c) {
  require(types::floats.contains(c.input(0).dtype()), ErrorKind::unsupported, "it samples {}",
          name_of(c.input(0).dtype()));
  const std::vector<ir::ValueId> gradients = c.builder().add_multi(
      "tessera::GridSampleGradient", {c.input(0).id(), c.input(1).id(), c.gradient().id()}, 2, c.node().attributes);
  for (std::size_t i = 0; i < 2; ++i) c.set(i, {c.builder(), gradients[i]});
}

// AffineGrid is linear in theta: the gradient is the product with the coordinates of all positions, as the identity
// gives them, and 1.
void affine_grid_gradient(GradientContext& c) {
  const Term theta = c.input(0), g = c.gradient();
  const std::int64_t spatial = g.rank() - 2;
  const Shape shape{1, spatial, spatial + 1};
  Tensor identity(DType::f32, shape);
  for (std::int64_t i = 0; i < identity.elements(); ++i)
    identity.mutable_data<float>()[i] = i % (spatial + 1) == i / (spatial + 1) ? 1.0f : 0.0f;
  const Term same(c.builder(), c.builder().constant(identity));
  const auto flat = [&](Term term) {
    return term.combine("Reshape", {join({theta.size_of(0), theta.integers({-1, spatial})})});
  };
  const Term places =
      flat(same.cast(g.dtype()).expand(theta.shape()).combine("AffineGrid", {c.input(1)}, c.node().attributes));
  const Term turned = flat(g).transpose({0, 2, 1});
  c.set(0, turned.combine("MatMul", {places}).combine("Concat", {turned.sum({2})}, {{"axis", std::int64_t{2}}}));
}

}  // namespace

ir::Dims affine_grid_dims(const ir::Dims& theta, std::span<const std::int64_t> size) {
  require(size.size() == 4 || size.size() == 5, ErrorKind::invalid_model, "size has {} elements, expected 4 or 5",
          size.size());
  for (std::int64_t dim : size)
    require(dim >= 0, ErrorKind::invalid_model, "size {} has a negative dimension",
            to_string(Shape(size.begin(), size.end())));
  const std::int64_t spatial = static_cast<std::int64_t>(size.size()) - 2;
  require(theta.size() == 3 && theta[0].may_equal(size[0]) && theta[1].may_equal(spatial) &&
              theta[2].may_equal(spatial + 1),
          ErrorKind::invalid_model, "theta is {}, expected [{}, {}, {}]", ir::to_string(theta), size[0], spatial,
          spatial + 1);
  ir::Dims result{size[0]};
  result.insert(result.end(), size.begin() + 2, size.end());
  result.emplace_back(spatial);
  return result;
}

const OpDef grid_sample{
    .name = "GridSample",
    .since = 22,
    .inputs = {{"X", types::any_element, "T1"}, {"grid", types::floats, "T2"}},
    .outputs = {{"Y", types::any_element, "T1"}},
    .attributes = {{"align_corners", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})},
                   {"mode", ir::AttributeKind::text, ir::Attribute(std::string("linear"))},
                   {"padding_mode", ir::AttributeKind::text, ir::Attribute(std::string("zeros"))}},
    .infer = infer_grid_sample,
    .operations = operations_grid_sample,
    .gradient = gradient_of_grid_sample,
};

// Computes the gradients of X and of the grid from that of Y: each sample adds its weights to the elements of X that it
// reads, and moves along the grid change these weights. Mode nearest, and positions moved by padding mode border, have
// zero gradient along the grid.
const OpDef grid_sample_gradient{
    .name = "tessera::GridSampleGradient",
    .since = 1,
    .inputs = {{"X", types::floats, "T1"}, {"grid", types::floats, "T2"}, {"dY", types::floats, "T1"}},
    .outputs = {{"dX", types::floats, "T1"}, {"dgrid", types::floats, "T2"}},
    .attributes = {{"align_corners", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})},
                   {"mode", ir::AttributeKind::text, ir::Attribute(std::string("linear"))},
                   {"padding_mode", ir::AttributeKind::text, ir::Attribute(std::string("zeros"))}},
    .infer = infer_grid_sample_gradient,
    .operations = [](const NodeView& view) { return 8 * static_cast<double>(view.input(2).elements()); },
};

const OpDef affine_grid{
    .name = "AffineGrid",
    .since = 20,
    .inputs = {{"theta", types::floats, "T1"}, {"size", types::i64}},
    .outputs = {{"grid", types::floats, "T1"}},
    .attributes = {{"align_corners", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})}},
    .infer = infer_affine_grid,
    .operations = operations_affine_grid,
    .gradient = affine_grid_gradient,
};

}  // namespace tessera::ops
