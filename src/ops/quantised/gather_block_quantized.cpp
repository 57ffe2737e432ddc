#include "ops/quantised/gather_block_quantized.h"

#include "base/error.h"
#include "base/numbers/checked.h"
#include "ops/core/signatures.h"
#include "ops/quantised/matmul_n_bits.h"
#include "ops/quantised/packed_bits.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;
using ir::Dims;
using ir::ValueId;
using Values = std::vector<ValueId>;

constexpr TypeSet kSmallFloats{DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz, DType::f4e2m1};
constexpr TypeSet kNumbers = TypeSet{DType::i4, DType::u4, DType::u8} | kSmallFloats;

// The number of elements in a byte of the table: u8 may hold several, along the last axis.
std::int64_t packing(const AttributeReader& reader, DType table) {
  return table == DType::u8 ? 8 / reader.integer("bits") : 1;
}

// Whether a dimension of the scales fits a dimension of the table. Scales of small floats may be 1 along an axis
// without blocks.
bool scale_fits(const ir::Dim& scale, const ir::Dim& size, std::int64_t block, bool blocked, bool may_broadcast) {
  if (!blocked) return scale.may_equal(size) || (may_broadcast && scale.may_equal(1));
  return !size.is_known() || scale.may_equal(block == 0 ? 1 : base::ceil_divide(size.value(), block));
}

void check_gather_block_quantized_scales(const InferContext& context, const Dims& table, std::int64_t quantised_axis) {
  const bool small_float = kSmallFloats.contains(context.dtype(0));
  if (context.dims(2) == nullptr) return;
  const Dims& scales = *context.dims(2);
  bool fits = scales.size() == table.size();
  for (std::size_t i = 0; fits && i < table.size(); ++i) {
    fits = scale_fits(scales[i], table[i], context.integer("block_size"),
                      static_cast<std::int64_t>(i) == quantised_axis, small_float);
  }
  context.check(fits, "scales of shape {} do not cover a table of {} in blocks of {} along axis {}", to_string(scales),
                to_string(table), context.integer("block_size"), quantised_axis);
  if (!context.has_input(3) || context.dims(3) == nullptr) return;
  Dims zeros = scales;
  const std::int64_t in_byte = packing(context, context.dtype(0));
  if (in_byte > 1 && zeros.back().is_known()) zeros.back() = base::ceil_divide(zeros.back().value(), in_byte);
  const Dims& given = *context.dims(3);
  bool same = given.size() == zeros.size();
  for (std::size_t i = 0; same && i < zeros.size(); ++i) same = given[i].may_equal(zeros[i]);
  context.check(same, "zero points have shape {}, expected {}", to_string(given), to_string(zeros));
}

void infer_gather_block_quantized(InferContext& context) {
  const DType type = context.dtype(0);
  const bool small_float = kSmallFloats.contains(type);
  if (type == DType::u8) check_bits(context.integer("bits"));
  if (!small_float || context.integer("block_size") != 0) check_block_size(context.integer("block_size"));
  context.check(!small_float || !context.has_input(3), "a table of {} has no zero points", name_of(type));
  const Dims *data = context.dims(0), *indices = context.dims(1);
  if (data == nullptr) return context.set_output_unknown_rank(0, context.dtype(2));
  const auto rank = static_cast<std::int64_t>(data->size());
  context.check(rank >= 2, "a table of shape {}, expected rank 2 or more", to_string(*data));
  const std::int64_t gather_axis = normalise_axis(context.integer("gather_axis"), rank),
                     quantised_axis = normalise_axis(context.integer("quantize_axis"), rank);
  const std::int64_t in_byte = packing(context, type);
  context.check(type != DType::u8 || gather_axis == 0, "gather_axis is {} for a table of u8, expected 0", gather_axis);
  context.check(in_byte == 1 || gather_axis != quantised_axis,
                "gather_axis and quantize_axis are both {} for a packed table", gather_axis);
  Dims table = *data;
  table.back() = table.back() * ir::Dim(in_byte);
  check_gather_block_quantized_scales(context, table, quantised_axis);
  if (indices == nullptr) return context.set_output_unknown_rank(0, context.dtype(2));
  Dims result(table.begin(), table.begin() + gather_axis);
  result.insert(result.end(), indices->begin(), indices->end());
  result.insert(result.end(), table.begin() + gather_axis + 1, table.end());
  context.set_output(0, context.dtype(2), std::move(result));
}

double gather_block_quantized_bytes_read(const NodeView& view) {
  const double rows = static_cast<double>(byte_count(view.input(0).dtype, {view.output(0).elements()}));
  return rows / static_cast<double>(packing(view, view.input(0).dtype)) + static_cast<double>(view.input(1).bytes());
}

// --- decomposition ---

// Decomposes a node whose shapes are all known: at planning, or in the run where shapes depend on data.
class Gathering {
 public:
  Gathering(GraphBuilder& builder, const AttributeReader& reader, std::span<const ValueId> inputs)
      : builder_(builder), reader_(reader), inputs_(inputs) {
    const Shape table = shape(inputs[0]);
    const auto rank = static_cast<std::int64_t>(table.size());
    axis_ = normalise_axis(reader.integer("gather_axis"), rank);
    quantised_axis_ = normalise_axis(reader.integer("quantize_axis"), rank);
    length_ = table[static_cast<std::size_t>(axis_)];
    index_rank_ = static_cast<std::int64_t>(shape(inputs[1]).size());
  }

  // Indices outside of the table give zeros.
  ValueId run() {
    const ValueId given = builder_.cast(inputs_[1], DType::i64);
    const ValueId from_end = builder_.add("Add", {given, number(length_)});
    const ValueId index = builder_.add("Where", {builder_.add("Less", {given, number(0)}), from_end, given});
    const ValueId inside = builder_.add(
        "And", {builder_.add("GreaterOrEqual", {index, number(0)}), builder_.add("Less", {index, number(length_)})});
    at_ = builder_.add("Where", {inside, index, number(0)});
    const ValueId rows = dequantised();
    std::vector<std::int64_t> behind;
    for (std::int64_t i = axis_ + index_rank_; i < static_cast<std::int64_t>(shape(rows).size()); ++i)
      behind.push_back(i - axis_);
    const ValueId mask = behind.empty() ? inside : builder_.add("Unsqueeze", {inside, builder_.integers(behind)});
    return builder_.add("Where", {mask, rows, builder_.scalar(0, builder_.dtype(rows))});
  }

 private:
  Shape shape(ValueId value) const { return *builder_.type(value).shape(); }
  ValueId number(std::int64_t value) { return builder_.scalar(static_cast<double>(value), DType::i64); }
  ValueId gather(ValueId data, ValueId at) { return builder_.add("Gather", {data, at}, {{"axis", axis_}}); }
  bool same_axis() const { return axis_ == quantised_axis_; }
  // The position of the quantised axis after gathering.
  std::int64_t block_axis() const {
    return quantised_axis_ < axis_ ? quantised_axis_ : quantised_axis_ + index_rank_ - 1;
  }

  ValueId dequantised() {
    const DType type = builder_.dtype(inputs_[0]);
    const std::int64_t bits = type == DType::u8 ? reader_.integer("bits") : 8;
    const ValueId numbers = *unpack_bits_to_bytes(builder_, gather(inputs_[0], at_), bits);
    Values operands{numbers, by_number(inputs_[2], shape(numbers))};
    if (inputs_.size() > 3 && inputs_[3].valid()) {
      operands.push_back(by_number(zero_points(bits), shape(numbers)));
    } else if (type == DType::u8) {
      operands.push_back(
          builder_.add("Expand", {builder_.scalar(1 << (bits - 1), DType::u8), builder_.integers(shape(operands[1]))}));
    }
    if (same_axis())
      return builder_.add("DequantizeLinear", std::move(operands),
                          {{"axis", std::int64_t{0}}, {"block_size", std::int64_t{1}}});
    const std::int64_t size = shape(numbers)[static_cast<std::size_t>(block_axis())];
    const std::int64_t block =
        reader_.integer("block_size") == 0 ? std::max<std::int64_t>(size, 1) : reader_.integer("block_size");
    return builder_.add("DequantizeLinear", std::move(operands), {{"axis", block_axis()}, {"block_size", block}});
  }

  // One zero point per scale, unpacked.
  ValueId zero_points(std::int64_t bits) {
    const ValueId numbers = *unpack_bits_to_bytes(builder_, inputs_[3], bits);
    const std::int64_t wanted = shape(inputs_[2]).back();
    if (shape(numbers).back() == wanted) return numbers;
    return builder_.add("Slice",
                        {numbers, builder_.integers({0}), builder_.integers({wanted}), builder_.integers({-1})});
  }

  // Scales or zero points for each gathered element: one per block of the quantised axis, or one per element when that
  // axis is gathered.
  ValueId by_number(ValueId values, Shape numbers) {
    const std::int64_t block = reader_.integer("block_size");
    ValueId at = at_;
    if (shape(values)[static_cast<std::size_t>(axis_)] == 1) at = builder_.add("Mul", {at_, number(0)});
    else if (same_axis()) at = builder_.add("Div", {at_, number(block)});
    const ValueId taken = gather(values, at);
    if (!same_axis())
      numbers[static_cast<std::size_t>(block_axis())] = shape(taken)[static_cast<std::size_t>(block_axis())];
    return shape(taken) == numbers ? taken : builder_.add("Expand", {taken, builder_.integers(numbers)});
  }

  GraphBuilder& builder_;
  const AttributeReader& reader_;
  std::span<const ValueId> inputs_;
  std::int64_t axis_ = 0, quantised_axis_ = 0, length_ = 0, index_rank_ = 0;
  ValueId at_;
};

std::optional<Values> decompose_gather_block_quantized(GraphBuilder& builder, const AttributeReader& reader,
                                                       std::span<const ValueId> inputs) {
  for (const ValueId input : inputs) {
    if (input.valid() && !builder.type(input).shape()) return std::nullopt;
  }
  return Values{Gathering(builder, reader, inputs).run()};
}

}  // namespace

// y = scale · (number − zero point) of data[indices], scale and zero point by blocks of block_size numbers along
// quantize_axis. u8 holds 8 / bits numbers in a byte along the last axis, the first one in the lowest bits; their zero
// point is 2^(bits − 1) when none is given, otherwise 0.
const OpDef gather_block_quantized{
    .name = "com.microsoft::GatherBlockQuantized",
    .since = 1,
    .inputs = {{"data", kNumbers, "T1"},
               {"indices", types::index},
               {"scales", types::floats_to_f32, "T2"},
               {"zero_points", kNumbers, "T1", optional}},
    .outputs = {{"output", types::floats_to_f32, "T2"}},
    .attributes = {integer_attribute("bits", 4), integer_attribute("block_size", 128),
                   integer_attribute("gather_axis", 0), integer_attribute("quantize_axis", 1)},
    .infer = infer_gather_block_quantized,
    .bytes_read = gather_block_quantized_bytes_read,
    .decompose = decompose_gather_block_quantized,
};

}  // namespace tessera::ops
