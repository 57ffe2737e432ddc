#include "serve/protocol/datatype.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tessera::serve {
namespace {

constexpr std::array<std::pair<DType, std::string_view>, 14> kNames{{{DType::boolean, "BOOL"},
                                                                     {DType::u8, "UINT8"},
                                                                     {DType::u16, "UINT16"},
                                                                     {DType::u32, "UINT32"},
                                                                     {DType::u64, "UINT64"},
                                                                     {DType::i8, "INT8"},
                                                                     {DType::i16, "INT16"},
                                                                     {DType::i32, "INT32"},
                                                                     {DType::i64, "INT64"},
                                                                     {DType::f16, "FP16"},
                                                                     {DType::f32, "FP32"},
                                                                     {DType::f64, "FP64"},
                                                                     {DType::bf16, "BF16"},
                                                                     {DType::string, "BYTES"}}};

}  // namespace

std::string_view datatype_name(DType type) {
  const auto found = std::ranges::find(kNames, type, &std::pair<DType, std::string_view>::first);
  return found != kNames.end() ? found->second : std::string_view{};
}

std::optional<DType> datatype_from_name(std::string_view name) {
  const auto found = std::ranges::find(kNames, name, &std::pair<DType, std::string_view>::second);
  if (found == kNames.end()) return std::nullopt;
  return found->first;
}

}  // namespace tessera::serve
