#include "ops/convolutions/dictionary_conv.h"

#include <algorithm>
#include <numeric>

#include "ops/convolutions/conv.h"
#include "ops/convolutions/window_geometry.h"
#include "ops/core/product.h"
#include "ops/core/text_of.h"
#include "ops/element_wise/fused_activation.h"

namespace tessera::ops {
namespace {

using At = DictionaryConvInputs;
using ir::Dims;
using ir::ValueId;

// The dictionary_conv_attributes of a convolution except "group": a dictionary covers all channels.
std::vector<AttributeSpec> window_attributes_dictionary_conv() {
  std::vector<AttributeSpec> specs = convolution_attributes();
  std::erase_if(specs, [](const AttributeSpec& spec) { return spec.name == "group"; });
  return specs;
}

std::vector<AttributeSpec> dictionary_conv_attributes() {
  std::vector<AttributeSpec> specs = window_attributes_dictionary_conv();
  for (AttributeSpec& spec : activation_attributes()) specs.push_back(std::move(spec));
  return specs;
}

void check_equal_dims(const InferContext& context, const Dims& indices, const Dims& coefficients) {
  const bool fit =
      indices.size() == coefficients.size() &&
      std::ranges::equal(indices, coefficients, [](const ir::Dim& a, const ir::Dim& b) { return a.may_equal(b); });
  context.check(fit, "'I' has shape {}, expected that of 'W' {}", text_of(indices), text_of(coefficients));
}

void check_indices(const InferContext& context, const Dims& dictionary) {
  if (!dictionary[0].is_known()) return;
  const auto indices = context.constant_integers(At::indices);
  if (!indices) return;
  for (const std::int64_t index : *indices) {
    context.check(index >= 0 && index < dictionary[0].value(), "'I' names vector {} of a dictionary of {}", index,
                  dictionary[0].value());
  }
}

void infer_dictionary_conv(InferContext& context) {
  check_activation(context);
  const Dims *x = context.dims(At::data), *d = context.dims(At::dictionary), *w = context.dims(At::coefficients);
  if (w != nullptr) context.check(w->size() >= 3, "'W' has shape {}, expected [M, terms, kernel...]", text_of(*w));
  if (d != nullptr) {
    context.check(d->size() == 2, "'D' has shape {}, expected [vectors, channels]", text_of(*d));
    check_indices(context, *d);
  }
  if (x != nullptr) {
    context.check(x->size() >= 3, "'X' has shape {}, expected [N, C, spatial...]", text_of(*x));
    context.check(d == nullptr || (*x)[1].may_equal((*d)[1]), "'X' has {} channels, the vectors of 'D' have {}",
                  text_of((*x)[1]), d == nullptr ? "" : to_string((*d)[1]));
  }
  const Dims* indices = context.dims(At::indices);
  if (indices != nullptr && w != nullptr) check_equal_dims(context, *indices, *w);
  if (x == nullptr || w == nullptr) return context.set_output_unknown_rank(0, context.dtype(0));
  context.check(x->size() == w->size(), "'X' {} and 'W' {} have different ranks", text_of(*x), text_of(*w));
  std::vector<std::int64_t> kernel;
  for (std::size_t i = 2; i < w->size(); ++i) kernel.push_back((*w)[i].value());
  const WindowAttributes window = read_window_attributes(context, kernel);
  const Dims* bias = context.has_input(At::bias) ? context.dims(At::bias) : nullptr;
  context.check(bias == nullptr || (bias->size() == 1 && (*bias)[0].may_equal((*w)[0])),
                "the bias has shape {}, expected [{}]", text_of(bias), text_of((*w)[0]));
  Dims y{(*x)[0], (*w)[0]};
  for (std::size_t i = 0; i < window.rank(); ++i) y.push_back(window_output_dim(window, i, (*x)[i + 2]));
  check_addend(context, At::addend, y);
  context.set_output(0, context.dtype(0), std::move(y));
}

// The responses of the dictionary at every position of the data, and the lookups at every position of the result.
double dictionary_conv_operations(const NodeView& view) {
  const Shape &x = view.input(At::data).shape, &w = view.input(At::coefficients).shape, &y = view.output(0).shape;
  if (x[1] == 0 || y[1] == 0) return 0;
  const double responses = static_cast<double>(view.input(At::dictionary).elements()) *
                           static_cast<double>(view.input(At::data).elements()) / static_cast<double>(x[1]);
  const Tensor* coefficients = view.constant(At::coefficients);
  const bool known = coefficients != nullptr && coefficients->dtype() == DType::f32 && coefficients->has_data() &&
                     !coefficients->is_deferred();
  const std::int64_t lookups = known ? count_lookups(coefficients->values<float>()) : element_count(w);
  return 2 * (responses + static_cast<double>(lookups) * static_cast<double>(view.output(0).elements()) /
                              static_cast<double>(y[1]));
}

// conv(conv(X, D), P, B) + Z, where P [M, vectors, kernel...] has the coefficients at their indices.
std::optional<std::vector<ValueId>> decompose_dictionary_conv(GraphBuilder& builder, const AttributeReader& reader,
                                                              std::span<const ValueId> inputs) {
  const Dims *dictionary = builder.dims(inputs[At::dictionary]), *coefficients = builder.dims(inputs[At::coefficients]);
  if (dictionary == nullptr || coefficients == nullptr) return std::nullopt;
  Dims dense = *coefficients;
  dense[1] = (*dictionary)[0];
  const std::optional<Shape> shape = ir::to_shape(dense);
  if (!shape) return std::nullopt;
  std::vector<std::int64_t> axes(dense.size() - 2);
  std::iota(axes.begin(), axes.end(), 2);
  const ValueId vectors = builder.add("Unsqueeze", {inputs[At::dictionary], builder.integers(std::move(axes))});
  const ValueId responses = builder.add("Conv", {inputs[At::data], vectors});
  const ValueId zeros = builder.add("Expand", {builder.scalar(0, builder.dtype(inputs[At::coefficients])),
                                               builder.integers({shape->begin(), shape->end()})});
  const ValueId combination = builder.add("ScatterElements", {zeros, inputs[At::indices], inputs[At::coefficients]},
                                          {{"axis", std::int64_t{1}}, {"reduction", std::string("add")}});
  std::vector<ValueId> operands{responses, combination};
  const auto given = [&](std::size_t i) { return inputs.size() > i && inputs[i].valid(); };
  if (given(At::bias)) operands.push_back(inputs[At::bias]);
  ValueId y = builder.add("Conv", std::move(operands), reader.given_among(window_attributes_dictionary_conv()));
  if (given(At::addend)) y = builder.add("Add", {y, inputs[At::addend]});
  return std::vector{add_activation(builder, reader, y)};
}

}  // namespace

std::int64_t count_lookups(std::span<const float> coefficients) {
  return std::ranges::count_if(coefficients, [](float value) { return value != 0; });
}

// Y = activation(sum over s, taps t of W[m, s, t] * (D X)[I[m, s, t], position of t] + B[m] + Z)
const OpDef dictionary_conv{
    .name = "tessera::DictionaryConv",
    .product = several_products,
    .inputs = {{"X", types::floats, "T"},
               {"D", types::floats, "T"},
               {"I", types::index},
               {"W", types::floats, "T"},
               {"B", types::floats, "T", optional},
               {"Z", types::floats, "T", optional}},
    .outputs = {{"Y", types::floats, "T"}},
    .attributes = dictionary_conv_attributes(),
    .infer = infer_dictionary_conv,
    .operations = dictionary_conv_operations,
    .decompose = decompose_dictionary_conv,
};

}  // namespace tessera::ops
