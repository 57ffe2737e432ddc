// Comparisons, which give bools, and logic on bools.
#include <functional>

#include "backends/cpu/kernels/element_wise_binary.h"
#include "backends/cpu/kernels/kernels.h"

namespace tessera::backends::cpu {
namespace {

template <typename F, typename T, bool x_moves, bool y_moves>
void line(const void* x_data, const void* y_data, void* z_data, std::int64_t count) {
  const auto *x = static_cast<const T*>(x_data), *y = static_cast<const T*>(y_data);
  auto* z = static_cast<bool*>(z_data);
  for (std::int64_t i = 0; i < count; ++i) z[i] = F()(x[x_moves ? i : 0], y[y_moves ? i : 0]);
}

template <typename F, typename T>
BinaryLine pick(bool x_moves, bool y_moves) {
  if (x_moves && y_moves) return line<F, T, true, true>;
  if (x_moves) return line<F, T, true, false>;
  return y_moves ? line<F, T, false, true> : line<F, T, false, false>;
}

template <typename F>
BinaryLine compare(const ops::NodeView& view, bool x_moves, bool y_moves) {
  switch (view.input(0).dtype) {
    case DType::f32:
      return pick<F, float>(x_moves, y_moves);
    case DType::i32:
      return pick<F, std::int32_t>(x_moves, y_moves);
    case DType::i64:
      return pick<F, std::int64_t>(x_moves, y_moves);
    default:
      return pick<F, bool>(x_moves, y_moves);
  }
}

struct ComparisonName {
  std::string_view op;
  LineChooser choose;
};
constexpr ComparisonName kNames[] = {
    {"Equal", compare<std::equal_to<>>},
    {"Greater", compare<std::greater<>>},
    {"GreaterOrEqual", compare<std::greater_equal<>>},
    {"Less", compare<std::less<>>},
    {"LessOrEqual", compare<std::less_equal<>>},
    {"And", compare<std::logical_and<>>},
    {"Or", compare<std::logical_or<>>},
    {"Xor", compare<std::not_equal_to<>>},
};

}  // namespace

std::string reject_comparison(const ops::NodeView& view) {
  if (view.output(0).dtype == DType::undefined) return "wants known shapes";
  const DType type = view.input(0).dtype;
  const bool fits = type == DType::f32 || type == DType::i32 || type == DType::i64 || type == DType::boolean;
  return fits ? "" : "takes f32, i32, i64 and bool";
}

std::unique_ptr<Kernel> make_comparison(const ops::NodeView& view, WeightStore&) {
  for (const ComparisonName& name : kNames) {
    if (name.op == view.op().name) return std::make_unique<BinaryKernel>(view, name.choose);
  }
  return nullptr;
}

void logical_not(KernelContext& context) {
  const bool* x = context.input(0).data<bool>();
  bool* y = context.output(0).mutable_data<bool>();
  context.parallel_for(context.input(0).elements(), 65536, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y[i] = !x[i];
  });
}

}  // namespace tessera::backends::cpu
