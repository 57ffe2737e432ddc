// Operands that were aligned by an attribute before numpy broadcasting came (version 7).
#include <numeric>

#include "base/error.h"
#include "io/onnx/upgrade/upgrade_rules.h"

namespace tessera::io {
namespace {

// The value with `count` dimensions of 1 put after the `rank` that it has.
ir::ValueId append_ones(Upgrade& upgrade, ir::ValueId value, std::int64_t rank, std::int64_t count) {
  std::vector<std::int64_t> axes(static_cast<std::size_t>(count));
  std::iota(axes.begin(), axes.end(), rank);
  return upgrade.add("Unsqueeze", {value, upgrade.integers(axes)});
}

}  // namespace

// Add, Sub, Mul, Div, Pow, And, Or, Xor, Greater, Less, Equal: with broadcast = 1 the dimensions of B stand at those of
// A that start at `axis`; without an axis they are the last ones, as in numpy.
void binary_7(Upgrade& upgrade) {
  const bool broadcast = upgrade.take_or<std::int64_t>("broadcast", 0) != 0;
  const auto given = upgrade.take<std::int64_t>("axis");
  if (!broadcast || !given) return;
  const std::int64_t rank = upgrade.known_rank(0), other = upgrade.known_rank(1);
  const std::int64_t axis = *given < 0 ? *given + rank : *given;
  require(axis >= 0 && axis + other <= rank, ErrorKind::invalid_model,
          "axis {} aligns an operand of rank {} with one of rank {}", *given, other, rank);
  if (other > 0 && axis + other < rank)
    upgrade.set_input(1, append_ones(upgrade, upgrade.node.inputs[1], other, rank - axis - other));
}

// Broadcasting of C needed an attribute.
void gemm_7(Upgrade& upgrade) {
  upgrade.take<std::int64_t>("broadcast");
}

// A slope of shape (C) stood at axis 1.
void p_relu_7(Upgrade& upgrade) {
  const std::int64_t rank = upgrade.known_rank(0), slope = upgrade.known_rank(1);
  if (slope == 1 && rank > 2) upgrade.set_input(1, append_ones(upgrade, upgrade.node.inputs[1], slope, rank - 2));
}

}  // namespace tessera::io
