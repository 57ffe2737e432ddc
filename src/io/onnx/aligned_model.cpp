#include "io/onnx/aligned_model.h"

#include <algorithm>
#include <limits>

#include "base/assert.h"
#include "base/error.h"
#include "io/onnx/exporter.h"

namespace tessera::io {
namespace {

using tessera_onnx::GraphProto;
using tessera_onnx::TensorProto;

constexpr std::int64_t kAlignment = 64;
// Smaller tensors are not worth the padding: readers copy them.
constexpr std::int64_t kLeastAligned = 1024;

// Tags of length-delimited fields: (number << 3) | 2, in one byte each.
constexpr char kModelGraphTag = 7 << 3 | 2, kGraphInitializerTag = 5 << 3 | 2, kTensorRawDataTag = 9 << 3 | 2,
               kTensorDocStringTag = 12 << 3 | 2;

std::int64_t varint_bytes(std::int64_t value) {
  std::int64_t bytes = 1;
  for (; value >= 0x80; value >>= 7) ++bytes;
  return bytes;
}

std::string header(char tag, std::int64_t length) {
  std::string text(1, tag);
  for (; length >= 0x80; length >>= 7) text.push_back(static_cast<char>((length & 0x7F) | 0x80));
  text.push_back(static_cast<char>(length));
  return text;
}

std::int64_t size_of(const std::string& text) {
  return static_cast<std::int64_t>(text.size());
}
// Bytes of the tag and length that precede the data in protobuf's encoding.
std::int64_t header_bytes(std::span<const std::byte> data) {
  return 1 + varint_bytes(static_cast<std::int64_t>(data.size()));
}

std::string serialised(const google::protobuf::MessageLite& message) {
  std::string text;
  require(message.SerializeToString(&text), ErrorKind::io, "the model cannot be encoded");
  return text;
}

}  // namespace

void AlignedModel::store(const Tensor& tensor, TensorProto& proto) {
  if (tensor.dtype() == DType::string || tensor.bytes() < kLeastAligned) return store_inside(tensor, proto);
  kept_out_[&proto] = {static_cast<const std::byte*>(tensor.raw()), static_cast<std::size_t>(tensor.bytes())};
}

std::int64_t AlignedModel::Initializer::bytes() const {
  const std::int64_t own = size_of(message);
  return data.empty() ? own : own + 2 + padding + header_bytes(data) + static_cast<std::int64_t>(data.size());
}

std::vector<AlignedModel::Initializer> AlignedModel::take_initializers(GraphProto& graph) {
  std::map<const TensorProto*, std::span<const std::byte>> data;
  for (TensorProto& tensor : *graph.mutable_initializer()) {
    if (const auto kept = kept_out_.extract(&tensor); !kept.empty()) data[&tensor] = kept.mapped();
  }
  // Initializers of attributes and subgraphs are nested more deeply; their data stay in the message.
  for (const auto& [tensor, bytes] : kept_out_) tensor->set_raw_data(bytes.data(), bytes.size());
  kept_out_.clear();
  std::vector<Initializer> initializers;
  for (const TensorProto& tensor : graph.initializer()) initializers.push_back({serialised(tensor), data[&tensor]});
  graph.clear_initializer();
  return initializers;
}

namespace {

// Chooses the padding of every initializer, the first of which begins at `position` of the file; returns where the last
// one ends. A length that is written before the data moves them: both fit together for one of the few sizes that it can
// have.
template <typename Initializers>
std::int64_t lay_out(Initializers& initializers, std::int64_t position) {
  for (auto& each : initializers) {
    for (std::int64_t length_bytes = 1;; ++length_bytes) {
      const std::int64_t begin = position + 1 + length_bytes;
      if (!each.data.empty()) {
        const std::int64_t data_at = begin + size_of(each.message) + 2 + header_bytes(each.data);
        each.padding = (kAlignment - data_at % kAlignment) % kAlignment;
      }
      const std::int64_t needed = varint_bytes(each.bytes());
      if (needed > length_bytes) continue;
      // A longer length field reduced the padding, and thereby the length, a little.
      if (needed < length_bytes) each.padding += kAlignment;
      position = begin + each.bytes();
      break;
    }
  }
  return position;
}

// Adds padding of a whole alignment, in a second doc_string: of a repeated field the last one counts.
template <typename Initializers>
void lengthen(Initializers& initializers) {
  const auto first = std::ranges::find_if(initializers, [](const auto& each) { return !each.data.empty(); });
  TESSERA_ASSERT(first != initializers.end(), "only padding depends on the bytes of a length");
  first->message += header(kTensorDocStringTag, kAlignment - 2) + std::string(kAlignment - 2, ' ');
}

}  // namespace

void AlignedModel::encode(tessera_onnx::ModelProto model) {
  std::vector<Initializer> initializers = take_initializers(*model.mutable_graph());
  const std::string graph = serialised(model.graph());
  model.clear_graph();
  const std::string rest = serialised(model);
  std::int64_t graph_bytes = 0;
  for (std::int64_t length_bytes = 1;;) {
    const std::int64_t begin = size_of(rest) + 1 + length_bytes;
    graph_bytes = lay_out(initializers, begin + size_of(graph)) - begin;
    const std::int64_t needed = varint_bytes(graph_bytes);
    if (needed == length_bytes) break;
    if (needed > length_bytes) ++length_bytes;
    else lengthen(initializers);
  }
  put(rest + header(kModelGraphTag, graph_bytes) + graph);
  for (const Initializer& initializer : initializers) put(initializer);
  require(bytes_ < std::numeric_limits<std::int32_t>::max(), ErrorKind::over_budget,
          "the model has {} bytes; one file holds less than 2 GiB, so write its constants as external data", bytes_);
}

void AlignedModel::put(const Initializer& initializer) {
  std::string head = header(kGraphInitializerTag, initializer.bytes()) + initializer.message;
  if (initializer.data.empty()) return put(std::move(head));
  head += header(kTensorDocStringTag, initializer.padding) +
          std::string(static_cast<std::size_t>(initializer.padding), ' ');
  put(head + header(kTensorRawDataTag, static_cast<std::int64_t>(initializer.data.size())));
  TESSERA_ASSERT(bytes_ % kAlignment == 0, "data of an initializer are not aligned");
  pieces_.push_back(initializer.data);
  bytes_ += static_cast<std::int64_t>(initializer.data.size());
}

void AlignedModel::put(std::string bytes) {
  texts_.push_back(std::move(bytes));
  pieces_.push_back(std::as_bytes(std::span(texts_.back())));
  bytes_ += size_of(texts_.back());
}

}  // namespace tessera::io
