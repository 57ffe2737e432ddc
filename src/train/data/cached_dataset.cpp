#include "train/data/cached_dataset.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/error.h"
#include "base/numbers/checked.h"
#include "io/output_file.h"

namespace tessera::train {
namespace {

// The fields of a sample are stored contiguously, in their order.
class CachedDataset : public Dataset {
 public:
  explicit CachedDataset(std::shared_ptr<const Dataset> data)
      : data_(std::move(data)), kept_(static_cast<std::size_t>(data_->size())) {
    for (const Field& field : data_->fields()) sample_bytes_ += field.bytes();
  }
  const std::vector<Field>& fields() const override { return data_->fields(); }
  std::int64_t size() const override { return data_->size(); }
  std::string describe(std::int64_t index) const override { return data_->describe(index); }
  std::vector<std::string> class_names() const override { return data_->class_names(); }
  void read_field(std::int64_t index, std::size_t field, std::byte* to) const override {
    data_->read_field(index, field, to);
  }
  std::vector<std::pair<std::int64_t, std::string>> unreadable() const override { return data_->unreadable(); }

 protected:
  const Dataset& data() const { return *data_; }
  std::int64_t sample_bytes() const { return sample_bytes_; }
  bool is_kept(std::int64_t index) const {
    return kept_[static_cast<std::size_t>(index)].load(std::memory_order_acquire);
  }
  void set_kept(std::int64_t index) const {
    kept_[static_cast<std::size_t>(index)].store(true, std::memory_order_release);
  }
  std::vector<std::byte> gathered(std::span<std::byte* const> fields) const {
    std::vector<std::byte> sample;
    sample.reserve(static_cast<std::size_t>(sample_bytes_));
    for (std::size_t i = 0; i < fields.size(); ++i)
      sample.insert(sample.end(), fields[i], fields[i] + data_->fields()[i].bytes());
    return sample;
  }
  void scatter(const std::byte* sample, std::span<std::byte* const> to) const {
    for (std::size_t i = 0; i < to.size(); ++i) {
      const std::int64_t bytes = data_->fields()[i].bytes();
      if (bytes > 0) std::memcpy(to[i], sample, static_cast<std::size_t>(bytes));
      sample += bytes;
    }
  }

 private:
  std::shared_ptr<const Dataset> data_;
  std::int64_t sample_bytes_ = 0;
  mutable std::vector<std::atomic<bool>> kept_;
};

class MemoryCache final : public CachedDataset {
 public:
  MemoryCache(std::shared_ptr<const Dataset> data, std::int64_t max_bytes)
      : CachedDataset(std::move(data)), max_bytes_(max_bytes), samples_(static_cast<std::size_t>(size())) {}

  void read(std::int64_t index, std::span<std::byte* const> to) const override {
    auto& slot = samples_[static_cast<std::size_t>(index)];
    if (is_kept(index)) return scatter(slot.load(std::memory_order_acquire)->data(), to);
    data().read(index, to);
    if (bytes_.fetch_add(sample_bytes(), std::memory_order_relaxed) + sample_bytes() > max_bytes_) {
      bytes_.fetch_sub(sample_bytes(), std::memory_order_relaxed);
      return;
    }
    auto made = std::make_unique<const std::vector<std::byte>>(gathered(to));
    const std::vector<std::byte>* none = nullptr;
    // If two threads read the same sample at once, the first one stores it.
    if (slot.compare_exchange_strong(none, made.get(), std::memory_order_acq_rel)) {
      made.release();
      set_kept(index);
    } else {
      bytes_.fetch_sub(sample_bytes(), std::memory_order_relaxed);
    }
  }

  std::int64_t memory_bytes() const override { return data().memory_bytes() + bytes_.load(std::memory_order_relaxed); }

  ~MemoryCache() override {
    for (auto& slot : samples_) delete slot.load(std::memory_order_relaxed);
  }

 private:
  std::int64_t max_bytes_;
  mutable std::atomic<std::int64_t> bytes_{0};
  mutable std::vector<std::atomic<const std::vector<std::byte>*>> samples_;
};

class DiskCache final : public CachedDataset {
 public:
  DiskCache(std::shared_ptr<const Dataset> data, const std::filesystem::path& folder)
      : CachedDataset(std::move(data)), file_(folder, io::TemporaryFile::Name::none_if_possible) {
    const std::int64_t bytes = base::checked_multiply(std::max<std::int64_t>(sample_bytes(), 1), size());
    const int error = posix_fallocate(file_.descriptor(), 0, bytes);
    require(error == 0, ErrorKind::io, "the cache of the data needs {} bytes in '{}': {}", bytes, folder.string(),
            std::generic_category().message(error));
  }

  void read(std::int64_t index, std::span<std::byte* const> to) const override {
    if (is_kept(index)) {
      std::vector<std::byte> sample(static_cast<std::size_t>(sample_bytes()));
      transfer(index, [&](std::int64_t done, std::int64_t at) {
        return pread(file_.descriptor(), sample.data() + done, sample.size() - static_cast<std::size_t>(done), at);
      });
      return scatter(sample.data(), to);
    }
    data().read(index, to);
    const std::vector<std::byte> sample = gathered(to);
    transfer(index, [&](std::int64_t done, std::int64_t at) {
      return pwrite(file_.descriptor(), sample.data() + done, sample.size() - static_cast<std::size_t>(done), at);
    });
    set_kept(index);
  }

  std::int64_t memory_bytes() const override { return data().memory_bytes(); }

 private:
  // Calls step(bytes done, offset in the file) until a whole sample was transferred.
  template <typename Step>
  void transfer(std::int64_t index, Step step) const {
    std::int64_t done = 0;
    while (done < sample_bytes()) {
      const auto moved = step(done, index * sample_bytes() + done);
      if (moved < 0 && errno == EINTR) continue;
      require(moved > 0, ErrorKind::io, "the cache of the data cannot be used: {}",
              moved == 0 ? std::string("it ends early") : std::generic_category().message(errno));
      done += moved;
    }
  }

  io::TemporaryFile file_;
};

}  // namespace

std::shared_ptr<Dataset> cache_in_memory(std::shared_ptr<const Dataset> data, std::int64_t max_bytes) {
  return std::make_shared<MemoryCache>(std::move(data), max_bytes);
}

std::shared_ptr<Dataset> cache_on_disk(std::shared_ptr<const Dataset> data, const std::filesystem::path& folder) {
  try {
    return std::make_shared<DiskCache>(std::move(data), folder);
  } catch (const std::system_error& error) {
    fail(ErrorKind::io, "a cache of the data cannot be made in '{}': {}", folder.string(), error.code().message());
  }
}

}  // namespace tessera::train
