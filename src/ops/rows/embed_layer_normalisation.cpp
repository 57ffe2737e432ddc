#include "ops/rows/embed_layer_normalisation.h"

#include "ops/attention/attention_parts.h"
#include "ops/core/check_operand.h"
#include "ops/core/signatures.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;
using ir::Dim;
using ir::Dims;
using ir::ValueId;

enum Input : std::size_t { kIds, kSegmentIds, kWords, kPositions, kSegments, kGamma, kBeta, kMask, kPositionIds };
// In the quantised operator: first the scales, in the order of the tables, then the zero points.
constexpr std::size_t kFirstScale = 8, kFirstZeroPoint = 13;

// Type of the embeddings, and the shape checks that both operators share.
void infer_common(InferContext& context, DType type) {
  const Dims ids = dims_of_rank(context, kIds, 2), words = dims_of_rank(context, kWords, 2);
  context.check(context.has_input(kSegmentIds) == context.has_input(kSegments),
                "segment_ids and segment embeddings must be given together");
  check_operand(context, kSegmentIds, ids);
  check_operand(context, kPositions, {Dim(), words[1]});
  check_operand(context, kSegments, {Dim(), words[1]});
  check_operand(context, kGamma, {words[1]});
  check_operand(context, kBeta, {words[1]});
  check_operand(context, kMask, ids);
  context.set_output(0, type, {ids[0], ids[1], words[1]});
  context.set_output(1, context.dtype(kIds), {ids[0]});
  context.set_output(2, type, {ids[0], ids[1], words[1]});
}

void infer_embed_layer_normalisation(InferContext& context) {
  infer_common(context, context.dtype(kWords));
  if (!context.has_input(kPositionIds)) return;
  const Dims ids = dims_of_rank(context, kIds, 2), positions = dims_of_rank(context, kPositionIds, 2);
  const bool fits = (positions[0].may_equal(1) || positions[0].may_equal(ids[0])) && positions[1].may_equal(ids[1]);
  context.check(fits, "'position_ids' has shape {}, expected [{} or 1, {}]", text_of(positions), text_of(ids[0]),
                text_of(ids[1]));
}

void infer_embed_layer_normalisation_quantised(InferContext& context) {
  infer_common(context, context.dtype(kFirstScale));
  for (const std::size_t i : {kFirstScale + 2, kFirstZeroPoint + 2}) {
    context.check(context.has_input(i) == context.has_input(kSegments),
                  "'{}' and segment embeddings must be given together", context.op().inputs[i].name);
  }
}

// The bytes of one row of each table per row of the result, and of the ids.
double looked_up_bytes(const NodeView& view) {
  double bytes = 0;
  for (std::size_t i = 0; i < view.input_count(); ++i) {
    if (!view.has_input(i)) continue;
    const bool table = i == kWords || i == kPositions || i == kSegments;
    bytes += static_cast<double>(table ? view.output(0).bytes() : view.input(i).bytes());
  }
  return bytes;
}

// The number of keys with mask 1 in each row; zeros without a mask.
ValueId mask_index(GraphBuilder& builder, ValueId ids, ValueId mask) {
  if (!mask.valid()) {
    const ValueId batch = builder.add("Shape", {ids}, {{"start", std::int64_t{0}}, {"end", std::int64_t{1}}});
    return builder.cast(builder.add("ConstantOfShape", {batch}), builder.dtype(ids));
  }
  const ValueId ones = builder.add("Equal", {mask, builder.scalar(1, builder.dtype(mask))});
  return builder.add("ReduceSum", {builder.cast(ones, builder.dtype(mask)), builder.integers({1})},
                     {{"keepdims", std::int64_t{0}}});
}

// `table(i, ids)` gives the rows of embedding table i, `vector(i)` gamma or beta.
template <typename Table, typename Vector>
std::vector<ValueId> embed(GraphBuilder& builder, const AttributeReader& reader, std::span<const ValueId> inputs,
                           ValueId position_ids, const Table& table, const Vector& vector) {
  const auto input = [&](std::size_t i) { return i < inputs.size() ? inputs[i] : ValueId{}; };
  ValueId sum = builder.add("Add", {table(kWords, inputs[kIds]), table(kPositions, position_ids)});
  if (input(kSegments).valid()) sum = builder.add("Add", {sum, table(kSegments, inputs[kSegmentIds])});
  const ValueId normalised =
      builder.add("LayerNormalization", {sum, vector(kGamma), vector(kBeta)}, {{"epsilon", reader.real("epsilon")}});
  return {normalised, mask_index(builder, inputs[kIds], input(kMask)), sum};
}

std::optional<std::vector<ValueId>> decompose_embed_layer_normalisation(GraphBuilder& builder,
                                                                        const AttributeReader& reader,
                                                                        std::span<const ValueId> inputs) {
  const auto shapes = concrete_shapes(builder, inputs);
  if (!shapes) return std::nullopt;
  const bool has_ids = inputs.size() > kPositionIds && inputs[kPositionIds].valid();
  const ValueId position_ids = has_ids ? inputs[kPositionIds] : positions(builder, (*shapes)[kIds][1]);
  return embed(
      builder, reader, inputs, position_ids,
      [&](std::size_t i, ValueId ids) { return builder.add("Gather", {inputs[i], ids}); },
      [&](std::size_t i) { return inputs[i]; });
}

std::optional<std::vector<ValueId>> decompose_embed_layer_normalisation_quantised(GraphBuilder& builder,
                                                                                  const AttributeReader& reader,
                                                                                  std::span<const ValueId> inputs) {
  const auto shapes = concrete_shapes(builder, inputs);
  if (!shapes) return std::nullopt;
  // Scales and zero points have the order words, positions, segments, gamma, beta, as the tables; each is one number.
  const auto dequantised = [&](std::size_t i, ValueId value) {
    const auto number = [&](std::size_t at) { return reshaped(builder, inputs[at + i - kWords], {}); };
    return builder.add("DequantizeLinear", {value, number(kFirstScale), number(kFirstZeroPoint)});
  };
  return embed(
      builder, reader, inputs, positions(builder, (*shapes)[kIds][1]),
      [&](std::size_t i, ValueId ids) { return dequantised(i, builder.add("Gather", {inputs[i], ids})); },
      [&](std::size_t i) { return dequantised(i, inputs[i]); });
}

// The schema states i32 for both; passes/fuse/fuse_embeddings.cpp also makes the first operator from lookups by i64.
constexpr TypeSet kTokens{DType::i32, DType::i64};

}  // namespace

// LayerNormalization of word[input_ids] + position[position_ids, or 0, 1 ...] + segment[segment_ids]; how many of each
// row's mask are 1; and the sum itself.
const OpDef embed_layer_normalization{
    .name = "com.microsoft::EmbedLayerNormalization",
    .since = 1,
    .inputs = {{"input_ids", kTokens, "T1"},
               {"segment_ids", kTokens, "T1", optional},
               {"word_embedding", types::floats, "T"},
               {"position_embedding", types::floats, "T"},
               {"segment_embedding", types::floats, "T", optional},
               {"gamma", types::floats, "T"},
               {"beta", types::floats, "T"},
               {"mask", kTokens, "T1", optional},
               {"position_ids", kTokens, "T1", optional}},
    .outputs = {{"output", types::floats, "T"},
                {"mask_index", kTokens, "T1", optional},
                {"embedding_sum", types::floats, "T", optional}},
    .attributes = {{"epsilon", AttributeKind::real, ir::Attribute(1e-12f)},
                   {"mask_index_type", AttributeKind::integer}},
    .infer = infer_embed_layer_normalisation,
    .operations = operations_per_output<10>,
    .bytes_read = looked_up_bytes,
    .decompose = decompose_embed_layer_normalisation,
    .traits = {Trait::normalises},
};

// EmbedLayerNormalization with quantised tables: (value - zero point) * scale.
const OpDef q_embed_layer_normalization{
    .name = "com.microsoft::QEmbedLayerNormalization",
    .since = 1,
    .inputs = {{"input_ids", types::i32, "T1"},
               {"segment_ids", types::i32, "T1", optional},
               {"word_embedding_quant", types::bytes, "T2"},
               {"position_embedding_quant", types::bytes, "T2"},
               {"segment_embedding", types::bytes, "T2", optional},
               {"gamma_quant", types::bytes, "T2"},
               {"beta_quant", types::bytes, "T2"},
               {"mask", types::i32, "T1", optional},
               {"word_embedding_scale", types::floats_to_f32, "T"},
               {"position_embedding_scale", types::floats_to_f32, "T"},
               {"segment_embedding_scale", types::floats_to_f32, "T", optional},
               {"gamma_scale", types::floats_to_f32, "T"},
               {"beta_scale", types::floats_to_f32, "T"},
               {"word_embedding_zero_point", types::bytes, "T2"},
               {"position_embedding_zero_point", types::bytes, "T2"},
               {"segment_embedding_zero_point", types::bytes, "T2", optional},
               {"gamma_zero_point", types::bytes, "T2"},
               {"beta_zero_point", types::bytes, "T2"}},
    .outputs = {{"layernorm_out", types::floats_to_f32, "T"}, {"mask_index_out", types::i32, "T1"}},
    .attributes = {{"epsilon", AttributeKind::real, ir::Attribute(1e-12f)}},
    .infer = infer_embed_layer_normalisation_quantised,
    .decompose = decompose_embed_layer_normalisation_quantised,
};

}  // namespace tessera::ops
