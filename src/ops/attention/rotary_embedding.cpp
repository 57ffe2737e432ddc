#include "ops/attention/rotary_embedding.h"

#include "base/error.h"
#include "ops/core/check_operand.h"
#include "ops/core/gradient.h"
#include "ops/core/signatures.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

void infer_rotary_embedding(InferContext& context) {
  infer_same_as_input(context);
  const ir::Dims* x = context.dims(0);
  if (x == nullptr) return;
  context.check(x->size() == 3 || x->size() == 4, "'X' has shape {}, expected rank 3 or 4", text_of(*x));
  // The checks need only inner sizes; outer ones may be symbols.
  Shape shape;
  for (const ir::Dim& dim : *x) shape.push_back(dim.is_known() ? dim.value() : 0);
  ir::Dim half;
  if (x->back().is_known()) half = rotary_sizes(context, shape).rotated / 2;
  const ir::Dim &batch = (*x)[0], &length = (*x)[x->size() == 3 ? 1 : 2];
  const bool by_position = context.has_input(3);
  for (const std::size_t cache : {std::size_t{1}, std::size_t{2}}) {
    check_operand(context, cache, by_position ? ir::Dims{ir::Dim(), half} : ir::Dims{batch, length, half});
  }
  check_operand(context, 3, {batch, length});
  // Positions select rows of both caches, which have equal shapes.
  if (context.dims(1) != nullptr) check_operand(context, 2, *context.dims(1));
}

// The rotation by the opposite angle.
void rotary_gradient(GradientContext& c) {
  require(!c.wants(1) && !c.wants(2), ErrorKind::unsupported, "the caches of sines and cosines are not differentiated");
  std::vector<Term> others{c.input(1), -c.input(2)};
  if (c.has_input(3)) others.push_back(c.input(3));
  c.set(0, c.gradient().combine("RotaryEmbedding", others, c.node().attributes).of_shape(c.input(0)));
}

}  // namespace

RotarySizes rotary_sizes(const AttributeReader& reader, const Shape& x) {
  RotarySizes sizes;
  sizes.packed = x.size() == 3;
  sizes.batch = x[0];
  sizes.length = x[sizes.packed ? 1 : 2];
  if (sizes.packed) {
    sizes.heads = reader.has_attribute("num_heads") ? reader.integer("num_heads") : 0;
    require(sizes.heads >= 1, ErrorKind::invalid_model, "num_heads is {}, expected at least 1 for an input of rank 3",
            sizes.heads);
    require(x[2] % sizes.heads == 0, ErrorKind::invalid_model, "the hidden size {} does not divide into {} heads", x[2],
            sizes.heads);
    sizes.head_size = x[2] / sizes.heads;
  } else {
    sizes.heads = x[1];
    sizes.head_size = x[3];
  }
  const std::int64_t asked = reader.integer("rotary_embedding_dim");
  sizes.rotated = asked == 0 ? sizes.head_size : asked;
  require(sizes.rotated >= 0 && sizes.rotated % 2 == 0 && sizes.rotated <= sizes.head_size, ErrorKind::invalid_model,
          "{} of {} elements of a head cannot be rotated", sizes.rotated, sizes.head_size);
  return sizes;
}

// Pairs (a, b) of a head become (cos a - sin b, sin a + cos b); a pair is elements i and i + rotated / 2, or 2i and 2i
// + 1 when interleaved. cos and sin come from row position_ids[batch, position] of the caches, or from [batch,
// position].
const OpDef rotary_embedding{
    .name = "RotaryEmbedding",
    .since = 23,
    .inputs = {{"X", types::floats_to_f32, "T"},
               {"cos_cache", types::floats_to_f32, "T"},
               {"sin_cache", types::floats_to_f32, "T"},
               {"position_ids", types::i64, "M", optional}},
    .outputs = {{"Y", types::floats_to_f32, "T"}},
    .attributes = {{"interleaved", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})},
                   {"num_heads", ir::AttributeKind::integer},
                   {"rotary_embedding_dim", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})}},
    .infer = infer_rotary_embedding,
    .operations = operations_per_output<3>,
    .gradient = rotary_gradient,
};

}  // namespace tessera::ops
