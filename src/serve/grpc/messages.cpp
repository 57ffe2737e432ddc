#include "serve/grpc/messages.h"

#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/message_lite.h>
#include <grpc/byte_buffer.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <utility>

#include "serve/protocol/content_coding.h"

// grpc++ names this class as a friend of its buffers and leaves its definition to those who need what its own interface
// does not show: how the message was, or shall be, compressed.
class grpc::internal::GrpcByteBufferPeer {
 public:
  static grpc_compression_algorithm compression(const grpc::ByteBuffer& buffer) {
    const grpc_byte_buffer* const raw = const_cast<grpc::ByteBuffer&>(buffer).c_buffer();
    return raw == nullptr || raw->type != GRPC_BB_RAW ? GRPC_COMPRESS_NONE : raw->data.raw.compression;
  }
  static void set(grpc::ByteBuffer& buffer, grpc_byte_buffer* raw) {
    buffer.Clear();
    buffer.set_buffer(raw);
  }
};

namespace tessera::serve {
namespace {

using Peer = grpc::internal::GrpcByteBufferPeer;

constexpr std::int64_t kLeastCompressedBytes = 1024;

const char* coding_of(grpc_compression_algorithm algorithm) {
  switch (algorithm) {
    case GRPC_COMPRESS_GZIP:
      return "gzip";
    case GRPC_COMPRESS_DEFLATE:
      return "deflate";
    default:
      return "";
  }
}

grpc::Slice to_slice(std::string bytes) {
  auto* const owner = new std::string(std::move(bytes));  // NOLINT: gRPC frees it
  return grpc::Slice(
      owner->data(), owner->size(), [](void* memory) { delete static_cast<std::string*>(memory); }, owner);
}

}  // namespace

grpc_compression_algorithm ReceivedMessage::compression() const {
  return Peer::compression(buffer_);
}

void ReceivedMessage::decompress(std::int64_t most_bytes, const std::function<bool(std::int64_t)>& take) {
  const std::string coding = coding_of(compression());
  if (coding.empty()) return;
  std::string plain;
  {
    grpc::Slice whole;
    if (!buffer_.TrySingleSlice(&whole).ok() && !buffer_.DumpToSingleSlice(&whole).ok())
      throw Failure(Reason::internal, "the compressed message could not be read");
    plain = decode_content(coding, {reinterpret_cast<const char*>(whole.begin()), whole.size()}, most_bytes, take);
  }
  buffer_ = to_buffer(std::move(plain));
}

void ReceivedMessage::parse(google::protobuf::MessageLite& message) {
  bool is_parsed = false;
  if (buffer_.Valid()) {
    grpc::ProtoBufferReader reader(&buffer_);
    is_parsed = message.ParseFromZeroCopyStream(&reader);
  }
  buffer_.Clear();
  if (!is_parsed)
    throw Failure(Reason::bad_request, "the message is malformed: it is no " + std::string(message.GetTypeName()));
}

grpc::ByteBuffer to_buffer(std::string bytes) {
  const grpc::Slice slice = to_slice(std::move(bytes));
  return {&slice, 1};
}

grpc::ByteBuffer to_compressed_buffer(std::string bytes, grpc_compression_algorithm algorithm) {
  const std::string coding = coding_of(algorithm);
  if (coding.empty()) return to_buffer(std::move(bytes));
  std::string packed = encode_content(coding, bytes);
  if (packed.size() >= bytes.size()) return to_buffer(std::move(bytes));
  const grpc::Slice slice = to_slice(std::move(packed));
  grpc_slice raw = slice.c_slice();  // a reference of its own
  grpc::ByteBuffer buffer;
  Peer::set(buffer, grpc_raw_compressed_byte_buffer_create(&raw, 1, algorithm));
  grpc_slice_unref(raw);
  return buffer;
}

bool pays_to_compress(std::int64_t bytes) {
  return bytes >= kLeastCompressedBytes;
}

}  // namespace tessera::serve
