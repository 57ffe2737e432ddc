#include "ops/products/matrix_product.h"

#include "ops/core/gradient.h"
#include "ops/core/product.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

constexpr TypeSet product_types = types::floats | TypeSet{DType::i32, DType::i64, DType::u32, DType::u64};
constexpr TypeSet bytes{DType::i8, DType::u8};
constexpr TypeSet quantised = bytes | types::small_floats.without({DType::f4e2m1, DType::f8e8m0});
constexpr TypeSet scales{DType::f32, DType::f16, DType::bf16};

void set_matrix_product(InferContext& context, std::size_t a, std::size_t b, DType dtype) {
  const ir::Dims* left = context.dims(a);
  const ir::Dims* right = context.dims(b);
  if (left == nullptr || right == nullptr) context.set_output_unknown_rank(0, dtype);
  else context.set_output(0, dtype, matmul_dims(context, *left, *right));
}

void infer_matmul(InferContext& context) {
  set_matrix_product(context, 0, 1, context.dtype(0));
}

enum class Line { row, column };

// Checks a scale or zero point of a matrix or of a batch of matrices: it has one element, one per row or column, or one
// per row or column of each matrix.
void check_by_line(const InferContext& context, std::size_t input, const std::optional<ir::Dims>& operand, Line line) {
  if (!context.has_input(input) || context.dims(input) == nullptr || !operand) return;
  ir::Dims lines = *operand;
  if (lines.size() == 1) lines = {1};  // a vector is one row, or one column
  else if (!lines.empty()) lines.erase(lines.end() - (line == Line::row ? 1 : 2));
  const ir::Dim count = ir::product(*context.dims(input));
  const bool fits =
      count.may_equal(1) || lines.empty() || count.may_equal(lines.back()) || count.may_equal(ir::product(lines));
  context.check(fits, "input '{}' has shape {}, expected one value, or one for each {} of {}",
                context.op().inputs[input].name, text_of(*context.dims(input)), line == Line::row ? "row" : "column",
                text_of(*operand));
}

void infer_matmul_integer(InferContext& context) {
  set_matrix_product(context, 0, 1, DType::i32);
  check_by_line(context, 2, context.input(0).dims, Line::row);
  check_by_line(context, 3, context.input(1).dims, Line::column);
}

void infer_qlinear_matmul(InferContext& context) {
  set_matrix_product(context, 0, 3, context.dtype(7));
  for (const std::size_t input : {std::size_t{1}, std::size_t{2}})
    check_by_line(context, input, context.input(0).dims, Line::row);
  for (const std::size_t input : {std::size_t{4}, std::size_t{5}})
    check_by_line(context, input, context.input(3).dims, Line::column);
  if (!context.wants_output(0) || !context.results()[0]) return;
  for (const std::size_t input : {std::size_t{6}, std::size_t{7}})
    check_by_line(context, input, context.results()[0]->dims, Line::row);
}

void infer_gemm(InferContext& context) {
  const ir::Dims* a = context.dims(0);
  const ir::Dims* b = context.dims(1);
  const bool transpose_a = context.integer("transA") != 0, transpose_b = context.integer("transB") != 0;
  ir::Dims result(2);
  if (a != nullptr) context.check(a->size() == 2, "input 'A' has rank {}, expected 2", a->size());
  if (b != nullptr) context.check(b->size() == 2, "input 'B' has rank {}, expected 2", b->size());
  if (a != nullptr) result[0] = (*a)[transpose_a ? 1 : 0];
  if (b != nullptr) result[1] = (*b)[transpose_b ? 0 : 1];
  if (a != nullptr && b != nullptr) {
    const ir::Dim& left = (*a)[transpose_a ? 0 : 1];
    const ir::Dim& right = (*b)[transpose_b ? 1 : 0];
    context.check(left.may_equal(right), "the inner dimensions of {}{} and {}{} differ", text_of(*a),
                  transpose_a ? " transposed" : "", text_of(*b), transpose_b ? " transposed" : "");
  }
  if (context.has_input(2) && context.dims(2) != nullptr) {
    const ir::Dims& c = *context.dims(2);
    context.check(c.size() <= 2, "input 'C' has rank {}, expected at most 2", c.size());
    const ir::Dims both = broadcast_dims(context, result, c);
    for (std::size_t i = 0; i < 2; ++i)
      context.check(both[i].may_equal(result[i]), "input 'C' of shape {} does not broadcast to {}", text_of(c),
                    text_of(result));
  }
  context.set_output(0, context.dtype(0), std::move(result));
}

// 2·(elements of the result)·K.
double product_operations(const NodeView& view, std::size_t a, std::int64_t inner_axis) {
  const Shape& shape = view.input(a).shape;
  if (shape.empty()) return 0;
  const std::int64_t inner = shape[static_cast<std::size_t>(
      inner_axis < 0 ? inner_axis + static_cast<std::int64_t>(shape.size()) : inner_axis)];
  return 2.0 * static_cast<double>(view.output(0).elements()) * static_cast<double>(inner);
}

double matmul_operations(const NodeView& view) {
  return product_operations(view, 0, -1);
}
double gemm_operations(const NodeView& view) {
  return product_operations(view, 0, view.integer("transA") != 0 ? 0 : 1);
}

Term transposed(Term matrix) {
  std::vector<std::int64_t> permutation;
  for (std::int64_t i = 0; i < matrix.rank(); ++i) permutation.push_back(i);
  std::swap(permutation.end()[-1], permutation.end()[-2]);
  return matrix.transpose(std::move(permutation));
}

// A'ᵀ g for a 2-D B: one product of all rows, instead of one product per batch and a sum.
Term matrix_product_weight_gradient(Term a, Term g) {
  const auto rows = [](Term term) { return term.apply("Flatten", {{"axis", std::int64_t{-1}}}); };
  return transposed(rows(a)).combine("MatMul", {rows(g)});
}

// dA = g Bᵀ, dB = Aᵀ g; a vector counts as a matrix of one row or column.
void matmul_gradient(GradientContext& c) {
  const bool row = c.input(0).rank() == 1, column = c.input(1).rank() == 1;
  const Term a = row ? c.input(0).unsqueeze({0}) : c.input(0), b = column ? c.input(1).unsqueeze({1}) : c.input(1);
  Term g = c.gradient();
  if (column) g = g.unsqueeze({-1});
  if (row) g = g.unsqueeze({-2});
  if (c.wants(0)) c.set(0, g.combine("MatMul", {transposed(b)}));
  if (!c.wants(1)) return;
  const Term db =
      b.rank() == 2 && a.rank() > 2 ? matrix_product_weight_gradient(a, g) : transposed(a).combine("MatMul", {g});
  c.set(1, column ? db.combine("Squeeze", {db.integers({-1})}) : db);
}

void gemm_gradient(GradientContext& c) {
  const Term a = c.input(0), b = c.input(1), g = c.gradient();
  const std::int64_t transpose_a = c.integer("transA") != 0 ? 1 : 0, transpose_b = c.integer("transB") != 0 ? 1 : 0;
  const auto product = [&](Term left, Term right, std::int64_t left_transposed, std::int64_t right_transposed) {
    return left.combine("Gemm", {right},
                        {{"alpha", c.real("alpha")}, {"transA", left_transposed}, {"transB", right_transposed}});
  };
  if (c.wants(0)) c.set(0, transpose_a ? product(b, g, transpose_b, 1) : product(g, b, 0, 1 - transpose_b));
  if (c.wants(1)) c.set(1, transpose_b ? product(g, a, 1, transpose_a) : product(a, g, 1 - transpose_a, 0));
  if (c.wants(2)) c.set(2, g * c.real("beta"));
}

}  // namespace

std::vector<AttributeSpec> gemm_attributes() {
  return {{"alpha", ir::AttributeKind::real, ir::Attribute(1.0f)},
          {"beta", ir::AttributeKind::real, ir::Attribute(1.0f)},
          {"transA", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})},
          {"transB", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})}};
}

ir::Dims matmul_dims(const InferContext& context, ir::Dims a, ir::Dims b) {
  context.check(!a.empty() && !b.empty(), "a matrix product takes no scalars (shapes {} and {})", text_of(a),
                text_of(b));
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  context.check(a.back().may_equal(b[b.size() - 2]), "the inner dimensions of {} and {} differ", text_of(a),
                text_of(b));
  ir::Dims result = broadcast_dims(context, ir::Dims(a.begin(), a.end() - 2), ir::Dims(b.begin(), b.end() - 2));
  if (!row) result.push_back(a[a.size() - 2]);
  if (!column) result.push_back(b.back());
  return result;
}

const OpDef matmul{
    .name = "MatMul",
    .since = 13,
    .product = matrix_product_by<1>,
    .inputs = {{"A", product_types, "T"}, {"B", product_types, "T"}},
    .outputs = {{"Y", product_types, "T"}},
    .infer = infer_matmul,
    .operations = matmul_operations,
    .gradient = matmul_gradient,
};

// Y = alpha · A' · B' + beta · C
const OpDef gemm{
    .name = "Gemm",
    .since = 13,
    .product = gemm_product,
    .inputs = {{"A", product_types, "T"}, {"B", product_types, "T"}, {"C", product_types, "T", optional}},
    .outputs = {{"Y", product_types, "T"}},
    .attributes = gemm_attributes(),
    .infer = infer_gemm,
    .operations = gemm_operations,
    .gradient = gemm_gradient,
};

// Y = (A − a_zero_point) · (B − b_zero_point) in int32. Zero points: one, or one per row of A / column of B.
const OpDef matmul_integer{
    .name = "MatMulInteger",
    .since = 10,
    .product = matrix_product_by<1>,
    .inputs = {{"A", bytes, "T1"},
               {"B", bytes, "T2"},
               {"a_zero_point", bytes, "T1", optional},
               {"b_zero_point", bytes, "T2", optional}},
    .outputs = {{"Y", {DType::i32}, "T3"}},
    .infer = infer_matmul_integer,
    .operations = matmul_operations,
};

// y = saturate(round((a − a_zero_point) · (b − b_zero_point) · a_scale · b_scale / y_scale) + y_zero_point)
const OpDef qlinear_matmul{
    .name = "QLinearMatMul",
    .since = 21,
    .product = matrix_product_by<3>,
    .inputs = {{"a", quantised, "T1"},
               {"a_scale", scales, "TS"},
               {"a_zero_point", quantised, "T1"},
               {"b", quantised, "T2"},
               {"b_scale", scales, "TS"},
               {"b_zero_point", quantised, "T2"},
               {"y_scale", scales, "TS"},
               {"y_zero_point", quantised, "T3"}},
    .outputs = {{"y", quantised, "T3"}},
    .infer = infer_qlinear_matmul,
    .operations = matmul_operations,
};

}  // namespace tessera::ops
