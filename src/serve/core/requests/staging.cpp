#include "serve/core/requests/staging.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>

#include "base/error.h"

namespace tessera::serve {
namespace {

// What is smaller is copied faster than two threads agree on a place.
constexpr std::int64_t kLeastRowBytes = 8 << 10;
constexpr std::int64_t kMostBufferBytes = std::int64_t{256} << 20;
// Kernels want of their inputs what rows behind the first have only if their size is a multiple of it.
constexpr std::int64_t kRowAlignment = 64;

bool can_be_staged(const QueuedCall& queued, std::int64_t most_rows) {
  std::int64_t row_bytes = 0;
  for (const auto& [name, value] : queued.inputs) {
    const Tensor& tensor = value.tensor();
    if (tensor.dtype() == DType::string || tensor.bytes() % (queued.rows * kRowAlignment) != 0) return false;
    row_bytes += tensor.bytes() / queued.rows;
  }
  return queued.rows < most_rows && row_bytes >= kLeastRowBytes && row_bytes <= kMostBufferBytes / most_rows;
}

struct StagedRun {
  std::size_t begin = 0, count = 0;
  std::int64_t rows = 0;
};

// The most rows of sorted requests that lie one behind the other.
StagedRun longest_run(std::span<const QueuedCall> batch) {
  StagedRun longest, current;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (batch[i].staging == nullptr) continue;
    const bool follows = current.count > 0 && batch[i].staging == batch[i - 1].staging &&
                         batch[i].first_row == batch[i - 1].first_row + batch[i - 1].rows;
    if (!follows) current = {i, 0, 0};
    ++current.count;
    current.rows += batch[i].rows;
    if (current.rows > longest.rows) longest = current;
  }
  return longest;
}

}  // namespace

StagingBuffer::StagingBuffer(const QueuedCall& like, std::int64_t most_rows) : kind_(like.kind), most_rows_(most_rows) {
  for (const auto& [name, value] : like.inputs) {
    Shape shape = value.tensor().shape();
    shape[0] = most_rows;
    memory_.emplace(name, Tensor(value.tensor().dtype(), shape));
  }
}

NamedValues StagingBuffer::view(const std::shared_ptr<StagingBuffer>& self, std::int64_t first, std::int64_t rows) {
  NamedValues views;
  for (auto& [name, tensor] : memory_) {
    Shape shape = tensor.shape();
    shape[0] = rows;
    auto* const bytes = static_cast<std::byte*>(tensor.mutable_raw());
    views.emplace(name, Tensor(tensor.dtype(), shape, bytes + first * (tensor.bytes() / most_rows_), self));
  }
  return views;
}

void StagingBuffer::write(const NamedValues& inputs, std::int64_t first) {
  for (auto& [name, tensor] : memory_) {
    const Tensor& part = inputs.find(name)->second.tensor();
    auto* const bytes = static_cast<std::byte*>(tensor.mutable_raw());
    std::memcpy(bytes + first * (tensor.bytes() / most_rows_), part.raw(), static_cast<std::size_t>(part.bytes()));
  }
}

std::shared_ptr<StagingBuffer> StagingPool::free_buffer(const QueuedCall& queued) {
  const auto is_free = [](const std::shared_ptr<StagingBuffer>& buffer) { return buffer.use_count() == 1; };
  auto found = std::ranges::find_if(buffers_, [&](const std::shared_ptr<StagingBuffer>& buffer) {
    return is_free(buffer) && buffer->kind() == queued.kind;
  });
  if (found != buffers_.end()) {
    // Whoever let go of it last may have been another thread, which had read it until then.
    std::atomic_thread_fence(std::memory_order_acquire);
    (*found)->clear();
    return *found;
  }
  if (buffers_.size() >= most_buffers_) {
    found = std::ranges::find_if(buffers_, is_free);
    if (found == buffers_.end()) return nullptr;
    buffers_.erase(found);
  }
  try {
    buffers_.push_back(std::make_shared<StagingBuffer>(queued, most_rows_));
  } catch (const Error&) {
    return nullptr;  // the memory for the batch itself may still be had when others are done
  }
  return buffers_.back();
}

bool StagingPool::reserve(QueuedCall& queued) {
  if (!can_be_staged(queued, most_rows_)) return false;
  if (open_ && open_->kind() != queued.kind) return false;
  if (open_ && open_->left() < queued.rows) open_.reset();
  if (!open_) open_ = free_buffer(queued);
  if (!open_) return false;
  queued.first_row = open_->take(queued.rows);
  queued.staging = open_;
  return true;
}

void StagingPool::close(std::span<const QueuedCall> batch) {
  if (open_ && std::ranges::find(batch, open_, &QueuedCall::staging) != batch.end()) open_.reset();
}

void StagingPool::release() {
  open_.reset();
  buffers_.clear();
}

void write_to_place(QueuedCall& queued) {
  queued.staging->write(queued.inputs, queued.first_row);
  queued.inputs = queued.staging->view(queued.staging, queued.first_row, queued.rows);
}

NamedValues staged_inputs(std::span<QueuedCall> batch) {
  std::int64_t rows = 0;
  for (const QueuedCall& queued : batch) rows += queued.rows;
  std::ranges::stable_sort(batch, [](const QueuedCall& a, const QueuedCall& b) {
    if (a.staging != b.staging) return std::less<>()(a.staging.get(), b.staging.get());
    return a.staging != nullptr && a.first_row < b.first_row;
  });
  const StagedRun run = longest_run(batch);
  if (run.count == 0) return {};
  const auto begin = batch.begin() + static_cast<std::ptrdiff_t>(run.begin);
  std::rotate(batch.begin(), begin, begin + static_cast<std::ptrdiff_t>(run.count));
  const std::shared_ptr<StagingBuffer> buffer = batch.front().staging;
  const std::int64_t first = batch.front().first_row;
  // Behind the run there must be nobody's rows.
  if (run.rows < rows && (buffer->used() != first + run.rows || buffer->left() < rows - run.rows)) return {};
  for (QueuedCall& queued : batch.subspan(run.count)) buffer->write(queued.inputs, buffer->take(queued.rows));
  return buffer->view(buffer, first, rows);
}

}  // namespace tessera::serve
