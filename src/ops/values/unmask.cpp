#include "ops/values/unmask.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "ops/core/signatures.h"
#include "ops/symbols.h"

namespace tessera::ops {
namespace {

constexpr std::uint32_t kLeastShift = 11, kShifts = 10;

void infer_unmask(InferContext& context) {
  const bool has_key = context.has_attribute("key");
  context.check(has_key || find_unmask(context.node().op) != nullptr,
                "the weights are masked, and there is neither a key nor a function to unmask them");
  if (has_key) Mask::from(context.integers("key"));
  if (!context.has_attribute("shape")) return infer_same_as_input(context);
  const std::vector<std::int64_t>& shape = context.integers("shape");
  const ir::Dims* masked = context.dims(0);
  const std::optional<Shape> given = masked != nullptr ? ir::to_shape(*masked) : std::nullopt;
  context.check(std::ranges::all_of(shape, [](std::int64_t size) { return size >= 0; }) && given &&
                    element_count(*given) == element_count(shape),
                "the shape of the weights does not have the elements of the masked ones");
  context.set_output(0, context.dtype(0), ir::to_dims(shape));
}

double bytes_of_masked(const NodeView& view) {
  return static_cast<double>(view.input(0).bytes());
}

}  // namespace

Mask Mask::from(std::span<const std::int64_t> key) {
  require(key.size() == kWords, ErrorKind::invalid_model, "the key of a mask has {} numbers, expected {}", key.size(),
          kWords);
  const auto word = [&](std::size_t i) { return static_cast<std::uint32_t>(key[i]); };
  Mask mask;
  for (std::size_t i = 0; i < 3; ++i) {
    mask.multipliers[i] = word(i) | 1;
    mask.shifts[i] = kLeastShift + word(5 + i) % kShifts;
  }
  mask.addends = {word(3), word(4)};
  return mask;
}

void Mask::apply(const void* from, void* to, std::uint64_t first, std::uint64_t words) const {
  const auto* source = static_cast<const unsigned char*>(from);
  auto* target = static_cast<unsigned char*>(to);
  for (std::uint64_t i = 0; i < words; ++i) {
    std::uint32_t word = 0;
    std::memcpy(&word, source + 4 * i, sizeof(word));
    word ^= noise(static_cast<std::uint32_t>(first + i));
    std::memcpy(target + 4 * i, &word, sizeof(word));
  }
}

const OpDef unmask{
    .name = "tessera::Unmask",
    .inputs = {{"masked", types::f32, "T"}, {"first", types::all, "T2"}},
    .outputs = {{"plain", types::f32, "T"}},
    .attributes = {{"key", ir::AttributeKind::integers},
                   {"mask", ir::AttributeKind::integer},
                   {"shape", ir::AttributeKind::integers}},
    .infer = infer_unmask,
    .bytes_read = bytes_of_masked,
};

}  // namespace tessera::ops
