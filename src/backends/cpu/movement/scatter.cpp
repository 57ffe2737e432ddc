#include "backends/cpu/movement/scatter.h"

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kBytesAChunk = 256 * 1024;

}  // namespace

std::string reject_unless_joined(const ops::NodeView& view) {
  const DType dtype = view.input(0).dtype;
  if (ops::scatter_reduction(view) != ops::ScatterReduction::none) {
    const bool joins = dtype == DType::f32 || dtype == DType::f64 || dtype == DType::i32 || dtype == DType::i64;
    return joins ? "" : "joins elements of f32, f64, i32 and i64";
  }
  const int bits = bits_of(dtype);
  return bits < 8 || bits > 64 ? "moves elements of 1, 2, 4 or 8 bytes" : "";
}

void copy_data(KernelContext& context) {
  const Tensor& data = context.input(0);
  const auto* from = static_cast<const std::byte*>(data.raw());
  auto* to = static_cast<std::byte*>(context.output(0).mutable_raw());
  if (from == to) return;
  context.parallel_for(data.bytes(), kBytesAChunk, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
  });
}

const void* apart_from_output(KernelContext& context, const Tensor& input, std::vector<std::byte>& kept) {
  if (input.raw() != context.output(0).raw() || input.bytes() == 0) return input.raw();
  const auto* values = static_cast<const std::byte*>(input.raw());
  kept.assign(values, values + input.bytes());
  return kept.data();
}

}  // namespace tessera::backends::cpu
