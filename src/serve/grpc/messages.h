// The bytes of gRPC's messages, which may be compressed on the way.
#pragma once

#include <grpc/impl/codegen/compression_types.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "serve/protocol/failure.h"

namespace google::protobuf {
class MessageLite;
}

namespace tessera::serve {

// A message that has come. Decompressing is a step of its own, so that another thread may do it.
class ReceivedMessage {
 public:
  // Where gRPC puts the message; the read must have ended before anything else is called.
  grpc::ByteBuffer& buffer() { return buffer_; }
  std::int64_t bytes() const { return static_cast<std::int64_t>(buffer_.Length()); }
  grpc_compression_algorithm compression() const;

  // Throws Failure as decode_content does.
  void decompress(std::int64_t most_bytes, const std::function<bool(std::int64_t)>& take);
  // Frees the bytes. Throws Failure(bad_request).
  void parse(google::protobuf::MessageLite& message);

 private:
  grpc::ByteBuffer buffer_;
};

// The message for gRPC, without a copy.
grpc::ByteBuffer to_buffer(std::string bytes);
// Compresses the message if that makes it smaller. `algorithm` is gzip, deflate or none.
grpc::ByteBuffer to_compressed_buffer(std::string bytes, grpc_compression_algorithm algorithm);

// Whether it is worth the time to compress an answer of so many bytes.
bool pays_to_compress(std::int64_t bytes);

}  // namespace tessera::serve
