// Launches of kernels in the emulation.
#pragma once

#include <array>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "emulation/block.h"

namespace tessera::emulation {

// Runs `body` once per thread of the grid, block after block, in an order that the seed shuffles. Throws KernelFault.
void run_grid(const LaunchOptions& options, const std::function<void()>& body);

// launch(options, kernel, arguments…): as kernel<<<…>>>(arguments…), but it returns when the kernel has ended.
template <class... Parameters, class... Arguments>
void launch(const LaunchOptions& options, void (*kernel)(Parameters...), const Arguments&... arguments) {
  const std::tuple<std::remove_cv_t<Parameters>...> values(arguments...);
  run_grid(options, [&] { std::apply(kernel, values); });
}

// A kernel whose arguments come as pointers, as the driver's launch takes them.
using PackedKernel = void (*)(void** arguments);

struct ParameterLayout {
  std::size_t bytes, alignment;
};

template <auto kKernel>
struct Packed;
template <class... Parameters, void (*kKernel)(Parameters...)>
struct Packed<kKernel> {
  static constexpr std::array<ParameterLayout, sizeof...(Parameters)> kParameters = {
      ParameterLayout{sizeof(Parameters), alignof(Parameters)}...};
  static void call(void** arguments) { unpack(arguments, std::index_sequence_for<Parameters...>()); }

 private:
  template <std::size_t... kIndex>
  static void unpack(void** arguments, std::index_sequence<kIndex...>) {
    kKernel(*static_cast<std::remove_cv_t<Parameters>*>(arguments[kIndex])...);
  }
};

}  // namespace tessera::emulation
