#include "io/onnx/downgrade/operator_history.h"

#include <algorithm>

namespace tessera::io {
namespace {

using enum DType;
using Kind = ir::ValueType::Kind;

constexpr HistoryEntry kHistory[] = {
#include "io/onnx/downgrade/operator_history.inc"
};

static_assert(std::ranges::is_sorted(kHistory, {}, &HistoryEntry::op));

}  // namespace

std::span<const HistoryEntry> history_of(std::string_view op) {
  const auto found = std::ranges::equal_range(kHistory, op, {}, &HistoryEntry::op);
  return {found.begin(), found.end()};
}

}  // namespace tessera::io
