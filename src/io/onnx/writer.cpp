#include "io/onnx/writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <span>

#include "base/checked.h"
#include "io/onnx/aligned_model.h"
#include "io/onnx/exporter.h"

namespace tessera::io {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kAlignment = 4096;

// A file under a temporary name beside its final one; without commit() it vanishes.
class PendingFile {
 public:
  explicit PendingFile(fs::path path)
      : path_(std::move(path)), temporary_(path_.string() + ".tmp" + std::to_string(::getpid())) {
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    require(descriptor_ >= 0, ErrorKind::io, "cannot create '{}': {}", temporary_.string(), std::strerror(errno));
  }
  ~PendingFile() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    ::unlink(temporary_.c_str());
  }
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  std::int64_t size() const { return size_; }

  void append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      require(written >= 0, ErrorKind::io, "cannot write '{}': {}", temporary_.string(), std::strerror(errno));
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      size_ += written;
    }
  }

  void pad_to(std::int64_t multiple) {
    static constexpr std::byte zeros[kAlignment] = {};
    append(std::span(zeros, static_cast<std::size_t>(base::round_up(size_, multiple) - size_)));
  }

  void flush() {
    require(::fsync(descriptor_) == 0, ErrorKind::io, "cannot write '{}': {}", temporary_.string(),
            std::strerror(errno));
  }

  void commit() {
    require(::rename(temporary_.c_str(), path_.c_str()) == 0, ErrorKind::io, "cannot rename '{}' to '{}': {}",
            temporary_.string(), path_.string(), std::strerror(errno));
    ::close(descriptor_);
    descriptor_ = -1;
  }

 private:
  fs::path path_, temporary_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

void store_outside(const Tensor& tensor, PendingFile& file, const std::string& location,
                   tessera_onnx::TensorProto& proto) {
  file.pad_to(kAlignment);
  refer_outside(proto, location, file.size(), tensor.bytes());
  file.append({static_cast<const std::byte*>(tensor.raw()), static_cast<std::size_t>(tensor.bytes())});
}

}  // namespace

std::vector<std::byte> write_model_bytes(const ir::Graph& graph) {
  AlignedModel aligned;
  aligned.encode(Exporter(graph, [&](const Tensor& tensor, tessera_onnx::TensorProto& proto) { aligned.store(tensor, proto); }).run());
  std::vector<std::byte> bytes;
  bytes.reserve(static_cast<std::size_t>(aligned.bytes()));
  for (const std::span<const std::byte> piece : aligned.pieces()) bytes.insert(bytes.end(), piece.begin(), piece.end());
  return bytes;
}

void write_model(const ir::Graph& graph, const fs::path& path, const WriteOptions& options) {
  try {
    const std::string location = path.filename().string() + ".data";
    std::optional<PendingFile> data;
    AlignedModel aligned;
    auto store = [&](const Tensor& tensor, tessera_onnx::TensorProto& proto) {
      const bool outside = options.external_data_threshold && !proto.name().empty() &&
                           tensor.dtype() != DType::string && tensor.bytes() >= *options.external_data_threshold &&
                           tensor.bytes() > 0;
      if (!outside) return aligned.store(tensor, proto);
      if (!data) data.emplace(path.parent_path() / location);
      store_outside(tensor, *data, location, proto);
    };
    PendingFile model(path);
    aligned.encode(Exporter(graph, store).run());
    for (const std::span<const std::byte> piece : aligned.pieces()) model.append(piece);
    model.flush();
    if (data) {
      data->flush();
      data->commit();
    }
    model.commit();
  } catch (Error& error) {
    error.add_context("file " + path.string());
    throw;
  }
}

}  // namespace tessera::io
