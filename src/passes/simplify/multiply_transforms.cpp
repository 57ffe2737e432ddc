// Replaces discrete Fourier transforms of short lines, such as the frames of a spectrogram, by products with a constant
// matrix, which run at the full speed of the device's arithmetic.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "base/error.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/op_table.h"
#include "ops/rows/dft.h"
#include "passes/pass.h"
#include "passes/rewriter.h"
#include "passes/simplify/decompose_composites.h"

namespace tessera::passes {
namespace {

// The most elements of the matrix that multiplies a line: 16 MiB of float32. Longer transforms need another algorithm.
constexpr std::int64_t kLargestMatrix = std::int64_t{1} << 22;
// The least number of data elements is the matrix's elements divided by this, so that reading the matrix pays off.
constexpr std::int64_t kMatrixPerElement = 64;

// The transform as a matrix [length * parts, bins * 2] that multiplies a line [length, parts] whose parts are adjacent.
// Bin k of a line of N is the sum over n of x[n] e^(-2 pi i k n / N).
template <typename T>
Tensor transform_matrix(DType dtype, const ops::DftRequest& request, std::int64_t length, std::int64_t parts,
                        std::int64_t bins) {
  const std::int64_t whole = request.length;
  std::vector<double> cosines, sines;
  for (std::int64_t i = 0; i < whole; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(whole);
    cosines.push_back(std::cos(angle));
    sines.push_back(-std::sin(angle));
  }
  Tensor matrix(dtype, {length * parts, bins * 2});
  T* to = matrix.mutable_data<T>();
  for (std::int64_t n = 0; n < length; ++n) {
    for (std::int64_t part = 0; part < parts; ++part) {
      for (std::int64_t k = 0; k < bins; ++k) {
        const auto at = static_cast<std::size_t>(n * k % whole);
        const double real = cosines[at], imaginary = sines[at];
        *to++ = static_cast<T>(part == 0 ? real : -imaginary);
        *to++ = static_cast<T>(part == 0 ? imaginary : real);
      }
    }
  }
  return matrix;
}

// The transform as a product, or nothing where the matrix would be large or its size is not known.
std::optional<ir::ValueId> product(ops::GraphBuilder& builder, const ops::AttributeReader& reader,
                                   std::span<const ir::ValueId> inputs, FoldingBudget* budget) {
  const auto given = [&](std::size_t i) { return i < inputs.size() && inputs[i].valid(); };
  const auto constant = [&](std::size_t i) { return given(i) ? builder.graph().constant(inputs[i]) : nullptr; };
  const ir::ValueType& type = builder.type(inputs[0]);
  if ((given(1) && constant(1) == nullptr) || (given(2) && constant(2) == nullptr) || !type.dims) return {};
  if (type.dtype != DType::f32 && type.dtype != DType::f64) return {};
  const ir::Dims input = *type.dims;
  const ops::DftRequest request = ops::dft_request(reader, input, constant(1), constant(2));
  const ir::Dim &line = input[request.axis], &last = input.back();
  // Inverse transforms of complex numbers are left out, because ONNX's test data contain the kernel's rounding noise.
  if (!line.is_known() || !last.is_known() || request.length < 0 || request.inverse) return {};
  const ir::Dims output = ops::dft_dims(input, request);
  const std::int64_t length = line.value(), parts = last.value(), bins = output[request.axis].value();
  // Elements that are cut off must not enter the sum, not even as zero times infinity.
  if (length < 1 || length > std::min(request.length, kLargestMatrix) || bins > kLargestMatrix / (length * parts * 2))
    return {};
  // A product reads the whole matrix, so few lines are faster by themselves.
  const std::optional<Shape> shape = ir::to_shape(input);
  if (!shape || element_count(*shape) < length * parts * bins * 2 / kMatrixPerElement) return {};
  if (budget != nullptr) {
    const std::int64_t bytes = length * parts * bins * 2 * bits_of(type.dtype) / 8;
    if (budget->bytes < bytes) return {};
    budget->bytes -= bytes;
  }
  const Tensor matrix = type.dtype == DType::f32 ? transform_matrix<float>(DType::f32, request, length, parts, bins)
                                                 : transform_matrix<double>(DType::f64, request, length, parts, bins);
  const ops::Term x(builder, inputs[0]);
  const auto rank = static_cast<std::int64_t>(input.size());
  // Moves the axis in front of the parts, and back.
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < rank - 1; ++i) {
    if (i != request.axis) order.push_back(i);
  }
  order.insert(order.end(), {request.axis, rank - 1});
  const bool turned = request.axis != rank - 2;
  std::vector<std::int64_t> joined(static_cast<std::size_t>(rank - 2), 0), parted = joined;  // 0: as it is
  joined.push_back(length * parts);
  parted.insert(parted.end(), {bins, 2});
  ops::Term lines = turned ? x.combine("Transpose", {}, {{"perm", order}}) : x;
  lines = lines.combine("Reshape", {x.integers(joined)})
              .combine("MatMul", {ops::Term(builder, builder.constant(matrix))})
              .combine("Reshape", {x.integers(parted)});
  if (!turned) return lines.id();
  std::vector<std::int64_t> back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return lines.combine("Transpose", {}, {{"perm", back}}).id();
}

}  // namespace

ir::Graph multiply_transforms(ir::Graph graph, const PassContext& context) {
  rewrite_each(graph, [&](ir::NodeId id) {
    if (graph.node(id).op != "DFT") return false;
    context.note_weighing();
    ops::infer_node_in_place(graph, id);
    const ir::Node node = graph.node(id);
    ops::GraphBuilder builder(graph);
    builder.set_name_prefix(node.name.empty() ? "" : node.name + "/");
    const auto result = if_legal([&] {
      return product(builder, ops::AttributeReader(node, ops::op_of(node)), node.inputs, context.folding_left);
    });
    return result && *result && carry_results(graph, id, {{**result}});
  });
  return graph;
}

}  // namespace tessera::passes
