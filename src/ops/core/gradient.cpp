#include "ops/core/gradient.h"

#include "base/assert.h"
#include "base/error.h"

namespace tessera::ops {

ir::Dims Term::dims() const {
  const ir::Dims* dims = builder_->dims(id_);
  require(dims != nullptr, ErrorKind::unsupported, "the rank of '{}' is not known", builder_->graph().value(id_).name);
  return *dims;
}

Term Term::combine(std::string op, std::vector<Term> others, ir::Attributes attributes) const {
  std::vector<ir::ValueId> inputs{id_};
  for (const Term& other : others) inputs.push_back(other.id_);
  return {*builder_, builder_->add(std::move(op), std::move(inputs), std::move(attributes))};
}

Term Term::number(double value) const {
  return {*builder_, builder_->scalar(value, dtype())};
}
Term Term::integers(std::vector<std::int64_t> values) const {
  return {*builder_, builder_->integers(std::move(values))};
}

Term Term::shape() const {
  if (const std::optional<Shape> known = builder_->type(id_).shape()) return integers(*known);
  return apply("Shape");
}

Term Term::size_of(std::int64_t axis) const {
  const ir::Dim dim = dims()[static_cast<std::size_t>(axis)];
  if (dim.is_known()) return integers({dim.value()});
  return apply("Shape", {{"start", axis}, {"end", axis + 1}});
}

Term Term::count() const {
  if (const std::optional<Shape> known = builder_->type(id_).shape())
    return number(static_cast<double>(element_count(*known)));
  return apply("Size").apply("Cast", {{"to", static_cast<std::int64_t>(dtype())}});
}

Term Term::transpose(std::vector<std::int64_t> permutation) const {
  return apply("Transpose", {{"perm", std::move(permutation)}});
}

Term Term::sum(std::vector<std::int64_t> axes, bool keepdims) const {
  if (axes.empty()) return *this;
  return combine("ReduceSum", {integers(std::move(axes))}, {{"keepdims", std::int64_t{keepdims ? 1 : 0}}});
}

Term Term::mean(std::vector<std::int64_t> axes) const {
  return combine("ReduceMean", {integers(std::move(axes))}, {{"noop_with_empty_axes", std::int64_t{1}}});
}

Term Term::of_shape(Term other) const {
  const std::optional<ir::Dims> wanted = builder_->type(other.id_).dims;
  std::optional<ir::Dims>& own = builder_->graph().value(id_).type.dims;
  if (!own) own = wanted;
  for (std::size_t i = 0; wanted && i < own->size(); ++i) {
    ir::Dim& dim = (*own)[i];
    if (dim.is_unknown() || (dim.is_symbol() && (*wanted)[i].is_known())) dim = (*wanted)[i];
  }
  return *this;
}

Term Term::cast(DType type) const {
  return dtype() == type ? *this : apply("Cast", {{"to", static_cast<std::int64_t>(type)}});
}

Term Term::sum_to(Term target) const {
  const ir::Dims from = dims(), to = target.dims();
  const std::size_t added = from.size() - to.size();
  std::vector<std::int64_t> axes;  // surely broadcast
  bool certain = true;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const bool one = i < added || (to[i - added].is_known() && to[i - added].value() == 1);
    if (one && !(i >= added && from[i].is_known() && from[i].value() == 1))
      axes.push_back(static_cast<std::int64_t>(i));
    certain = certain &&
              (one || from[i].surely_equals(to[i - added]) || (to[i - added].is_known() && to[i - added].value() > 1));
  }
  if (certain) {
    const Term summed = sum(axes, true);
    return added == 0 ? summed.of_shape(target) : summed.reshape_like(target);
  }
  // The axes that were broadcast are those where the target has size 1, which is known with the shapes. Folded in each
  // plan.
  const Term padded =
      added == 0 ? target.shape() : join({integers(std::vector<std::int64_t>(added, 1)), target.shape()});
  const Term broadcast = padded.equals(integers(std::vector<std::int64_t>(from.size(), 1)))
                             .apply("NonZero")
                             .combine("Reshape", {integers({-1})});
  return combine("ReduceSum", {broadcast}, {{"noop_with_empty_axes", std::int64_t{1}}}).reshape_like(target);
}

GradientContext::GradientContext(GraphBuilder& builder, const ir::Node& node, const OpDef& op,
                                 std::vector<ir::ValueId> output_gradients, std::vector<bool> wanted)
    : AttributeReader(node, op),
      builder_(&builder),
      gradients_(std::move(output_gradients)),
      wanted_(std::move(wanted)),
      results_(node.formal_inputs()) {}

std::vector<std::int64_t> GradientContext::constant_integers(std::size_t i) {
  const Tensor* tensor = builder_->graph().constant(node().inputs[i]);
  require(tensor != nullptr, ErrorKind::unsupported, "input '{}' is not constant", op().inputs[i].name);
  if (tensor->dtype() == DType::i64)
    return {tensor->data<std::int64_t>(), tensor->data<std::int64_t>() + tensor->elements()};
  return {tensor->data<std::int32_t>(), tensor->data<std::int32_t>() + tensor->elements()};
}

void GradientContext::set(std::size_t i, Term gradient) {
  if (!wants(i)) return;
  TESSERA_ASSERT(gradient.dtype() == input(i).dtype() || !is_float(input(i).dtype()),
                 "a gradient has another element type than its input");
  results_[i] = gradient.sum_to(input(i)).id();
}

void zero_gradient(GradientContext&) {}
void reshaped_gradient(GradientContext& context) {
  context.set(0, context.gradient().reshape_like(context.input(0)));
}

Term join(const std::vector<Term>& parts) {
  std::vector<std::int64_t> values;
  for (const Term& part : parts) {
    const Tensor* constant = part.builder_->graph().constant(part.id_);
    if (constant == nullptr)
      return parts[0].combine("Concat", {parts.begin() + 1, parts.end()}, {{"axis", std::int64_t{0}}});
    values.insert(values.end(), constant->data<std::int64_t>(), constant->data<std::int64_t>() + constant->elements());
  }
  return parts[0].integers(std::move(values));
}

std::vector<std::int64_t> axes_but(std::int64_t axis, std::int64_t rank) {
  std::vector<std::int64_t> axes;
  for (std::int64_t i = 0; i < rank; ++i) {
    if (i != axis) axes.push_back(i);
  }
  return axes;
}

Term scatter_rows(Term rows, Term indices, std::int64_t axis, Term size) {
  return rows.combine("tessera::ScatterRows", {indices, size}, {{"axis", axis}});
}

namespace {

void infer_gradient(InferContext& context) {
  const std::size_t wanted = context.texts("xs").size(),
                    given = wanted + (context.has_attribute("zs") ? context.texts("zs").size() : 0);
  context.check(context.input_count() == given, "{} inputs for {} names in xs and zs", context.input_count(), given);
  context.check(context.output_count() <= wanted, "{} outputs for {} names in xs", context.output_count(), wanted);
  for (std::size_t i = 0; i < context.output_count(); ++i) {
    context.check(types::floats.contains(context.dtype(i)),
                  "input {} is {}, expected a float type to differentiate with respect to", i,
                  name_of(context.dtype(i)));
    context.set_output(i, context.input(i));
  }
}

}  // namespace

// The gradients of the sum of y's elements with respect to the tensors xs, where xs and zs have the values of the
// inputs. y, xs and zs are names of tensors of the surrounding graph; xs and zs are treated as independent of one
// another. No device runs it: the pass `differentiate` replaces it by the nodes that compute it.
const OpDef gradient{
    .name = "ai.onnx.preview.training::Gradient",
    .since = 1,
    .inputs = {{"Inputs", types::all, "", variadic}},
    .outputs = {{"Outputs", types::floats, "", variadic}},
    .attributes = {{"xs", ir::AttributeKind::texts, std::nullopt, true},
                   {"y", ir::AttributeKind::text, std::nullopt, true},
                   {"zs", ir::AttributeKind::texts}},
    .infer = infer_gradient,
};

}  // namespace tessera::ops
