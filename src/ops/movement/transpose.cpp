#include "ops/movement/transpose.h"

#include <algorithm>

#include "base/error.h"
#include "ops/core/gradient.h"
#include "ops/core/shape_arguments.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

void infer_transpose(InferContext& context) {
  const ir::Dims* input = context.dims(0);
  if (input == nullptr) {
    if (context.has_attribute("perm"))
      context.set_output(0, context.dtype(0), unknown_dims(static_cast<std::int64_t>(context.integers("perm").size())));
    else context.set_output_unknown_rank(0, context.dtype(0));
    return;
  }
  ir::Dims result;
  for (std::int64_t axis : permutation_of(context, static_cast<std::int64_t>(input->size())))
    result.push_back((*input)[axis]);
  context.set_output(0, context.dtype(0), std::move(result));
}

std::int64_t block_size(const InferContext& context) {
  const std::int64_t size = context.integer("blocksize");
  context.check(size > 0 && size < (std::int64_t{1} << 31), "blocksize is {}, expected a positive number", size);
  return size;
}

ir::Dim divide(const InferContext& context, const ir::Dim& dim, std::int64_t divisor, std::string_view what) {
  if (divisor == 1) return dim;
  if (!dim.is_known()) return {};
  context.check(dim.value() % divisor == 0, "{} {} is no multiple of {}", what, dim.value(), divisor);
  return dim.value() / divisor;
}

const ir::Dims* image_dims(const InferContext& context) {
  const ir::Dims* dims = context.dims(0);
  context.check(dims == nullptr || dims->size() == 4, "input has shape {}, expected [N, C, H, W]", text_of(dims));
  return dims;
}

void infer_depth_to_space(InferContext& context) {
  const std::string& mode = context.text("mode");
  context.check(mode == "DCR" || mode == "CRD", "mode is '{}', expected DCR or CRD", mode);
  const std::int64_t size = block_size(context);
  ir::Dims result(4);
  if (const ir::Dims* dims = image_dims(context)) {
    const ir::Dim block(size);
    result = {(*dims)[0], divide(context, (*dims)[1], size * size, "channel count"), (*dims)[2] * block,
              (*dims)[3] * block};
  }
  context.set_output(0, context.dtype(0), std::move(result));
}

void infer_space_to_depth(InferContext& context) {
  const std::int64_t size = block_size(context);
  ir::Dims result(4);
  if (const ir::Dims* dims = image_dims(context)) {
    result = {(*dims)[0], (*dims)[1] * ir::Dim(size * size), divide(context, (*dims)[2], size, "height"),
              divide(context, (*dims)[3], size, "width")};
  }
  context.set_output(0, context.dtype(0), std::move(result));
}

void transpose_gradient(GradientContext& c) {
  const std::vector<std::int64_t> permutation = permutation_of(c, c.input(0).rank());
  std::vector<std::int64_t> inverse(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i)
    inverse[static_cast<std::size_t>(permutation[i])] = static_cast<std::int64_t>(i);
  c.set(0, c.gradient().transpose(std::move(inverse)));
}

ir::Attributes block_attribute(const GradientContext& c) {
  return {{"blocksize", c.integer("blocksize")}};
}

// The inverse permutation of the elements. SpaceToDepth undoes the mode DCR; for CRD, whose channels are [C, b, b],
// the channels [b, b, C] that it makes are reordered.
void depth_to_space_gradient(GradientContext& c) {
  const Term depth = c.gradient().apply("SpaceToDepth", block_attribute(c));
  if (c.text("mode") == "DCR") return c.set(0, depth.of_shape(c.input(0)));
  const std::int64_t block = c.integer("blocksize");
  const Term apart = depth.integers({0, block * block, -1});
  const Term shape = join({apart, depth.size_of(2), depth.size_of(3)});
  const Term split = depth.combine("Reshape", {shape});
  c.set(0, split.transpose({0, 2, 1, 3, 4}).reshape_like(c.input(0)));
}

void space_to_depth_gradient(GradientContext& c) {
  c.set(0, c.gradient().apply("DepthToSpace", block_attribute(c)).of_shape(c.input(0)));
}

}  // namespace

std::vector<std::int64_t> permutation_of(const AttributeReader& reader, std::int64_t rank) {
  if (!reader.has_attribute("perm")) {
    std::vector<std::int64_t> reversed = all_axes(rank);
    std::reverse(reversed.begin(), reversed.end());
    return reversed;
  }
  const std::vector<std::int64_t>& given = reader.integers("perm");
  require(static_cast<std::int64_t>(given.size()) == rank, ErrorKind::invalid_model,
          "perm names {} axes of a tensor of rank {}", given.size(), rank);
  return normalise_axes(given, rank);
}

const OpDef transpose{
    .name = "Transpose",
    .since = 25,
    .inputs = {{"data", types::all, "T"}},
    .outputs = {{"transposed", types::all, "T"}},
    .attributes = {{"perm", ir::AttributeKind::integers}},
    .infer = infer_transpose,
    .gradient = transpose_gradient,
    .traits = {Trait::moves, Trait::rearranges},
};

const OpDef depth_to_space{
    .name = "DepthToSpace",
    .since = 13,
    .inputs = {{"input", types::all, "T"}},
    .outputs = {{"output", types::all, "T"}},
    .attributes = {{"blocksize", ir::AttributeKind::integer, std::nullopt, true},
                   {"mode", ir::AttributeKind::text, ir::Attribute(std::string("DCR"))}},
    .infer = infer_depth_to_space,
    .gradient = depth_to_space_gradient,
    .traits = {Trait::moves, Trait::rearranges},
};

const OpDef space_to_depth{
    .name = "SpaceToDepth",
    .since = 13,
    .inputs = {{"input", types::all, "T"}},
    .outputs = {{"output", types::all, "T"}},
    .attributes = {{"blocksize", ir::AttributeKind::integer, std::nullopt, true}},
    .infer = infer_space_to_depth,
    .gradient = space_to_depth_gradient,
    .traits = {Trait::moves, Trait::rearranges},
};

}  // namespace tessera::ops
