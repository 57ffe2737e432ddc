#include "ops/products/fused_matmul.h"

#include <algorithm>
#include <numeric>

#include "ops/core/product.h"
#include "ops/core/signatures.h"
#include "ops/element_wise/fused_activation.h"
#include "ops/products/matrix_product.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;
using ir::ValueId;

AttributeSpec factor(std::string_view name) {
  return {name, AttributeKind::real, ir::Attribute(1.0f)};
}

// The order in which an operand's axes are multiplied: `batch` moves axis 0 behind the other batch axes, `matrix` swaps
// the last two. A vector stays as it is.
std::vector<std::int64_t> operand_order(std::size_t rank, bool batch, bool matrix) {
  std::vector<std::int64_t> order(rank);
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (rank < 2) return order;
  if (batch) std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  if (matrix) std::swap(order[rank - 1], order[rank - 2]);
  return order;
}

std::vector<std::int64_t> operand_order(const AttributeReader& reader, std::size_t rank, bool left) {
  const bool batch = &reader.op() == &fused_matmul && reader.integer(left ? "transBatchA" : "transBatchB") != 0;
  return operand_order(rank, batch, reader.integer(left ? "transA" : "transB") != 0);
}

void infer_fused_matmul(InferContext& context) {
  const auto ordered = [&](std::size_t i) {
    const ir::Dims& dims = *context.dims(i);
    ir::Dims result;
    for (const std::int64_t axis : operand_order(context, dims.size(), i == 0))
      result.push_back(dims[static_cast<std::size_t>(axis)]);
    return result;
  };
  if (context.dims(0) == nullptr || context.dims(1) == nullptr)
    return context.set_output_unknown_rank(0, context.dtype(0));
  context.set_output(0, context.dtype(0), matmul_dims(context, ordered(0), ordered(1)));
}

std::optional<std::vector<ValueId>> decompose_fused_matmul(GraphBuilder& builder, const AttributeReader& reader,
                                                           std::span<const ValueId> inputs) {
  std::vector<ValueId> operands;
  for (std::size_t i = 0; i < 2; ++i) {
    if (builder.dims(inputs[i]) == nullptr) return std::nullopt;
    std::vector<std::int64_t> order = operand_order(reader, builder.dims(inputs[i])->size(), i == 0);
    const bool kept = std::is_sorted(order.begin(), order.end());
    operands.push_back(kept ? inputs[i] : builder.add("Transpose", {inputs[i]}, {{"perm", std::move(order)}}));
  }
  const ValueId product = builder.add("MatMul", operands);
  const float alpha = &reader.op() == &fused_matmul ? reader.real("alpha") : 1;
  if (alpha == 1) return std::vector{product};
  return std::vector{builder.add("Mul", {product, builder.scalar(alpha, builder.dtype(product))})};
}

double fused_matmul_operations(const NodeView& view) {
  const Shape& a = view.input(0).shape;
  const std::int64_t inner = a[static_cast<std::size_t>(operand_order(view, a.size(), true).back())];
  return 2.0 * static_cast<double>(view.output(0).elements()) * static_cast<double>(inner);
}

std::vector<float> activation_values(const AttributeReader& reader) {
  std::vector<float> values;
  for (const std::string_view name : activation_parameters(reader.text("activation")))
    values.push_back(reader.real(fmt::format("activation_{}", name)));
  return values;
}

void infer_fused_gemm(InferContext& context) {
  if (context.has_attribute("activation")) {
    context.check(context.text("activation") != "Clip", "activation 'Clip' has no parameters here");
    activation_values(context);
  }
  gemm.infer(context);
}

std::optional<std::vector<ValueId>> decompose_fused_gemm(GraphBuilder& builder, const AttributeReader& reader,
                                                         std::span<const ValueId> inputs) {
  const ValueId product = builder.add("Gemm", {inputs.begin(), inputs.end()}, reader.given_among(gemm_attributes()));
  if (!reader.has_attribute("activation")) return std::vector{product};
  return std::vector{add_activation(builder, reader.text("activation"), activation_values(reader), product)};
}

std::vector<AttributeSpec> fused_gemm_attributes() {
  std::vector<AttributeSpec> specs = gemm_attributes();
  specs.push_back({"activation", AttributeKind::text});
  for (const std::string_view name : {"activation_alpha", "activation_beta", "activation_gamma"})
    specs.push_back({name, AttributeKind::real});
  return specs;
}

}  // namespace

// Y = alpha · A' · B', the operands with their axes reordered
const OpDef fused_matmul{
    .name = "com.microsoft::FusedMatMul",
    .since = 1,
    .product = fused_matmul_product,
    .inputs = {{"A", types::floats, "T"}, {"B", types::floats, "T"}},
    .outputs = {{"Y", types::floats, "T"}},
    .attributes = {factor("alpha"), integer_attribute("transA"), integer_attribute("transB"),
                   integer_attribute("transBatchA"), integer_attribute("transBatchB")},
    .infer = infer_fused_matmul,
    .operations = fused_matmul_operations,
    .decompose = decompose_fused_matmul,
};

// Y = A' · B', where A' and B' are A and B with the last two axes optionally swapped. Nodes of com.microsoft's operator
// are decomposed so that passes can recognise attention around them; this one is for devices that can read operands in
// their given layout.
const OpDef transposed_matmul{
    .name = "tessera::TransposedMatMul",
    .product = fused_matmul_product,
    .inputs = {{"A", types::floats, "T"}, {"B", types::floats, "T"}},
    .outputs = {{"Y", types::floats, "T"}},
    .attributes = {integer_attribute("transA"), integer_attribute("transB")},
    .infer = infer_fused_matmul,
    .operations = fused_matmul_operations,
    .decompose = decompose_fused_matmul,
};

// Y = activation(alpha · A' · B' + beta · C)
const OpDef fused_gemm{
    .name = "com.microsoft::FusedGemm",
    .since = 1,
    .product = gemm_product,
    .inputs = {{"A", types::floats, "T"}, {"B", types::floats, "T"}, {"C", types::floats, "T", optional}},
    .outputs = {{"Y", types::floats, "T"}},
    .attributes = fused_gemm_attributes(),
    .infer = infer_fused_gemm,
    .decompose = decompose_fused_gemm,
};

}  // namespace tessera::ops
