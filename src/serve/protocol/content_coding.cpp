#include "serve/protocol/content_coding.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/text.h"
#include "serve/protocol/failure.h"

namespace tessera::serve {
namespace {

// zlib's numbers: 15 is the largest window, 16 added means gzip, 32 added means either of gzip and zlib.
constexpr int kWindow = 15, kGzip = 16, kEither = 32;
constexpr std::size_t kBlockBytes = 64 * 1024;

class Inflation {
 public:
  Inflation() {
    if (inflateInit2(&stream_, kWindow + kEither) != Z_OK) throw std::bad_alloc();
  }
  ~Inflation() { inflateEnd(&stream_); }
  Inflation(const Inflation&) = delete;
  Inflation& operator=(const Inflation&) = delete;
  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
};

// The length of what a gzip file holds, by its last four bytes (RFC 1952, 2.3.1), or 0. Where it is wrong, zlib calls
// the file malformed at its end.
std::size_t stated_bytes(std::string_view body) {
  if (body.size() < 18 || !body.starts_with("\x1f\x8b")) return 0;
  std::size_t size = 0;
  for (std::size_t i = 0; i < 4; ++i)
    size |= static_cast<std::size_t>(static_cast<unsigned char>(body[body.size() - 4 + i])) << (8 * i);
  return size;
}

Bytef* bytes_of(std::string_view text) {
  return reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
}

}  // namespace

std::string decode_content(std::string_view coding, std::string_view body, std::int64_t max_bytes,
                           const std::function<bool(std::int64_t)>& take) {
  const auto claim = [&](std::size_t bytes) {
    if (take && !take(static_cast<std::int64_t>(bytes)))
      throw Failure(Reason::exhausted, "the server holds too many bodies and answers", 1);
  };
  if (coding == "identity" || coding.empty()) {
    claim(body.size());
    return std::string(body);
  }
  if (coding != "gzip" && coding != "deflate")
    throw Failure(Reason::unsupported, fmt::format("the content coding '{}' is not supported, expected gzip or deflate",
                                                   base::shown(coding)));
  Inflation inflation;
  z_stream& stream = inflation.stream();
  // What is stated is claimed before the work: of several bodies for which there is not room together, the first ones
  // are decompressed whole, where claims that grow step by step could end with every one of them refused.
  std::size_t claimed = std::min(stated_bytes(body), static_cast<std::size_t>(max_bytes));
  claim(claimed);
  std::string plain;
  plain.reserve(claimed);
  std::array<char, kBlockBytes> block;
  stream.next_in = bytes_of(body);
  stream.avail_in = static_cast<uInt>(std::min<std::size_t>(body.size(), std::numeric_limits<uInt>::max()));
  int state = Z_OK;
  while (state != Z_STREAM_END) {
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = static_cast<uInt>(block.size());
    state = inflate(&stream, Z_NO_FLUSH);
    const std::size_t made = block.size() - stream.avail_out;
    if ((state != Z_OK && state != Z_STREAM_END) || (state == Z_OK && made == 0 && stream.avail_in == 0))
      throw Failure(Reason::bad_request, "the compressed body is malformed or cut off");
    if (static_cast<std::int64_t>(plain.size() + made) > max_bytes)
      throw Failure(Reason::too_large, fmt::format("the body is larger than {} bytes when decompressed", max_bytes));
    plain.append(block.data(), made);
    if (plain.size() <= claimed) continue;
    claim(plain.size() - claimed);
    claimed = plain.size();
  }
  if (stream.avail_in != 0) throw Failure(Reason::bad_request, "bytes follow the compressed body");
  return plain;
}

std::string encode_content(std::string_view coding, std::string_view body) {
  z_stream stream{};
  const int window = coding == "gzip" ? kWindow + kGzip : kWindow;
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::bad_alloc();
  std::string coded(deflateBound(&stream, body.size()), '\0');
  stream.next_in = bytes_of(body);
  stream.avail_in = static_cast<uInt>(body.size());
  stream.next_out = reinterpret_cast<Bytef*>(coded.data());
  stream.avail_out = static_cast<uInt>(coded.size());
  const int state = deflate(&stream, Z_FINISH);
  coded.resize(stream.total_out);
  deflateEnd(&stream);
  if (state != Z_STREAM_END) throw Failure(Reason::internal, "the answer could not be compressed");
  return coded;
}

}  // namespace tessera::serve
