#include "backends/device_properties.h"

#include <array>
#include <string_view>
#include <utility>

namespace tessera::backends {

std::string names_of(const NativeProducts& products) {
  const std::array<std::pair<bool, std::string_view>, 8> formats{{{products.f64, "f64"},
                                                                  {products.f32, "f32"},
                                                                  {products.tf32, "tf32"},
                                                                  {products.f16, "f16"},
                                                                  {products.bf16, "bf16"},
                                                                  {products.f8, "f8"},
                                                                  {products.int8, "int8"},
                                                                  {products.int4, "int4"}}};
  std::string text;
  for (const auto& [has, name] : formats) {
    if (has) text.append(text.empty() ? "" : ", ").append(name);
  }
  return text.empty() ? "none" : text;
}

}  // namespace tessera::backends
