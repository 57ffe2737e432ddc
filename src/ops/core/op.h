// The definition of an operator: its signature, attributes, type and shape inference, cost, and (for composites) its
// decomposition. All parts of an operator have the same file stem: src/ops/rows/softmax.{h,cpp} here and kernels of
// that name in each backend; its family's op_table.cpp has one line for it. Every operator has exactly one form, that
// of the newest ONNX opset; older versions are rewritten into it at import.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "ir/graph.h"

namespace tessera::ops {

using ir::to_string;

// A set of element types.
class TypeSet {
 public:
  constexpr TypeSet() = default;
  constexpr TypeSet(std::initializer_list<DType> types) {
    for (DType type : types) bits_ |= bit(type);
  }
  constexpr bool contains(DType type) const { return (bits_ & bit(type)) != 0; }
  constexpr TypeSet operator|(TypeSet other) const {
    TypeSet result;
    result.bits_ = bits_ | other.bits_;
    return result;
  }
  constexpr TypeSet without(TypeSet other) const {
    TypeSet result;
    result.bits_ = bits_ & ~other.bits_;
    return result;
  }

 private:
  static constexpr std::uint32_t bit(DType type) { return std::uint32_t{1} << static_cast<unsigned>(type); }
  std::uint32_t bits_ = 0;
};
std::string to_string(TypeSet types);

namespace types {
inline constexpr TypeSet floats{DType::f16, DType::bf16, DType::f32, DType::f64};
inline constexpr TypeSet signed_integers{DType::i8, DType::i16, DType::i32, DType::i64};
inline constexpr TypeSet unsigned_integers{DType::u8, DType::u16, DType::u32, DType::u64};
inline constexpr TypeSet integers = signed_integers | unsigned_integers;
inline constexpr TypeSet numbers = floats | integers;
inline constexpr TypeSet signed_numbers = floats | signed_integers;
inline constexpr TypeSet boolean{DType::boolean};
inline constexpr TypeSet text{DType::string};
inline constexpr TypeSet complex{DType::c64, DType::c128};
inline constexpr TypeSet small_floats{DType::f8e4m3fn,   DType::f8e4m3fnuz, DType::f8e5m2,
                                      DType::f8e5m2fnuz, DType::f4e2m1,     DType::f8e8m0};
inline constexpr TypeSet small_integers{DType::i4, DType::u4, DType::i2, DType::u2};
inline constexpr TypeSet index{DType::i32, DType::i64};
inline constexpr TypeSet i64{DType::i64};
// Everything that has elements, for operators that move data without looking at it.
inline constexpr TypeSet all = numbers | boolean | text | complex | small_floats | small_integers;
}  // namespace types

// A formal input or output.
struct Parameter {
  std::string_view name;
  TypeSet types;                   // allowed element types of a tensor; ignored for other kinds
  std::string_view variable = "";  // parameters of the same type variable ("T") must have equal element types
  enum class Option : std::uint8_t {
    required,
    optional,
    variadic
  } option = Option::required;  // variadic: only the last; one or more, or none after other parameters
  // Whether values other than tensors are allowed. Set for Identity, If, Loop and the sequence and optional operators,
  // which check kinds themselves.
  bool any_kind = false;
};
inline constexpr auto optional = Parameter::Option::optional;
inline constexpr auto variadic = Parameter::Option::variadic;

struct AttributeSpec {
  std::string_view name;
  ir::AttributeKind kind;
  std::optional<ir::Attribute> default_value = std::nullopt;  // nothing: see `required`
  bool required = false;  // neither required nor with a default: absence has a meaning of its own
};

struct OpDef;
struct Product;

// Typed access to a node's attributes; a missing one has the operator's default. Asking for an attribute that the
// operator does not declare, or for another kind, is a bug in Tessera.
class AttributeReader {
 public:
  AttributeReader(const ir::Node& node, const OpDef& op) : node_(&node), op_(&op) {}
  const ir::Node& node() const { return *node_; }
  const OpDef& op() const { return *op_; }

  bool has_attribute(std::string_view name) const;  // given, or defaulted
  std::int64_t integer(std::string_view name) const;
  float real(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const Tensor& tensor(std::string_view name) const;
  const std::vector<std::int64_t>& integers(std::string_view name) const;
  const std::vector<float>& reals(std::string_view name) const;
  const std::vector<std::string>& texts(std::string_view name) const;
  const ir::Graph& graph(std::string_view name) const;
  const ir::ValueType& type(std::string_view name) const;
  // The list, or an empty one when the attribute is absent and has no default.
  std::vector<std::int64_t> integers_or_empty(std::string_view name) const;
  // Those attributes in the list that the node states, to pass them on to another operator that has them.
  ir::Attributes given_among(const std::vector<AttributeSpec>& specs) const;

 private:
  const ir::Attribute* find(std::string_view name) const;
  template <typename T>
  const T& get(std::string_view name) const;
  const ir::Node* node_;
  const OpDef* op_;
};

// The operands of a node as inference sees them, and the place for its results. The framework has already checked
// arity, element types and attributes against the OpDef, and adds the node's name to every error thrown.
class InferContext : public AttributeReader {
 public:
  // The value of an input where it is known before the run, or null.
  using ConstantLookup = std::function<const Tensor*(ir::ValueId)>;

  InferContext(const ir::Graph& graph, const ir::Node& node, const OpDef& op, const ConstantLookup& constants);

  std::size_t input_count() const { return node().formal_inputs(); }
  bool has_input(std::size_t i) const { return i < input_count() && node().inputs[i].valid(); }
  const ir::ValueType& input(std::size_t i) const;
  DType dtype(std::size_t i) const { return input(i).dtype; }
  // Dimensions of tensor input i; null while the rank is unknown.
  const ir::Dims* dims(std::size_t i) const;
  // The value of input i if it is a known constant, else null (also when absent).
  const Tensor* constant(std::size_t i) const;
  // The elements of a known i64/i32 input as i64; nothing when not known (or absent).
  std::optional<std::vector<std::int64_t>> constant_integers(std::size_t i) const;

  std::size_t output_count() const { return node().outputs.size(); }
  bool wants_output(std::size_t i) const { return i < output_count() && node().outputs[i].valid(); }
  void set_output(std::size_t i, ir::ValueType type);  // ignored when the output is not wanted
  void set_output(std::size_t i, DType dtype, ir::Dims dims) {
    set_output(i, ir::ValueType::tensor(dtype, std::move(dims)));
  }
  void set_output_unknown_rank(std::size_t i, DType dtype) { set_output(i, ir::ValueType::tensor(dtype)); }

  // Types of a subgraph's outputs when its formal inputs have these types (captures are added by the framework).
  std::vector<ir::ValueType> infer_subgraph(std::string_view attribute, std::vector<ir::ValueType> formal_inputs) const;

  // Throws Error(invalid_model): the model is wrong at this node.
  template <typename... Args>
  [[noreturn]] void invalid(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::invalid_model, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void check(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    require(condition, ErrorKind::invalid_model, format, std::forward<Args>(args)...);
  }

  const std::vector<std::optional<ir::ValueType>>& results() const { return results_; }

 private:
  const ir::Graph* graph_;
  const ConstantLookup* constants_;
  std::vector<std::optional<ir::ValueType>> results_;
};

// Element type and concrete shape of one operand; undefined for an absent operand or one that is not a tensor.
struct TensorType {
  DType dtype = DType::undefined;
  Shape shape;
  std::int64_t elements() const { return element_count(shape); }
  std::int64_t bytes() const { return byte_count(dtype, shape); }
};

// A node whose operand types are concrete, for costs, kernel choice and kernels.
class NodeView : public AttributeReader {
 public:
  NodeView(const ir::Node& node, const OpDef& op, std::span<const TensorType> inputs,
           std::span<const TensorType> outputs, std::span<const Tensor* const> constants)
      : AttributeReader(node, op), inputs_(inputs), outputs_(outputs), constants_(constants) {}

  std::size_t input_count() const { return inputs_.size(); }
  bool has_input(std::size_t i) const { return i < node().formal_inputs() && node().inputs[i].valid(); }
  const TensorType& input(std::size_t i) const { return inputs_[i]; }
  // The input's value if known at planning, else null.
  const Tensor* constant(std::size_t i) const { return i < constants_.size() ? constants_[i] : nullptr; }
  std::size_t output_count() const { return outputs_.size(); }
  bool wants_output(std::size_t i) const { return i < node().outputs.size() && node().outputs[i].valid(); }
  const TensorType& output(std::size_t i) const { return outputs_[i]; }

 private:
  std::span<const TensorType> inputs_, outputs_;
  std::span<const Tensor* const> constants_;
};

// Work of one node, as far as its shapes are known: arithmetic operations (a multiply-add counts 2) and bytes at the
// memory with ideal caching inside the operator (each input read once, each output written once).
struct Cost {
  double operations = 0;
  double bytes_read = 0;
  double bytes_written = 0;
};

class GraphBuilder;
class GradientContext;
using GradientFunction = void (*)(GradientContext&);

// The elements of operands from which an element of output 0 is computed. The computation is the same at all positions,
// so a permutation or crop of the operands that are not single numbers gives the same permutation or crop of the
// result.
enum class ElementWise : std::uint8_t {
  no,
  unary,         // the element of input 0 at the same position; the other inputs are single numbers
  along_axis,    // the element of input 0 at the same position; the others are single numbers or vectors along an axis
  to_first,      // the elements of all inputs at the same position; the others broadcast to input 0
  broadcasting,  // the elements of all inputs at the same position; all of them broadcast as in numpy
};

// Facts about an operator, for whatever attributes and operands its nodes have. Passes and devices ask for them instead
// of listing names, so that a new operator takes part in what they do.
enum class Trait : std::uint8_t {
  commutative,        // its two operands can be exchanged without changing a bit of the result
  moves,              // results hold unchanged elements of operands (or zeros), placed without a look at their values;
                      // a scatter only as long as it has no reduction
  rearranges,         // moves, and all elements of output 0 come from input 0
  reduction,          // reduces the axes in input 1, with the attributes keepdims and noop_with_empty_axes
  nests,              // a reduction over some axes and then over others equals one over all of them at once
  discontinuous,      // jumps at some values of its operand: roundings, comparisons, searches
  idempotent,         // f(f(x)) = f(x)
  own_inverse,        // f(f(x)) = x
  non_negative,       // no element of output 0 is less than zero
  homogeneous,        // f(s x) = s f(x) for each s > 0
  keeps_one_operand,  // variadic; with a single operand the result is that operand
  reads_shapes,       // results depend on the shape of the operand, not on its elements
  normalises,         // writes each element of a normalised row once, as the last thing it does
  keeps_storage,      // reads or writes stored state: its element type is how the state is stored and rounded
};

class Traits {
 public:
  constexpr Traits() = default;
  constexpr Traits(std::initializer_list<Trait> traits) {
    for (const Trait trait : traits) bits_ |= bit(trait);
  }
  constexpr bool contains(Trait trait) const { return (bits_ & bit(trait)) != 0; }

 private:
  static constexpr std::uint32_t bit(Trait trait) { return std::uint32_t{1} << static_cast<unsigned>(trait); }
  std::uint32_t bits_ = 0;
};

struct OpDef {
  std::string_view name;  // as ir::Node::op
  int since = 1;          // opset of the canonical form (the last version change that Tessera follows)
  // The sizes of the matrix product that a node is, for operators that matrix units compute. Nothing where a node is
  // not a product, or several of different sizes. Null: no products. See ops/core/product.h.
  std::optional<Product> (*product)(const ir::Graph&, const NodeView&) = nullptr;
  std::vector<Parameter> inputs;
  std::vector<Parameter> outputs;
  std::vector<AttributeSpec> attributes;
  void (*infer)(InferContext&) = nullptr;
  // The arithmetic operations of a node; bytes follow from the operands. Called only when all operands are concrete;
  // output 0 may be absent where it is optional. Null: none (data movement).
  double (*operations)(const NodeView&) = nullptr;
  // Bytes read, where it is less than all of the inputs (Gather reads rows, not the table). Null: all inputs.
  double (*bytes_read)(const NodeView&) = nullptr;
  // For composites: builds the equivalent from simpler operators. The types of the node's inputs are known. Returns the
  // new outputs, one per formal output of the node, or nothing if it cannot decompose this node (unknown rank, say).
  std::optional<std::vector<ir::ValueId>> (*decompose)(GraphBuilder&, const AttributeReader&,
                                                       std::span<const ir::ValueId> inputs) = nullptr;
  // For differentiable primitives: builds the gradients of the inputs from those of the outputs (gradient.h).
  // Composites have none: they are differentiated through their decomposition.
  GradientFunction gradient = nullptr;
  bool deterministic = true;  // false: draws random numbers; never folded, never merged
  bool view = false;          // output 0 shows the bytes of input 0 under another shape
  ElementWise element_wise = ElementWise::no;
  Traits traits = {};

  bool has(Trait trait) const { return traits.contains(trait); }
};

// Indices of the formal outputs that kernels write although the node does not list them: those that are neither
// optional nor variadic. Kernels need a buffer for them.
std::vector<std::size_t> missing_outputs(const ir::Node& node, const OpDef& op);

Cost cost_of(const NodeView& view);

// --- common inference functions ---
// Gives each output the type of input 0.
void infer_same_as_input(InferContext& context);
// Broadcasts all inputs as numpy does; the output has the element type of input 0.
void infer_broadcast(InferContext& context);
// The dimensions of a and b broadcast together (multidirectional, ONNX "Broadcasting in ONNX").
ir::Dims broadcast_dims(const InferContext& context, const ir::Dims& a, const ir::Dims& b);
// Maps an axis in [-rank, rank) to [0, rank); throws Error(invalid_model) outside (the caller's context names the
// node).
std::int64_t normalise_axis(std::int64_t axis, std::int64_t rank);
// A fixed number of operations per element of output 0.
template <int per_element>
double operations_per_output(const NodeView& view) {
  return static_cast<double>(per_element) * static_cast<double>(view.output(0).elements());
}
// A fixed number of operations per element of input 0.
template <int per_element>
double operations_per_input(const NodeView& view) {
  return static_cast<double>(per_element) * static_cast<double>(view.input(0).elements());
}

}  // namespace tessera::ops
