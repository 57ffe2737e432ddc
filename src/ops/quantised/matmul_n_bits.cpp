#include "ops/quantised/matmul_n_bits.h"

#include <bit>

#include "base/error.h"
#include "base/numbers/checked.h"
#include "ops/core/product.h"
#include "ops/core/signatures.h"
#include "ops/quantised/packed_bits.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;
using ir::ValueId;
using Values = std::vector<ValueId>;

// MatmulNBitsSizes from the attributes, checked.
struct MatmulNBitsSizes {
  std::int64_t n, k, bits, block, blocks;  // blocks: of one row of the weights
  explicit MatmulNBitsSizes(const AttributeReader& reader)
      : n(reader.integer("N")),
        k(reader.integer("K")),
        bits(reader.integer("bits")),
        block(reader.integer("block_size")) {
    require(n >= 1 && k >= 1, ErrorKind::invalid_model, "N is {} and K is {}, expected at least 1", n, k);
    check_bits(bits);
    check_block_size(block);
    blocks = base::ceil_divide(k, block);
  }
  std::int64_t block_bytes() const { return block / 8 * bits; }
  std::int64_t zero_bytes() const { return base::ceil_divide(base::checked_multiply(blocks, bits), 8); }
};

// Checks that the input has this shape, or its elements in one dimension.
void check_shape(const InferContext& context, std::size_t i, const Shape& shape) {
  if (!context.has_input(i) || context.dims(i) == nullptr) return;
  const ir::Dims& dims = *context.dims(i);
  bool fits = dims.size() == shape.size();
  for (std::size_t axis = 0; fits && axis < shape.size(); ++axis) fits = dims[axis].may_equal(shape[axis]);
  const bool flat = dims.size() == 1 && dims[0].may_equal(element_count(shape));
  context.check(fits || flat, "input '{}' has shape {}, expected {}", context.op().inputs[i].name, to_string(dims),
                to_string(shape));
}

void infer_matmul_n_bits(InferContext& context) {
  const MatmulNBitsSizes sizes(context);
  context.check(context.integer("weight_prepacked") == 0,
                "weight_prepacked is {}: the weights are laid out for one device, expected 0",
                context.integer("weight_prepacked"));
  const std::int64_t accuracy = context.integer("accuracy_level");
  context.check(accuracy >= 0 && accuracy <= 4, "accuracy_level is {}, expected 0 to 4", accuracy);
  check_shape(context, 1, {sizes.n, sizes.blocks, sizes.block_bytes()});
  check_shape(context, 2, {sizes.n, sizes.blocks});
  if (context.has_input(3)) {
    const bool packed = context.dtype(3) == DType::u8;
    context.check(packed || context.dtype(3) == context.dtype(0), "input 'zero_points' is {}, expected u8 or {}",
                  name_of(context.dtype(3)), name_of(context.dtype(0)));
    check_shape(context, 3, {sizes.n, packed ? sizes.zero_bytes() : sizes.blocks});
  }
  if (context.has_input(4) && context.dims(4) != nullptr) {
    const ir::Dims& groups = *context.dims(4);
    const bool fits =
        groups.size() == 1 && (groups[0].may_equal(sizes.k) || groups[0].may_equal(sizes.blocks * sizes.block));
    context.check(fits, "input 'g_idx' has shape {}, expected [{}]", to_string(groups), sizes.k);
  }
  check_shape(context, 5, {sizes.n});
  const ir::Dims* a = context.dims(0);
  if (a == nullptr) return context.set_output_unknown_rank(0, context.dtype(0));
  context.check(!a->empty() && a->back().may_equal(sizes.k),
                "input 'A' has shape {}, expected K = {} as its last dimension", to_string(*a), sizes.k);
  ir::Dims y = *a;
  y.back() = sizes.n;
  context.set_output(0, context.dtype(0), std::move(y));
}

double matmul_n_bits_operations(const NodeView& view) {
  return 2.0 * static_cast<double>(view.output(0).elements()) * static_cast<double>(view.integer("K"));
}

// --- decomposition ---

// The weights [N, K] as real numbers, computed in steps that keep constants small as long as possible: the quantised
// numbers stay bytes.
class Weights {
 public:
  Weights(GraphBuilder& builder, const AttributeReader& reader, std::span<const ValueId> inputs)
      : builder_(builder), sizes_(reader), inputs_(inputs) {}

  std::optional<ValueId> make() {
    const ValueId bytes = reshape(inputs_[1], {sizes_.n, base::checked_multiply(sizes_.blocks, sizes_.block_bytes())});
    const std::optional<ValueId> numbers = unpack_bits(builder_, bytes, sizes_.bits);
    if (!numbers) return std::nullopt;
    scales_ = reshape(inputs_[2], {sizes_.n, sizes_.blocks});
    if (has(4)) return by_group(first(*numbers, sizes_.k));
    return first(by_block(*numbers), sizes_.k);
  }

 private:
  bool has(std::size_t i) const { return i < inputs_.size() && inputs_[i].valid(); }
  ValueId reshape(ValueId value, const Shape& shape) {
    const std::optional<Shape> given = builder_.type(value).shape();
    if (given == shape) return value;
    const Tensor* constant = builder_.graph().constant(value);
    return constant != nullptr ? builder_.constant(constant->reshaped(shape))
                               : builder_.add("Reshape", {value, builder_.integers(shape)});
  }
  // The first columns of a matrix.
  ValueId first(ValueId matrix, std::int64_t columns) {
    if ((*builder_.dims(matrix))[1] == ir::Dim(columns)) return matrix;
    return builder_.add("Slice",
                        {matrix, builder_.integers({0}), builder_.integers({columns}), builder_.integers({1})});
  }
  bool has_real_zeros() const { return has(3) && builder_.dtype(inputs_[3]) != DType::u8; }

  // [N, blocks] in the type of the numbers.
  ValueId zeros(DType type) {
    if (!has(3)) {
      const ValueId middle = builder_.cast(builder_.scalar(1 << (sizes_.bits - 1), DType::u8), type);
      return builder_.add("Expand", {middle, builder_.integers({sizes_.n, sizes_.blocks})});
    }
    const ValueId bytes = reshape(inputs_[3], {sizes_.n, sizes_.zero_bytes()});
    return builder_.cast(first(*unpack_bits_to_bytes(builder_, bytes, sizes_.bits), sizes_.blocks), type);
  }
  // zero point · scale, [N, blocks]
  ValueId real_zeros() { return builder_.add("Mul", {reshape(inputs_[3], {sizes_.n, sizes_.blocks}), scales_}); }

  ValueId dequantise(ValueId numbers, ValueId scales, std::optional<ValueId> zeros, std::int64_t block) {
    Values operands{numbers, scales};
    if (zeros) operands.push_back(*zeros);
    return builder_.add("DequantizeLinear", std::move(operands), {{"axis", std::int64_t{1}}, {"block_size", block}});
  }

  ValueId by_block(ValueId numbers) {
    if (!has_real_zeros()) return dequantise(numbers, scales_, zeros(builder_.dtype(numbers)), sizes_.block);
    const Shape apart{sizes_.n, sizes_.blocks, sizes_.block};
    const ValueId products = reshape(dequantise(numbers, scales_, std::nullopt, sizes_.block), apart);
    const ValueId shifted =
        builder_.add("Sub", {products, builder_.add("Unsqueeze", {real_zeros(), builder_.integers({2})})});
    return reshape(shifted, {sizes_.n, sizes_.blocks * sizes_.block});
  }

  // Column k takes scale and zero point of block g_idx[k].
  ValueId by_group(ValueId numbers) {
    const ValueId groups = builder_.add("Slice", {inputs_[4], builder_.integers({0}), builder_.integers({sizes_.k})});
    const auto gather = [&](ValueId values) {
      return builder_.add("Gather", {values, groups}, {{"axis", std::int64_t{1}}});
    };
    if (!has_real_zeros()) return dequantise(numbers, gather(scales_), gather(zeros(builder_.dtype(numbers))), 1);
    return builder_.add("Sub", {dequantise(numbers, gather(scales_), std::nullopt, 1), gather(real_zeros())});
  }

  GraphBuilder& builder_;
  const MatmulNBitsSizes sizes_;
  std::span<const ValueId> inputs_;
  ValueId scales_;
};

std::optional<Values> decompose_matmul_n_bits(GraphBuilder& builder, const AttributeReader& reader,
                                              std::span<const ValueId> inputs) {
  const std::optional<ValueId> weights = Weights(builder, reader, inputs).make();
  if (!weights) return std::nullopt;
  const ValueId right = builder.add("Transpose", {*weights}, {{"perm", std::vector<std::int64_t>{1, 0}}});
  const ValueId product = builder.add("MatMul", {inputs[0], right});
  return Values{inputs.size() > 5 && inputs[5].valid() ? builder.add("Add", {product, inputs[5]}) : product};
}

}  // namespace

void check_bits(std::int64_t bits) {
  require(bits == 2 || bits == 4 || bits == 8, ErrorKind::invalid_model, "bits is {}, expected 2, 4 or 8", bits);
}

void check_block_size(std::int64_t block_size) {
  const bool fits = block_size >= 16 && std::has_single_bit(static_cast<std::uint64_t>(block_size));
  require(fits, ErrorKind::invalid_model, "block_size is {}, expected a power of two of at least 16", block_size);
}

// Y = A · W' + bias with W[n, k] = scales[n, b] · (B[n, k] − zero_points[n, b]), b = k / block_size or g_idx[k].
// B is u8[N, blocks, block_size · bits / 8]. Zero points are numbers packed like those of B in u8[N, blocks · bits / 8
// rounded up], or real ones in [N, blocks]; without them 2^(bits − 1). With accuracy_level 4, and only then, a kernel
// may round A to 8 bits in blocks of at most block_size elements.
const OpDef matmul_n_bits{
    .name = "com.microsoft::MatMulNBits",
    .since = 1,
    .product = n_bits_product,
    .inputs = {{"A", types::floats_to_f32, "T1"},
               {"B", {DType::u8}},
               {"scales", types::floats_to_f32, "T1"},
               {"zero_points", types::floats_to_f32 | TypeSet{DType::u8}, "", optional},
               {"g_idx", {DType::i32}, "", optional},
               {"bias", types::floats_to_f32, "T1", optional}},
    .outputs = {{"Y", types::floats_to_f32, "T1"}},
    .attributes = {required_attribute("K", AttributeKind::integer), required_attribute("N", AttributeKind::integer),
                   required_attribute("block_size", AttributeKind::integer), integer_attribute("bits", 4),
                   integer_attribute("accuracy_level", 0), integer_attribute("weight_prepacked", 0)},
    .infer = infer_matmul_n_bits,
    .operations = matmul_n_bits_operations,
    .decompose = decompose_matmul_n_bits,
};

}  // namespace tessera::ops
