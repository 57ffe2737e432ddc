#include "ops/products/block_linear.h"

#include "base/error.h"
#include "base/text.h"
#include "ops/core/check_operand.h"
#include "ops/core/product.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;

void infer_block_linear(InferContext& context) {
  const BlockWeights weights = block_weights_of(context);
  const std::int64_t exact = context.integer("exact");
  context.check(exact == 0 || exact == 1, "exact is {}, expected 0 or 1", exact);
  check_block_weights(context, 1, weights);
  check_operand(context, 2, {weights.n});
  const ir::Dims* x = context.dims(0);
  if (x == nullptr) return context.set_output_unknown_rank(0, DType::f32);
  context.check(!x->empty() && x->back().may_equal(weights.k),
                "input 'X' has shape {}, expected K = {} as its last dimension", to_string(*x), weights.k);
  ir::Dims y = *x;
  y.back() = weights.n;
  context.set_output(0, DType::f32, std::move(y));
}

double block_linear_operations(const NodeView& view) {
  return 2.0 * static_cast<double>(view.output(0).elements()) * static_cast<double>(view.integer("K"));
}

}  // namespace

BlockWeights block_weights_of(const AttributeReader& reader) {
  const std::optional<base::BlockFormat> format = base::block_format_from_name(reader.text("format"));
  require(format.has_value(), ErrorKind::invalid_model, "format is '{}', which is no format of blocks",
          base::shown(reader.text("format")));
  const std::int64_t n = reader.integer("N"), k = reader.integer("K");
  require(n >= 1 && k >= 1, ErrorKind::invalid_model, "N is {} and K is {}, expected at least 1", n, k);
  return {*format, n, k, base::row_bytes(*format, k)};
}

void check_block_weights(const InferContext& context, std::size_t i, const BlockWeights& weights) {
  const ir::Dims* dims = context.has_input(i) ? context.dims(i) : nullptr;
  if (dims == nullptr) return;
  const bool is_matrix =
      dims->size() == 2 && (*dims)[0].may_equal(weights.n) && (*dims)[1].may_equal(weights.row_bytes);
  const bool is_line =
      dims->size() == 1 && (!(*dims)[0].is_known() || ((*dims)[0].value() % weights.row_bytes == 0 &&
                                                       (*dims)[0].value() / weights.row_bytes == weights.n));
  context.check(is_matrix || is_line, "input '{}' has shape {}, expected {} rows of {} bytes ({})",
                context.op().inputs[i].name, to_string(*dims), weights.n, weights.row_bytes,
                base::layout_of(weights.format).name);
}

std::int64_t activation_block(base::BlockFormat format) {
  const std::int64_t elements = base::layout_of(format).elements;
  return elements == 1 ? 0 : elements;
}

std::vector<AttributeSpec> block_weight_attributes() {
  return {{"format", AttributeKind::text, std::nullopt, true},
          {"N", AttributeKind::integer, std::nullopt, true},
          {"K", AttributeKind::integer, std::nullopt, true}};
}

const OpDef block_linear{
    .name = "tessera::BlockLinear",
    .since = 1,
    .product = n_bits_product,
    .inputs = {{"X", {DType::f32}}, {"W", {DType::u8}}, {"B", {DType::f32}, "", optional}},
    .outputs = {{"Y", {DType::f32}}},
    .attributes =
        [] {
          std::vector<AttributeSpec> specs = block_weight_attributes();
          specs.push_back({"exact", AttributeKind::integer, ir::Attribute(std::int64_t{0})});
          return specs;
        }(),
    .infer = infer_block_linear,
    .operations = block_linear_operations,
};

}  // namespace tessera::ops
