#include "io/gguf/gguf_tensor_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/error.h"

namespace tessera::io {
namespace {

using base::BlockFormat;

struct TensorType {
  std::uint32_t number;
  std::string_view name;
  std::optional<BlockFormat> format;  // nothing: known by name only
};

constexpr TensorType kTensorTypes[] = {
    {0, "F32", BlockFormat::f32},
    {1, "F16", BlockFormat::f16},
    {2, "Q4_0", BlockFormat::q4_0},
    {3, "Q4_1", BlockFormat::q4_1},
    {6, "Q5_0", BlockFormat::q5_0},
    {7, "Q5_1", BlockFormat::q5_1},
    {8, "Q8_0", BlockFormat::q8_0},
    {9, "Q8_1", {}},
    {10, "Q2_K", BlockFormat::q2_k},
    {11, "Q3_K", BlockFormat::q3_k},
    {12, "Q4_K", BlockFormat::q4_k},
    {13, "Q5_K", BlockFormat::q5_k},
    {14, "Q6_K", BlockFormat::q6_k},
    {15, "Q8_K", {}},
    {16, "IQ2_XXS", {}},
    {17, "IQ2_XS", {}},
    {18, "IQ3_XXS", {}},
    {19, "IQ1_S", {}},
    {20, "IQ4_NL", BlockFormat::iq4_nl},
    {21, "IQ3_S", {}},
    {22, "IQ2_S", {}},
    {23, "IQ4_XS", BlockFormat::iq4_xs},
    {24, "I8", {}},
    {25, "I16", {}},
    {26, "I32", {}},
    {27, "I64", {}},
    {28, "F64", {}},
    {29, "IQ1_M", {}},
    {30, "BF16", BlockFormat::bf16},
    {34, "TQ1_0", {}},
    {35, "TQ2_0", {}},
    {39, "MXFP4", BlockFormat::mxfp4},
    {40, "NVFP4", {}},
    {41, "Q1_0", {}},
    {42, "Q2_0", {}},
};

const TensorType* find_type(std::uint32_t number) {
  const auto* found = std::ranges::find(kTensorTypes, number, &TensorType::number);
  return found == std::end(kTensorTypes) ? nullptr : found;
}

}  // namespace

std::string gguf_type_name(std::uint32_t type) {
  const TensorType* found = find_type(type);
  return found == nullptr ? fmt::format("type {}", type) : std::string(found->name);
}

base::BlockFormat gguf_block_format(std::uint32_t type, std::string_view tensor) {
  const TensorType* found = find_type(type);
  if (found == nullptr || !found->format)
    fail(ErrorKind::unsupported,
         "tensor '{}' is stored as {}, which is not supported; supported are F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, "
         "Q8_0, Q2_K to Q6_K, IQ4_NL, IQ4_XS and MXFP4",
         tensor, gguf_type_name(type));
  return *found->format;
}

}  // namespace tessera::io
