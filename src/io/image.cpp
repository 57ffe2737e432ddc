#include "io/image.h"

#include <atomic>

#include "base/error.h"
#include "io/file.h"

namespace tessera {
namespace {

constexpr std::int64_t kMaxImageFileBytes = std::int64_t{1} << 30;

std::atomic<ImageDecoder> process_decoder = nullptr;

}  // namespace

void set_image_decoder(ImageDecoder decoder) {
  process_decoder.store(decoder, std::memory_order_release);
}

namespace io {

ImageDecoder image_decoder() {
  const ImageDecoder decoder = process_decoder.load(std::memory_order_acquire);
  require(decoder != nullptr, ErrorKind::unsupported,
          "pictures need image codecs, which this program has not registered: link tessera::images and call "
          "tessera::register_image_codecs(), or tessera_register_image_codecs() from C");
  return decoder;
}

Tensor read_image_bytes(std::span<const std::byte> bytes, const ImageOptions& options) {
  return image_decoder()(bytes, options);
}

Tensor read_image(const std::filesystem::path& path, const ImageOptions& options) {
  const ImageDecoder decoder = image_decoder();
  const std::vector<std::byte> bytes = read_file(path, kMaxImageFileBytes);
  try {
    return decoder(bytes, options);
  } catch (Error& error) {
    error.add_context(fmt::format("file {}", path.string()));
    throw;
  }
}

}  // namespace io
}  // namespace tessera
