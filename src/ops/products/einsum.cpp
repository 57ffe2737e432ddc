#include "ops/products/einsum.h"

#include <algorithm>

#include "base/error.h"
#include "ops/core/gradient.h"
#include "ops/core/product.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// One term with "..." written as '.'.
std::string parse_term(std::string_view text) {
  std::string term;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("...")) {
      require(term.find('.') == std::string::npos, ErrorKind::invalid_model, "two ellipses in the term '{}'", text);
      term += '.';
      i += 2;
    } else {
      require(is_letter(text[i]), ErrorKind::invalid_model, "unexpected '{}' in the equation", text[i]);
      term += text[i];
    }
  }
  return term;
}

std::string implicit_output(const std::vector<std::string>& inputs) {
  std::array<int, 128> count{};
  for (const std::string& term : inputs) {
    for (char c : term) ++count[static_cast<std::size_t>(c)];
  }
  std::string output = count['.'] > 0 ? "." : "";
  for (std::size_t c = 'A'; c <= 'z'; ++c) {
    if (count[c] == 1) output += static_cast<char>(c);
  }
  return output;
}

void infer_einsum(InferContext& context) {
  const EinsumEquation equation = parse_einsum(context.text("equation"), context.input_count());
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    const std::optional<Shape> shape = context.input(i).shape();
    if (shape) shapes.push_back(*shape);
  }
  if (shapes.size() == context.input_count()) {
    context.set_output(0, context.dtype(0), ir::to_dims(einsum_output_shape(equation, einsum_sizes(equation, shapes))));
    return;
  }
  // Infers symbolic dimensions: a letter takes the dimension of its first known use; an ellipsis leaves the rank open.
  if (equation.output.find('.') != std::string::npos) return context.set_output_unknown_rank(0, context.dtype(0));
  ir::Dims dims(equation.output.size());
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    const std::string& term = equation.inputs[i];
    const ir::Dims* own = context.dims(i);
    if (own == nullptr || own->size() != term.size() || term.find('.') != std::string::npos) continue;
    for (std::size_t k = 0; k < term.size(); ++k) {
      const std::size_t position = equation.output.find(term[k]);
      if (position != std::string::npos && dims[position].is_unknown()) dims[position] = (*own)[k];
    }
  }
  context.set_output(0, context.dtype(0), std::move(dims));
}

bool contains(const std::string& term, char index) {
  return term.find(index) != std::string::npos;
}

std::string with_dots(const std::string& term) {
  std::string text;
  for (const char c : term) text += c == '.' ? std::string("...") : std::string(1, c);
  return text;
}

// A letter that the text does not have.
char unused_letter(const std::string& text) {
  for (char c = 'A'; c <= 'z'; ++c) {
    if (is_letter(c) && !contains(text, c)) return c;
  }
  fail(ErrorKind::unsupported, "its equation uses every letter");
}

// Letters and dots of a term with the axes of the operand where they begin.
std::vector<std::pair<char, std::int64_t>> axes_of(const std::string& term, std::int64_t rank) {
  std::vector<std::pair<char, std::int64_t>> axes;
  std::int64_t axis = 0;
  for (const char c : term) {
    axes.emplace_back(c, axis);
    axis += c == '.' ? rank - static_cast<std::int64_t>(term.size()) + 1 : 1;
  }
  return axes;
}

// [size, size]: one on the diagonal.
Term identity_matrix(Term x, std::int64_t axis, GraphBuilder& builder) {
  const Term zero(builder, builder.scalar(0, DType::i64)), one(builder, builder.scalar(1, DType::i64));
  const Term positions = zero.combine("Range", {x.size_of(axis).combine("Reshape", {x.integers({})}), one});
  return positions.unsqueeze({1}).equals(positions).cast(x.dtype());
}

// The gradient with respect to one operand: the product of the output's gradient and the other operands, summed over
// all indices that the operand lacks. If an index occurs twice in the operand, its second occurrence gets another
// letter, and an identity matrix keeps the two equal. An index that occurs in no other term was summed, so the gradient
// is constant along it.
Term einsum_gradient_of(GradientContext& c, const EinsumEquation& equation, std::size_t operand) {
  const Term x = c.input(operand);
  const std::string& term = equation.inputs[operand];
  std::vector<Term> others;
  std::string left = with_dots(equation.output), used = equation.output;
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
    used += equation.inputs[i];
    if (i == operand) continue;
    others.push_back(c.input(i));
    left += "," + with_dots(equation.inputs[i]);
  }
  std::string distinct;
  for (const auto& [index, axis] : axes_of(term, x.rank())) {
    const char letter = contains(distinct, index) ? unused_letter(used) : index;
    if (letter != index) {
      others.push_back(identity_matrix(x, axis, c.builder()));
      left += std::string(",") + index + letter;
      used += letter;
    }
    distinct += letter;
  }
  std::string right;
  std::vector<std::int64_t> missing;
  bool sized = true;  // every index has its whole size in the output
  for (const auto& [index, axis] : axes_of(distinct, x.rank())) {
    sized = sized && contains(equation.output, index);
    if (contains(left, index)) {
      right += index;
      continue;
    }
    require(index != '.', ErrorKind::unsupported, "an ellipsis is summed over");
    missing.push_back(axis);
  }
  Term result = c.gradient().combine("Einsum", others, {{"equation", left + "->" + with_dots(right)}});
  if (!missing.empty()) result = result.unsqueeze(missing);
  if (!sized) result = result.expand(x.shape());
  return result.of_shape(x);
}

void einsum_gradient(GradientContext& c) {
  const EinsumEquation equation = parse_einsum(c.text("equation"), c.input_count());
  for (std::size_t i = 0; i < c.input_count(); ++i) {
    if (!c.wants(i)) continue;
    const bool dots = contains(equation.inputs[i], '.');
    require(!dots || c.builder().type(c.input(i).id()).shape().has_value(), ErrorKind::unsupported,
            "it has an ellipsis, and the sizes of its operands are not known");
    c.set(i, einsum_gradient_of(c, equation, i));
  }
}

// A multiply and an add for each combination of all indices.
double einsum_operations(const NodeView& view) {
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < view.input_count(); ++i) shapes.push_back(view.input(i).shape);
  const EinsumSizes sizes = einsum_sizes(parse_einsum(view.text("equation"), shapes.size()), shapes);
  double total = 2;
  for (std::int64_t size : sizes.letter) total *= size >= 0 ? static_cast<double>(size) : 1;
  for (std::int64_t size : sizes.ellipsis) total *= static_cast<double>(size);
  return total;
}

}  // namespace

EinsumEquation parse_einsum(std::string_view text, std::size_t terms) {
  std::string compact(text);
  std::erase(compact, ' ');
  const std::size_t arrow = compact.find("->");
  std::string_view left = std::string_view(compact).substr(0, arrow);
  EinsumEquation equation;
  while (true) {
    const std::size_t comma = left.find(',');
    equation.inputs.push_back(parse_term(left.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    left.remove_prefix(comma + 1);
  }
  require(equation.inputs.size() == terms, ErrorKind::invalid_model, "the equation '{}' has {} terms for {} inputs",
          text, equation.inputs.size(), terms);
  equation.output = arrow == std::string::npos ? implicit_output(equation.inputs)
                                               : parse_term(std::string_view(compact).substr(arrow + 2));
  for (char c : equation.output) {
    const bool known = std::any_of(equation.inputs.begin(), equation.inputs.end(),
                                   [&](const std::string& term) { return term.find(c) != std::string::npos; });
    require(known || c == '.', ErrorKind::invalid_model, "index '{}' of the output is in no input", c);
    require(std::count(equation.output.begin(), equation.output.end(), c) == 1, ErrorKind::invalid_model,
            "index '{}' stands twice in the output", c);
  }
  return equation;
}

EinsumSizes einsum_sizes(const EinsumEquation& equation, const std::vector<Shape>& shapes) {
  EinsumSizes sizes;
  sizes.letter.fill(-1);
  for (std::size_t t = 0; t < shapes.size(); ++t) {
    const std::string& term = equation.inputs[t];
    const std::size_t dots = term.find('.');
    const std::size_t letters = term.size() - (dots == std::string::npos ? 0 : 1);
    require(shapes[t].size() >= letters && (dots != std::string::npos || shapes[t].size() == letters),
            ErrorKind::invalid_model, "input {} of shape {} does not fit its term", t, text_of(shapes[t]));
    const std::size_t hidden = shapes[t].size() - letters;
    if (hidden > sizes.ellipsis.size())
      sizes.ellipsis.insert(sizes.ellipsis.begin(), hidden - sizes.ellipsis.size(), 1);
    std::size_t axis = 0;
    for (char c : term) {
      if (c == '.') {
        for (std::size_t k = 0; k < hidden; ++k, ++axis) {
          std::int64_t& size = sizes.ellipsis[sizes.ellipsis.size() - hidden + k];
          require(size == 1 || shapes[t][axis] == 1 || size == shapes[t][axis], ErrorKind::invalid_model,
                  "ellipsis dimensions {} and {} do not broadcast", size, shapes[t][axis]);
          if (shapes[t][axis] != 1) size = shapes[t][axis];
        }
        continue;
      }
      std::int64_t& size = sizes.letter[static_cast<std::size_t>(c)];
      const std::int64_t own = shapes[t][axis++];
      require(size < 0 || size == own || size == 1 || own == 1, ErrorKind::invalid_model, "index '{}' is {} and {}", c,
              size, own);
      size = size < 0 || size == 1 ? own : size;
    }
  }
  return sizes;
}

Shape einsum_output_shape(const EinsumEquation& equation, const EinsumSizes& sizes) {
  Shape shape;
  for (char c : equation.output) {
    if (c == '.') shape.insert(shape.end(), sizes.ellipsis.begin(), sizes.ellipsis.end());
    else shape.push_back(sizes.letter[static_cast<std::size_t>(c)]);
  }
  return shape;
}

const OpDef einsum{
    .name = "Einsum",
    .since = 12,
    .product = several_products,
    .inputs = {{"Inputs", types::numbers, "T", variadic}},
    .outputs = {{"Output", types::numbers, "T"}},
    .attributes = {{"equation", ir::AttributeKind::text, std::nullopt, true}},
    .infer = infer_einsum,
    .operations = einsum_operations,
    .gradient = einsum_gradient,
};

}  // namespace tessera::ops
