// Attention and what goes with it.
#include <cmath>
#include <memory>

#include "support/op_examples.h"

namespace tessera::test {
namespace {

ir::SubgraphPointer body_of(const char* op) {
  auto graph = std::make_shared<ir::Graph>();
  graph->add_output(graph->add_op(op, {graph->add_input("x", {})}));
  return graph;
}

}  // namespace

std::vector<OpExample> attention_examples() {
  using ops::TypeSet;
  const ir::Attribute one = whole(1), two = whole(2);
  const ir::Attributes heads{{"num_heads", two}};
  const ExampleOperand apart = at({1, 2, 3, 4}), packed = at({1, 3, 8}), none = absent;
  const ExampleOperand kept = at({3, 3}, {NAN, 1, NAN, NAN});  // NaN: as they are
  const ExampleOperand seen = at({1}, {2}), held = at({1, 2, 2, 4}, {1, 0.5, 2}), row = at({1, 1, 8});
  const ExampleOperand last = seen, total = number(3);
  constexpr TypeSet bytes{DType::i8}, nibbles{DType::u8};
  const ir::Attributes grouped{{"num_heads", two}, {"kv_num_heads", two}};
  ir::Attributes rotated = grouped, coded = grouped, coded_4, scored = grouped, shared = heads, shared_decoder = heads;
  rotated.insert({{"do_rotary", one}});
  scored.insert({{"qk_output", one}});
  coded.insert(
      {{"kv_cache_bit_width", whole(8)}, {"k_quant_type", text("PER_TENSOR")}, {"v_quant_type", text("PER_TENSOR")}});
  coded_4 = coded;
  coded_4["kv_cache_bit_width"] = whole(4);
  shared.insert({{"past_present_share_buffer", one}, {"unidirectional", one}});
  shared_decoder.insert({{"past_present_share_buffer", one}, {"output_qk", one}});
  // Two sequences of a step: positions 1 and 2 of the first, and position 0 of the second.
  const ExampleOperand pages = as(DType::i64, at({2, 1}, {1, 0})), positions = as(DType::i64, at({3}, {1, 2, 0})),
                       sequence = as(DType::i64, at({3}, {0, 0, 1})), cached = at({2, 2, 4, 2}, {1, 0.5, 2}),
                       scales = at({2, 2, 4}, {0.5, 1});
  const ir::Attributes cache_heads{{"heads", two}, {"kv_heads", two}, {"scale", real(0.5f)}};
  return {
      {"tessera::CacheAttention",
       {at({3, 4}), at({3, 4}), at({3, 4}), cached, cached, pages, positions, sequence, at({2})},
       cache_heads,
       1,
       {{"key_cache", {DType::f32, DType::f16}}}},
      {"tessera::CacheAttention",
       {at({3, 4}), at({3, 4}), at({3, 4}), cached, cached, pages, positions, sequence, none, scales, scales},
       cache_heads,
       1,
       {{"key_cache", {DType::i8}}}},
      {"tessera::AppendRows",
       {cached, at({3, 4}), pages, positions, sequence},
       {},
       1,
       {{"cache", {DType::f32, DType::f16}}}},
      {"tessera::AppendRows",
       {cached, at({3, 4}), pages, positions, sequence, scales},
       {},
       2,
       {{"cache", {DType::i8}}}},
      {"Attention", {apart, apart, apart, at({3, 5}), held, held}, {}, 4},
      {"Attention", {apart, apart, apart, none, none, none, integers({2})}},
      {"Attention",
       {packed, packed, packed},
       {{"q_num_heads", two}, {"kv_num_heads", two}, {"is_causal", one}, {"softcap", real(2)}}},
      {"Attention", {apart, apart, apart, at({3, 3}), none, none, none, kept, at({1, 3})}, {{"nan_rows", one}}},
      {"tessera::AttentionWithStatistics", {apart, apart, apart, at({3, 3})}, {}, 4},
      {"tessera::AttentionWithStatistics",
       {apart, apart, apart, at({3, 3}), none, none, none, kept, at({1, 3})},
       {{"nan_rows", two}},
       4},
      {"tessera::AttentionWithStatistics", {apart, apart, apart, at({3, 5}), held, held}, {}, 4},
      {"tessera::AttentionWithStatistics", {apart, apart, apart, none, none, none, integers({2})}, {}, 4},
      {"tessera::AttentionWithDropout",
       {apart, apart, apart, at({3, 3})},
       {{"dropout", real(0.25f)}, {"seed", whole(5)}},
       5},
      {"tessera::AttentionWithDropout",
       {apart, apart, apart, at({3, 5}), held, held},
       {{"dropout", real(0.25f)}, {"seed", whole(5)}},
       5},
      {"tessera::AttentionWithDropout",
       {apart, apart, apart, none, none, none, integers({2})},
       {{"dropout", real(0.25f)}, {"seed", whole(5)}},
       5},
      {"tessera::AttentionWithDropout",
       {apart, apart, apart, at({3, 3}), none, none, none, kept, at({1, 3})},
       {{"dropout", real(0.25f)}, {"seed", whole(5)}},
       5},
      {"tessera::AttentionGradient",
       {apart, apart, apart, at({3, 3}), at({1, 2, 3, 4}, {0.5}), at({1, 2, 3, 2}, {9, 3}), at({1, 2, 3, 4}, {1, 2}),
        none, kept, at({1, 3})},
       {{"scale", real(0.25f)}},
       3},
      {"tessera::AttentionGradient",
       {apart, apart, apart, none, at({1, 2, 3, 4}, {0.5}), at({1, 2, 3, 2}, {9, 3}), at({1, 2, 3, 4}, {1, 2}),
        integers({5, 0})},
       {{"dropout", real(0.25f)}},
       3},
      {"tessera::AttentionGradient",
       {apart, apart, apart, at({3, 3}), at({1, 2, 3, 4}, {0.5}), at({1, 2, 3, 2}, {9, 3}), at({1, 2, 3, 4}, {1, 2})},
       {{"scale", real(0.25f)}},
       3},
      {"tessera::AttentionGradient",
       {packed, packed, packed, none, at({1, 3, 8}, {0.5}), at({1, 2, 3, 2}, {9, 3}), at({1, 3, 8}, {1, 2})},
       {{"q_num_heads", two}, {"kv_num_heads", two}, {"is_causal", one}, {"scale", real(0.25f)}},
       3},
      {"ai.onnx.preview::FlexAttention", {apart, apart, apart}},
      {"ai.onnx.preview::FlexAttention",
       {apart, apart, apart},
       {{"score_mod", body_of("Relu")}, {"prob_mod", body_of("Sqrt")}}},
      {"LinearAttention",
       {packed, packed, packed, at({1, 2, 4, 4}), packed, at({1, 3, 2}, {0.5})},
       {{"q_num_heads", two}, {"kv_num_heads", two}},
       2},
      {"tessera::LinearAttentionGradient",
       {packed, packed, packed, at({1, 2, 4, 4}), packed, at({1, 3, 2}, {0.5}), packed, at({1, 2, 4, 4})},
       {{"q_num_heads", two}, {"kv_num_heads", two}},
       6},
      {"RotaryEmbedding", {apart, at({5, 2}), at({5, 2}, {0.5, 1}), as(DType::i64, at({1, 3}, {2, 0, 4}))}},
      {"com.microsoft::Attention",
       {packed, at({8, 24}), at({24}), at({1, 5}, {1, 1, 0, 1, 1}), at({2, 1, 2, 2, 4}), at({1, 2, 3, 5})},
       heads,
       2},
      {"com.microsoft::Attention",
       {packed, at({8, 24}), none, none, at({2, 1, 2, 5, 4}), none, at({1}, {1})},
       shared,
       2},
      {"com.microsoft::MultiHeadAttention", {packed, packed, packed}, heads},
      {"com.microsoft::MultiHeadAttention",
       {packed, packed, packed, at({24}), at({1, 5}, {1, 1, 0, 1, 1}), at({1, 2, 3, 5}), held, held},
       heads,
       4},
      {"com.microsoft::MultiHeadAttention",
       {at({2, 1, 8}), at({2, 1, 8}), at({2, 1, 8}), none, none, none, at({2, 2, 4, 4}), at({2, 2, 4, 4}), at({1}, {2}),
        at({1, 2, 4}, {1, 0})},
       heads,
       3},
      {"com.microsoft::DecoderMaskedMultiHeadAttention",
       {at({2, 1, 8}), at({2, 1, 8}), at({2, 1, 8}), at({2, 3}, {1, 1, 1, 0, 1, 1}), at({2, 2, 1, 3}), at({2, 2, 4, 4}),
        at({2, 2, 4, 4}), at({1}, {2}), at({1}, {2}), at({1, 2, 4}, {1, 0}), at({24})},
       shared_decoder,
       4},
      {.op = "com.microsoft::GroupQueryAttention",
       .operands = {packed, packed, packed, at({1, 2, 0, 4}), at({1, 2, 0, 4}), last, total},
       .attributes = grouped,
       .outputs = 3,
       .together = {"query", "past_key"}},
      {.op = "com.microsoft::GroupQueryAttention",
       .operands = {row, row, row, held, held, last, total, at({3, 2}), at({3, 2}, {0.5, 1}),
                    as(DType::i64, at({1, 1}, {2}))},
       .attributes = rotated,
       .outputs = 3,
       .together = {"query", "past_key"}},
      {.op = "com.microsoft::GroupQueryAttention",
       .operands = {row, row, row, held, held, last, total, none, none, none, at({1, 2, 1, 3}), at({2}), none, none,
                    at({4}, {1, 0.5}), at({4}, {1, 2})},
       .attributes = scored,
       .outputs = 4,
       .together = {"query", "past_key"}},
      {.op = "com.microsoft::GroupQueryAttention",
       .operands = {row, row, row, held, held, last, total, none, none, none, none, none, at({1}, {0.5}),
                    at({1}, {0.5})},
       .attributes = coded,
       .outputs = 3,
       .only = {{"past_key", bytes}}},
      {.op = "com.microsoft::GroupQueryAttention",
       .operands = {row, row, row, at({1, 2, 2, 2}, {18, 250}), at({1, 2, 2, 2}, {136}), last, total, none, none, none,
                    none, none, at({1}, {0.5}), at({1}, {0.5})},
       .attributes = coded_4,
       .outputs = 3,
       .only = {{"past_key", nibbles}}},
  };
}

}  // namespace tessera::test
