#include "ops/movement/expand.h"

#include <algorithm>

#include "base/error.h"
#include "ops/core/gradient.h"
#include "ops/core/shape_arguments.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

// The result for an unknown request: dimensions in front of it stay, and so do those above 1, which only match
// themselves.
ir::Dims expand_dims_unknown(const ir::Dims& input, std::int64_t request_rank) {
  const std::int64_t rank = static_cast<std::int64_t>(input.size());
  ir::Dims result = unknown_dims(std::max(rank, request_rank));
  const std::int64_t added = static_cast<std::int64_t>(result.size()) - rank;
  for (std::int64_t i = 0; i < rank; ++i) {
    if (i < rank - request_rank || input[i].value() > 1) result[added + i] = input[i];
  }
  return result;
}

void infer_expand(InferContext& context) {
  const ir::Dims* input = context.dims(0);
  context.set_output_unknown_rank(0, context.dtype(0));
  if (input == nullptr) return;
  if (const auto request = context.constant_integers(1)) {
    context.set_output(0, context.dtype(0), expand_dims(*input, *request));
  } else if (const auto length = known_length(context, 1)) {
    context.set_output(0, context.dtype(0), expand_dims_unknown(*input, *length));
  }
}

void infer_tile(InferContext& context) {
  const ir::Dims* input = context.dims(0);
  const auto repeats = context.constant_integers(1);
  const auto length = known_length(context, 1);
  if (input != nullptr && repeats) {
    context.set_output(0, context.dtype(0), tile_dims(*input, *repeats));
  } else if (input != nullptr) {
    context.check(!length || *length == static_cast<std::int64_t>(input->size()), "{} repeats for a tensor of rank {}",
                  length.value_or(0), input->size());
    context.set_output(0, context.dtype(0), ir::Dims(input->size()));
  } else {
    context.set_output_unknown_rank(0, context.dtype(0));
  }
}

// Views each axis as [repeats, dimension] and sums over the repeats.
void tile_gradient(GradientContext& c) {
  const std::int64_t rank = c.input(0).rank();
  const Term pairs =
      c.input(1).unsqueeze({1}).combine("Concat", {c.input(0).shape().unsqueeze({1})}, {{"axis", std::int64_t{1}}});
  std::vector<std::int64_t> repeats;
  for (std::int64_t i = 0; i < rank; ++i) repeats.push_back(2 * i);
  const Term apart = c.gradient().reshape(pairs.combine("Reshape", {pairs.integers({2 * rank})}));
  c.set(0, apart.sum(std::move(repeats), false));
}

}  // namespace

ir::Dims expand_dims(const ir::Dims& input, std::span<const std::int64_t> request) {
  const std::int64_t rank = static_cast<std::int64_t>(input.size()),
                     request_rank = static_cast<std::int64_t>(request.size());
  ir::Dims result = unknown_dims(std::max(rank, request_rank));
  for (std::int64_t i = 1; i <= static_cast<std::int64_t>(result.size()); ++i) {
    const ir::Dim own = i <= rank ? input[rank - i] : ir::Dim(1);
    const std::int64_t wanted = i <= request_rank ? request[request_rank - i] : 1;
    require(wanted >= 0, ErrorKind::invalid_model, "dimension {} in the requested shape", wanted);
    ir::Dim& dim = result[result.size() - i];
    if (wanted == 1) dim = own;
    else dim = wanted;
    require(wanted == 1 || !own.is_known() || own.value() == 1 || own.value() == wanted, ErrorKind::invalid_model,
            "cannot expand {} to {}", text_of(input), text_of(Shape(request.begin(), request.end())));
  }
  return result;
}

ir::Dims tile_dims(const ir::Dims& input, std::span<const std::int64_t> repeats) {
  require(repeats.size() == input.size(), ErrorKind::invalid_model, "{} repeats for a tensor of rank {}",
          repeats.size(), input.size());
  ir::Dims result;
  for (std::size_t i = 0; i < input.size(); ++i) {
    require(repeats[i] >= 0, ErrorKind::invalid_model, "axis {} is repeated {} times", i, repeats[i]);
    result.push_back(input[i] * ir::Dim(repeats[i]));
  }
  return result;
}

const OpDef expand{
    .name = "Expand",
    .since = 13,
    .inputs = {{"input", types::all, "T"}, {"shape", types::i64}},
    .outputs = {{"output", types::all, "T"}},
    .infer = infer_expand,
    .gradient = [](GradientContext& c) { c.set(0, c.gradient()); },
    .traits = {Trait::moves, Trait::rearranges},
};

const OpDef tile{
    .name = "Tile",
    .since = 13,
    .inputs = {{"input", types::all, "T"}, {"repeats", types::i64}},
    .outputs = {{"output", types::all, "T"}},
    .infer = infer_tile,
    .gradient = tile_gradient,
    .traits = {Trait::moves, Trait::rearranges},
};

}  // namespace tessera::ops
