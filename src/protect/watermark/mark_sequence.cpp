#include "protect/watermark/mark_sequence.h"

#include <sodium.h>

#include <array>

#include "io/package/byte_stream.h"

namespace tessera::protect {

std::vector<std::int8_t> mark_sequence(const Secret& key, std::string_view identity, const Shape& shape) {
  io::ByteWriter message;
  message.text("tessera watermark");
  message.text(identity);
  message.u32(static_cast<std::uint32_t>(shape.size()));
  for (const std::int64_t size : shape) message.u64(static_cast<std::uint64_t>(size));
  const std::vector<std::byte> bytes = message.take();
  Secret stream_key(crypto_stream_chacha20_KEYBYTES);
  crypto_generichash(stream_key.data(), stream_key.size(), reinterpret_cast<const std::uint8_t*>(bytes.data()),
                     bytes.size(), key.data(), key.size());
  const auto count = static_cast<std::size_t>(element_count(shape));
  std::vector<std::uint8_t> bits((count + 7) / 8);
  const std::array<std::uint8_t, crypto_stream_chacha20_NONCEBYTES> nonce{};  // the key serves this shape alone
  crypto_stream_chacha20(bits.data(), bits.size(), nonce.data(), stream_key.data());
  std::vector<std::int8_t> signs(count);
  for (std::size_t i = 0; i < count; ++i) signs[i] = (bits[i / 8] >> (i % 8) & 1) != 0 ? 1 : -1;
  return signs;
}

}  // namespace tessera::protect
