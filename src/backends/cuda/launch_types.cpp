#include "backends/cuda/launch_types.h"

#include "backends/cuda/kernel_images.h"
#include "base/error.h"

namespace tessera::backends::cuda {

std::string_view suffix_of(DType type) {
  switch (type) {
    case DType::f32:
      return "f32";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    default:
      return "";
  }
}

std::optional<tessera::cuda::StoredType> element_type_of(DType type) {
  using tessera::cuda::StoredType;
  switch (type) {
    case DType::f32:
      return StoredType::f32;
    case DType::f16:
      return StoredType::f16;
    case DType::bf16:
      return StoredType::bf16;
    case DType::f64:
      return StoredType::f64;
    case DType::i8:
      return StoredType::i8;
    case DType::u8:
      return StoredType::u8;
    case DType::i16:
      return StoredType::i16;
    case DType::u16:
      return StoredType::u16;
    case DType::i32:
      return StoredType::i32;
    case DType::u32:
      return StoredType::u32;
    case DType::i64:
      return StoredType::i64;
    case DType::u64:
      return StoredType::u64;
    case DType::boolean:
      return StoredType::boolean;
    default:
      return std::nullopt;
  }
}

unsigned blocks_of(std::int64_t count, std::int64_t unit) {
  return static_cast<unsigned>((count + unit - 1) / unit);
}

std::string reason_without_image(std::string_view kernel, const DeviceProperties& device) {
  const ComputeCapability capability = device.compute_capability;
  if (choose_image(tessera::cuda::kernel_images(), kernel, capability.major * 10 + capability.minor) != nullptr)
    return "";
  return fmt::format("the program holds no device code of '{}' for {}", kernel, device.instruction_set);
}

CudaStream& stream_of(const KernelContext& context) {
  auto* const stream = dynamic_cast<CudaStream*>(context.stream());
  require(stream != nullptr, ErrorKind::invalid_argument, "a kernel of a GPU runs on a stream of a GPU alone");
  return *stream;
}

}  // namespace tessera::backends::cuda
