#include "ops/products/einsum.h"

#include <type_traits>

#include "backends/backend.h"
#include "backends/host/numeric.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// All indices of an equation as axes of one iteration space: output indices first, then summed ones.
struct Space {
  Shape output, summed;
  // Per operand, strides over output and summed axes; 0 if the operand does not have the index or broadcasts.
  std::vector<std::vector<std::int64_t>> output_strides, summed_strides;
};

// The stride of `letter` ('.' with a position counted from the last ellipsis axis) in an operand: the sum over its
// occurrences, so that "ii" walks the diagonal.
std::int64_t stride_in(const std::string& term, const Shape& shape, char letter, std::size_t from_last) {
  const std::vector<std::int64_t> strides = strides_of(shape);
  const std::size_t dots = term.find('.');
  const std::size_t hidden = dots == std::string::npos ? 0 : shape.size() - (term.size() - 1);
  std::int64_t total = 0;
  std::size_t axis = 0;
  for (char c : term) {
    const std::size_t width = c == '.' ? hidden : 1;
    if (c == letter && c != '.' && shape[axis] != 1) total += strides[axis];
    if (c == letter && c == '.' && from_last < hidden) {
      const std::size_t position = axis + hidden - 1 - from_last;
      if (shape[position] != 1) total += strides[position];
    }
    axis += width;
  }
  return total;
}

Space make_space(const ops::EinsumEquation& equation, const ops::EinsumSizes& sizes, const std::vector<Shape>& shapes) {
  Space space;
  space.output_strides.resize(shapes.size());
  space.summed_strides.resize(shapes.size());
  auto add_axis = [&](bool summed, std::int64_t size, char letter, std::size_t from_last) {
    (summed ? space.summed : space.output).push_back(size);
    for (std::size_t t = 0; t < shapes.size(); ++t) {
      (summed ? space.summed_strides : space.output_strides)[t].push_back(
          stride_in(equation.inputs[t], shapes[t], letter, from_last));
    }
  };
  auto add_ellipsis = [&](bool summed) {
    for (std::size_t k = 0; k < sizes.ellipsis.size(); ++k)
      add_axis(summed, sizes.ellipsis[k], '.', sizes.ellipsis.size() - 1 - k);
  };
  for (char c : equation.output) {
    if (c == '.') add_ellipsis(false);
    else add_axis(false, sizes.letter[static_cast<std::size_t>(c)], c, 0);
  }
  if (equation.output.find('.') == std::string::npos) add_ellipsis(true);
  for (std::size_t c = 0; c < sizes.letter.size(); ++c) {
    if (sizes.letter[c] >= 0 && equation.output.find(static_cast<char>(c)) == std::string::npos)
      add_axis(true, sizes.letter[c], static_cast<char>(c), 0);
  }
  return space;
}

std::int64_t dot(const std::vector<std::int64_t>& index, const std::vector<std::int64_t>& strides) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < index.size(); ++i) offset += index[i] * strides[i];
  return offset;
}

}  // namespace

void einsum(KernelContext& context) {
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < context.input_count(); ++i) shapes.push_back(context.input(i).shape());
  const ops::EinsumEquation equation = ops::parse_einsum(context.text("equation"), shapes.size());
  const Space space = make_space(equation, ops::einsum_sizes(equation, shapes), shapes);
  with_wide_type(context.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    // Integer arithmetic wraps: it is computed in uint64.
    using Sum = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;
    std::vector<std::vector<T>> operands;
    for (std::size_t i = 0; i < shapes.size(); ++i) operands.push_back(read<T>(context.input(i)));
    std::vector<T> result = transient_vector<T>(element_count(space.output), T{0});
    if (result.empty()) return;
    const bool sums_nothing = element_count(space.summed) == 0;
    std::vector<std::int64_t> output(space.output.size(), 0);
    for (T& element : result) {
      context.check_stop();
      Sum sum = 0;
      std::vector<std::int64_t> summed(space.summed.size(), 0);
      if (!sums_nothing) {
        constexpr std::uint64_t kBetweenChecks = 1 << 16;
        std::uint64_t terms = 0;
        do {
          if (++terms % kBetweenChecks == 0) context.check_stop();
          Sum product = 1;
          for (std::size_t t = 0; t < operands.size(); ++t)
            product *= static_cast<Sum>(operands[t][static_cast<std::size_t>(dot(output, space.output_strides[t]) +
                                                                             dot(summed, space.summed_strides[t]))]);
          sum += product;
        } while (advance(summed, space.summed));
      }
      element = static_cast<T>(sum);
      advance(output, space.output);
    }
    write(result, context.output(0));
  });
}

}  // namespace tessera::backends::reference
