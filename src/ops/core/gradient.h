// The operator Gradient, and how primitives state their gradients (OpDef::gradient) in terms of other operators:
//
//   .gradient = [](GradientContext& c) { c.set(0, c.gradient() * c.input(0).apply("Cos")); },  // of Sin
#pragma once

#include <string>
#include <vector>

#include "ops/core/builder.h"

namespace tessera::ops {

extern const OpDef gradient;

// A value of a graph under construction; arithmetic on terms adds nodes to the graph. A number takes the element type
// of the term beside it.
class Term {
 public:
  Term(GraphBuilder& builder, ir::ValueId id) : builder_(&builder), id_(id) {}
  ir::ValueId id() const { return id_; }
  DType dtype() const { return builder_->dtype(id_); }
  // Throws Error(unsupported) while the rank is not known.
  ir::Dims dims() const;
  std::int64_t rank() const { return static_cast<std::int64_t>(dims().size()); }

  // The first output of an operator on this term, or (`combine`) on this term and others.
  Term apply(std::string op, ir::Attributes attributes = {}) const {
    return combine(std::move(op), {}, std::move(attributes));
  }
  Term combine(std::string op, std::vector<Term> others, ir::Attributes attributes = {}) const;
  Term number(double value) const;                        // a scalar of this term's element type
  Term integers(std::vector<std::int64_t> values) const;  // a 1-D constant
  Term shape() const;                                     // 1-D i64; a constant when it is known
  Term size_of(std::int64_t axis) const;                  // [1] i64; a constant when it is known
  Term count() const;  // the number of elements, as a scalar of this term's element type
  Term transpose(std::vector<std::int64_t> permutation) const;
  Term reshape(Term shape) const { return combine("Reshape", {shape}, {{"allowzero", std::int64_t{1}}}); }
  Term reshape_like(Term other) const { return reshape(other.shape()).of_shape(other); }
  Term sum(std::vector<std::int64_t> axes, bool keepdims = true) const;
  Term mean(std::vector<std::int64_t> axes) const;  // keeps the axes
  Term expand(Term shape) const { return combine("Expand", {shape}); }
  Term expand_like(Term other) const { return expand(other.shape()).of_shape(other); }
  Term unsqueeze(std::vector<std::int64_t> axes) const { return combine("Unsqueeze", {integers(std::move(axes))}); }
  // Zeros of this term's shape and type.
  Term zeros() const { return number(0).expand_like(*this); }
  // This term, recorded as having the shape of the other, whether or not inference could find that.
  Term of_shape(Term other) const;
  // This term summed over the axes along which `target` would be broadcast, so that it has the shape of `target`.
  Term sum_to(Term target) const;

  friend Term operator+(Term a, Term b) { return a.combine("Add", {b}); }
  friend Term operator-(Term a, Term b) { return a.combine("Sub", {b}); }
  friend Term operator*(Term a, Term b) { return a.combine("Mul", {b}); }
  friend Term operator/(Term a, Term b) { return a.combine("Div", {b}); }
  friend Term operator+(Term a, double b) { return a + a.number(b); }
  friend Term operator-(Term a, double b) { return a - a.number(b); }
  friend Term operator*(Term a, double b) { return a * a.number(b); }
  friend Term operator/(Term a, double b) { return a / a.number(b); }
  friend Term operator+(double a, Term b) { return b.number(a) + b; }
  friend Term operator-(double a, Term b) { return b.number(a) - b; }
  friend Term operator*(double a, Term b) { return b.number(a) * b; }
  friend Term operator/(double a, Term b) { return b.number(a) / b; }
  friend Term operator-(Term a) { return a.apply("Neg"); }
  // Comparisons give bool terms.
  friend Term operator<(Term a, Term b) { return a.combine("Less", {b}); }
  friend Term operator>(Term a, Term b) { return a.combine("Greater", {b}); }
  friend Term operator<(Term a, double b) { return a < a.number(b); }
  friend Term operator>(Term a, double b) { return a > a.number(b); }
  friend Term operator&(Term a, Term b) { return a.combine("And", {b}); }
  Term equals(Term other) const { return combine("Equal", {other}); }
  // `yes` where this bool term is true, elsewhere `no`.
  Term choose(Term yes, Term no) const { return combine("Where", {yes, no}); }
  Term choose(Term yes, double no) const { return choose(yes, yes.number(no)); }
  Term cast(DType type) const;

 private:
  friend Term join(const std::vector<Term>& parts);
  GraphBuilder* builder_;
  ir::ValueId id_;
};

// The argument of a gradient function: the node, its operands, and the gradients of the loss with respect to its
// outputs. The function sets the gradients with respect to the inputs, or throws Error(unsupported) with a reason.
class GradientContext : public AttributeReader {
 public:
  // `output_gradients` has one entry per output of the node, invalid where the gradient is zero; `wanted` has one entry
  // per input: whether its gradient is needed.
  GradientContext(GraphBuilder& builder, const ir::Node& node, const OpDef& op,
                  std::vector<ir::ValueId> output_gradients, std::vector<bool> wanted);

  GraphBuilder& builder() { return *builder_; }
  std::size_t input_count() const { return node().formal_inputs(); }
  bool has_input(std::size_t i) const { return i < input_count() && node().inputs[i].valid(); }
  bool wants(std::size_t i) const { return has_input(i) && wanted_[i]; }
  Term input(std::size_t i) { return {*builder_, node().inputs[i]}; }
  std::size_t output_count() const { return node().outputs.size(); }
  bool has_output(std::size_t i) const { return i < output_count() && node().outputs[i].valid(); }
  Term output(std::size_t i = 0) { return {*builder_, node().outputs[i]}; }
  bool has_gradient(std::size_t i) const { return i < gradients_.size() && gradients_[i].valid(); }
  // The gradient of output i in that output's type, or in float where the output is an integer that stands for a real
  // number (the output of QuantizeLinear, and movements of it). Zeros where nothing depends on the output.
  Term gradient(std::size_t i = 0) { return has_gradient(i) ? Term(*builder_, gradients_[i]) : output(i).zeros(); }
  // The elements of an input that must be constant, such as axes. Throws Error(unsupported) when it is not.
  std::vector<std::int64_t> constant_integers(std::size_t i);

  // Sets the gradient of input i and sums it over broadcast axes; float for integers that stand for real numbers.
  // Inputs that are not set have a zero gradient. Ignored where the gradient is not needed.
  void set(std::size_t i, Term gradient);
  const std::vector<ir::ValueId>& results() const { return results_; }  // one per formal input; invalid: zero

 private:
  GraphBuilder* builder_;
  std::vector<ir::ValueId> gradients_;
  std::vector<bool> wanted_;
  std::vector<ir::ValueId> results_;
};

// Gradient functions that several operators share.
void zero_gradient(GradientContext& context);      // piecewise constant operators: the gradient is zero
void reshaped_gradient(GradientContext& context);  // the elements of input 0 under another shape

// The concatenation of 1-D i64 terms; a constant when all of them are.
Term join(const std::vector<Term>& parts);
// The transpose of Gather: a tensor of zeros with the given rows added at `indices`. `rows` has the shape of Gather's
// result, with the axes of `indices` (i64 or i32; repeated indices add up) in place of `axis`, which has `size`
// positions ([1], i64) in the result.
Term scatter_rows(Term rows, Term indices, std::int64_t axis, Term size);
// The axes 0 … rank - 1 without `axis`.
std::vector<std::int64_t> axes_but(std::int64_t axis, std::int64_t rank);

}  // namespace tessera::ops
