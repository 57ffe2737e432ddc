#include "ops/convolutions/col2im.h"

#include "base/error.h"
#include "base/numbers/checked.h"
#include "ops/core/gradient.h"
#include "ops/core/shape_arguments.h"
#include "ops/core/signatures.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

void infer_col2im(InferContext& context) {
  const ir::Dims* input = context.dims(0);
  context.check(input == nullptr || input->size() == 3, "input is {}, expected rank 3", text_of(input));
  const auto image = context.constant_integers(1), block = context.constant_integers(2);
  const auto axes = known_length(context, 1);
  const std::optional<Shape> shape = input != nullptr ? ir::to_shape(*input) : std::nullopt;
  if (!image && !axes) return context.set_output_unknown_rank(0, context.dtype(0));
  ir::Dims result = unknown_dims(base::checked_add(image ? static_cast<std::int64_t>(image->size()) : *axes, 2));
  if (input != nullptr) result[0] = (*input)[0];
  for (std::size_t i = 0; image && i < image->size(); ++i) {
    context.check((*image)[i] >= 0, "image_shape {} has a negative dimension", text_of(*image));
    result[2 + i] = (*image)[i];
  }
  if (shape && image && block) result[1] = col2im_geometry(context, *shape, *image, *block).channels;
  context.set_output(0, context.dtype(0), std::move(result));
}

std::vector<std::int64_t> list_or(const AttributeReader& reader, std::string_view name, std::size_t count,
                                  std::int64_t fallback) {
  std::vector<std::int64_t> values = reader.integers_or_empty(name);
  if (values.empty()) values.assign(count, fallback);
  require(values.size() == count, ErrorKind::invalid_model, "attribute '{}' has {} entries, expected {}", name,
          values.size(), count);
  // Values must be small enough that positions computed from them do not overflow.
  for (std::int64_t value : values) {
    require(value >= fallback && value <= (std::int64_t{1} << 31), ErrorKind::invalid_model,
            "attribute '{}' has the entry {}", name, value);
  }
  return values;
}

// The transpose copies blocks out of the image: a convolution of each channel with one kernel per element of the block.
void col2im_gradient(GradientContext& c) {
  require(types::floats.contains(c.input(0).dtype()), ErrorKind::unsupported, "its elements are {}",
          name_of(c.input(0).dtype()));
  const std::vector<std::int64_t> block = c.constant_integers(2);
  const Term g = c.gradient(), x = c.input(0);
  const std::int64_t elements = element_count(block);
  Shape kernels{elements, 1};
  kernels.insert(kernels.end(), block.begin(), block.end());
  Tensor ones(DType::f32, kernels);
  for (std::int64_t i = 0; i < ones.elements(); ++i)
    ones.mutable_data<float>()[i] = i / elements == i % elements ? 1.0f : 0.0f;
  std::vector<Term> planes{x.integers({-1, 1})};
  for (std::size_t i = 0; i < block.size(); ++i) planes.push_back(g.size_of(static_cast<std::int64_t>(2 + i)));
  const Term weights = Term(c.builder(), c.builder().constant(ones)).cast(g.dtype());
  c.set(0, g.combine("Reshape", {join(planes)}).combine("Conv", {weights}, c.node().attributes).reshape_like(x));
}

}  // namespace

Col2ImGeometry col2im_geometry(const AttributeReader& reader, const Shape& input, std::vector<std::int64_t> image,
                               std::vector<std::int64_t> block) {
  const std::size_t axes = image.size();
  require(axes > 0 && block.size() == axes, ErrorKind::invalid_model, "image_shape has {} axes, block_shape {}", axes,
          block.size());
  for (std::int64_t size : image)
    require(size >= 0, ErrorKind::invalid_model, "image_shape {} has a negative dimension", text_of(image));
  for (std::int64_t size : block)
    require(size > 0, ErrorKind::invalid_model, "block_shape {} has a dimension below 1", text_of(block));
  Col2ImGeometry geometry{
      image, block, list_or(reader, "dilations", axes, 1), {}, {}, list_or(reader, "strides", axes, 1), {}, 0};
  const std::vector<std::int64_t> pads = list_or(reader, "pads", 2 * axes, 0);
  geometry.pads_begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(axes));
  geometry.pads_end.assign(pads.begin() + static_cast<std::ptrdiff_t>(axes), pads.end());
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t reach = base::checked_multiply(geometry.dilations[i], block[i] - 1);
    const std::int64_t room = base::checked_add(image[i], geometry.pads_begin[i] + geometry.pads_end[i]) - reach - 1;
    require(room >= 0, ErrorKind::invalid_model, "a block of {} does not fit into an image of {} at axis {}", block[i],
            image[i], i);
    geometry.positions.push_back(room / geometry.strides[i] + 1);
  }
  const std::int64_t block_elements = element_count(block), places = element_count(geometry.positions);
  require(input.size() == 3 && input[1] % block_elements == 0 && input[2] == places, ErrorKind::invalid_model,
          "input is {}, expected [N, a multiple of {}, {}]", text_of(input), block_elements, places);
  geometry.channels = input[1] / block_elements;
  return geometry;
}

// Overlapping elements of blocks are added; for bool, one true element makes the pixel true. Strings cannot be added:
// they are only moved.
const OpDef col2im{
    .name = "Col2Im",
    .since = 18,
    .inputs = {{"input", types::any_element, "T"}, {"image_shape", types::i64}, {"block_shape", types::i64}},
    .outputs = {{"output", types::any_element, "T"}},
    .attributes = {{"dilations", ir::AttributeKind::integers},
                   {"pads", ir::AttributeKind::integers},
                   {"strides", ir::AttributeKind::integers}},
    .infer = infer_col2im,
    .operations = operations_per_input<1>,
    .gradient = col2im_gradient,
};

}  // namespace tessera::ops
