#include <algorithm>

#include "backends/backend.h"
#include "backends/transient_memory.h"
#include "io/image.h"
#include "tessera/error.h"

namespace tessera::backends::reference {
namespace {

Tensor decode(const Tensor& stream, int channels) {
  const ImageDecoder decoder = io::image_decoder();  // Throws in a program without decoders, for any input.
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(stream.raw()),
                                         static_cast<std::size_t>(stream.bytes()));
  try {
    return decoder(bytes, {.channels = channels, .reserve = TransientMemory::take});
  } catch (const Error& error) {
    // ONNX: "If it can't decode for any reason … it will return an empty matrix."
    if (error.kind() != ErrorKind::invalid_argument && error.kind() != ErrorKind::unsupported) throw;
    return Tensor(DType::u8, {0, 0, channels});
  }
}

}  // namespace

void image_decoder(KernelContext& context) {
  const std::string& format = context.text("pixel_format");
  const Tensor pixels = decode(context.input(0), format == "Grayscale" ? 1 : 3);
  Tensor& output = context.allocate_output(0, pixels.shape());
  std::copy_n(pixels.data<std::uint8_t>(), pixels.elements(), output.mutable_data<std::uint8_t>());
  if (format != "BGR") return;
  std::uint8_t* pixel = output.mutable_data<std::uint8_t>();
  for (std::int64_t i = 0; i < output.elements(); i += 3) std::swap(pixel[i], pixel[i + 2]);
}

}  // namespace tessera::backends::reference
