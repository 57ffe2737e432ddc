// Length: one class, whose consumer and workers share the state of the units.
#include "train/data/loader.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/threads/worker_thread.h"
#include "train/data/images/mixup.h"
#include "train/data/sample_reader.h"
#include "train/data/sampler.h"
#include "train/data/tensor_pool.h"

namespace tessera::train {
namespace {

// Keys of random numbers for samples and mixup; the order of epochs uses the seed itself.
constexpr std::uint64_t kSampleKey = 0x9E3779B97F4A7C15, kMixupKey = 0xD1B54A32D192ED03,
                        kReplacementKey = 0x8CB92BA72F3D8DD7;

// A view of the tensor's first rows.
Tensor first_rows(const Tensor& tensor, std::int64_t rows) {
  Shape shape = tensor.shape();
  shape[0] = rows;
  const auto kept = std::make_shared<Tensor>(tensor);
  return Tensor(tensor.dtype(), std::move(shape), kept->mutable_raw(), kept);
}

// The batches that a worker makes at a time: `multiplier` of them, or as many as the epoch has left.
struct Unit {
  std::vector<Batch> batches;
  std::exception_ptr error;
  bool is_ready = false;
};

}  // namespace

class Loader::State {
 public:
  State(std::shared_ptr<const Dataset> data, TransformList transforms, const LoaderOptions& options)
      : data_(std::move(data)), transforms_(std::move(transforms)), options_(options) {
    check_options();
    forms_ = bind_all(transforms_, data_->fields());
    fields_ = forms_.back();
    if (options_.mixup > 0) fields_ = mixed_fields(fields_);
    for (const Field& field : fields_) sample_bytes_ += field.bytes();
    const std::int64_t unit_bytes =
        std::max<std::int64_t>(1, sample_bytes_ * options_.batch * options_.batch_multiplier);
    find_readable();
    check_size();
    units_ahead_ = std::clamp<std::int64_t>(options_.max_ahead_bytes / unit_bytes, 2, 2 * options_.workers + 2);
    // Units in which this rank has no batches hold no memory.
    units_ahead_ *= (options_.period + options_.count - 1) / options_.count;
  }

  ~State() { stop_workers(); }

  const std::vector<Field>& fields() const { return fields_; }

  std::int64_t batches_per_epoch() const {
    return options_.drop_last ? size() / options_.batch : (size() + options_.batch - 1) / options_.batch;
  }
  std::int64_t left_over() const { return options_.drop_last ? size() % options_.batch : 0; }
  std::string describe(std::int64_t index) const { return data_->describe(index); }

  Batch next() {
    while (!is_own(position_)) take_batch();
    return take_batch();
  }

  void end_period() {
    while (place_of(position_) != 0) take_batch();
  }

  const DataPosition& position() const { return position_; }

  void seek(const DataPosition& position) {
    require(position.epoch >= 0 && position.batch >= 0 && position.batch < batches_per_epoch(),
            ErrorKind::invalid_argument, "the data have no batch {} of epoch {}: an epoch has {} batches",
            position.batch, position.epoch, batches_per_epoch());
    stop_workers();
    current_.clear();
    position_ = origin_ = position;
    const std::int64_t units = units_per_epoch();
    first_unit_ = next_unit_ = position.epoch * units + position.batch / options_.batch_multiplier;
    skip_batches_ = position.batch % options_.batch_multiplier;
    ready_.clear();
  }

  LoaderReport report() const {
    LoaderReport report;
    report.samples = samples_;
    report.skipped = skipped_.count();
    report.reasons = skipped_.reasons();
    report.waited_ns = waited_ns_;
    const std::lock_guard lock(mutex_);
    report.ahead_bytes =
        static_cast<std::int64_t>(ready_.size()) * sample_bytes_ * options_.batch * options_.batch_multiplier;
    return report;
  }

 private:
  void check_options() const {
    const auto check = [](bool condition, const char* name, const auto& value, const char* expected) {
      require(condition, ErrorKind::invalid_argument, "{} of the data is {}, expected {}", name, value, expected);
    };
    check(options_.batch > 0, "the batch", options_.batch, "at least 1");
    check(options_.workers >= 0 && options_.workers <= 256, "the number of workers", options_.workers, "0 to 256");
    check(options_.batch_multiplier > 0 && options_.batch_multiplier <= 1024, "the batch multiplier",
          options_.batch_multiplier, "1 to 1024");
    check(options_.mixup >= 0 && std::isfinite(options_.mixup), "mixup", options_.mixup, "a number of at least 0");
    const std::vector<double>& weights = options_.weights;
    const auto count = static_cast<std::size_t>(data_->size());
    require(weights.empty() || (options_.shuffle && weights.size() == count), ErrorKind::invalid_argument,
            "{} weights to draw {} samples by, {}; expected one for each sample of data that are shuffled",
            weights.size(), count, options_.shuffle ? "shuffled" : "in order");
  }

  void check_size() const {
    if (batches_per_epoch() > 0) return;
    const std::int64_t unreadable = data_->size() - size();
    require(data_->size() == 0 || size() > 0, ErrorKind::invalid_argument,
            "none of the {} samples can be read; the first one: {}", data_->size(),
            unreadable > 0 ? skipped_.reasons().front() : "(no reason)");
    fail(ErrorKind::invalid_argument, "the data have {} samples{}, too few for a batch of {}", size(),
         unreadable > 0 ? fmt::format(" that can be read ({} cannot)", unreadable) : "", options_.batch);
  }

  // The number of samples in an epoch.
  std::int64_t size() const { return data_->size() - unreadable_; }

  void find_readable() {
    const std::vector<std::pair<std::int64_t, std::string>> unreadable = data_->unreadable();
    unreadable_ = static_cast<std::int64_t>(unreadable.size());
    if (unreadable.empty()) return;
    auto next = unreadable.begin();
    for (std::int64_t i = 0; i < data_->size(); ++i) {
      if (next == unreadable.end() || next->first != i) readable_.push_back(i);
      else skipped_.add(i, (next++)->second);
    }
  }

  std::int64_t units_per_epoch() const {
    return (batches_per_epoch() + options_.batch_multiplier - 1) / options_.batch_multiplier;
  }

  // The place of a batch in its period, and whether next() returns it.
  std::int64_t place_of(const DataPosition& position) const {
    const std::int64_t batches =
        (position.epoch - origin_.epoch) * batches_per_epoch() + position.batch - origin_.batch;
    return batches % options_.period;
  }
  bool is_own(const DataPosition& position) const {
    const std::int64_t place = place_of(position);
    return place >= options_.first && place < options_.first + options_.count;
  }

  // --- the consumer ---

  Batch take_batch() {
    if (current_.empty()) take_unit();
    Batch batch = std::move(current_.front());
    current_.erase(current_.begin());
    position_ = batch.ends_epoch ? DataPosition{batch.position.epoch + 1, 0}
                                 : DataPosition{batch.position.epoch, batch.position.batch + 1};
    samples_ += batch.samples;
    return batch;
  }

  void take_unit() {
    Unit unit = options_.workers == 0 ? make_here() : wait_for_unit();
    if (unit.error) std::rethrow_exception(unit.error);
    current_ = std::move(unit.batches);
    current_.erase(current_.begin(), current_.begin() + std::exchange(skip_batches_, 0));
  }

  Unit make_here() {
    const auto begin = std::chrono::steady_clock::now();
    if (!own_reader_) own_reader_.emplace(*data_, transforms_, forms_, skipped_);
    Unit unit = make_unit(first_unit_++, *own_reader_);
    next_unit_ = first_unit_;
    count_wait(begin);
    return unit;
  }

  Unit wait_for_unit() {
    if (threads_.empty()) start_workers();
    const auto begin = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    unit_is_ready_.wait(lock, [&] {
      const auto found = ready_.find(first_unit_);
      return found != ready_.end() && found->second.is_ready;
    });
    Unit unit = std::move(ready_.at(first_unit_));
    ready_.erase(first_unit_++);
    lock.unlock();
    room_.notify_one();
    count_wait(begin);
    return unit;
  }

  void count_wait(std::chrono::steady_clock::time_point begin) {
    waited_ns_ += std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
  }

  // --- the workers ---

  void start_workers() {
    stops_ = false;
    for (int i = 0; i < options_.workers; ++i) {
      try {
        threads_.push_back(base::start_worker_thread([this] { work(); }));
      } catch (const std::system_error& error) {
        if (threads_.empty())
          fail(ErrorKind::over_budget, "the system gives no thread to load data with: {}", error.what());
        return;
      }
    }
  }

  void stop_workers() {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    room_.notify_all();
    for (const pthread_t thread : threads_) pthread_join(thread, nullptr);
    threads_.clear();
  }

  void work() {
    std::optional<SampleReader> reader;
    std::unique_lock lock(mutex_);
    while (true) {
      room_.wait(lock, [&] { return stops_ || next_unit_ < first_unit_ + units_ahead_; });
      if (stops_) return;
      const std::int64_t number = next_unit_++;
      ready_[number];
      lock.unlock();
      Unit unit;
      try {
        if (!reader) reader.emplace(*data_, transforms_, forms_, skipped_);
        unit = make_unit(number, *reader);
      } catch (...) {
        unit.error = std::current_exception();
      }
      unit.is_ready = true;
      lock.lock();
      ready_[number] = std::move(unit);
      unit_is_ready_.notify_one();
    }
  }

  // --- making batches ---

  std::shared_ptr<const std::vector<std::int64_t>> order_of(std::int64_t epoch) {
    const std::lock_guard lock(order_mutex_);
    auto& order = orders_[epoch];
    if (!order) order = std::make_shared<const std::vector<std::int64_t>>(new_order(epoch));
    const auto kept = order;
    std::erase_if(orders_, [&](const auto& entry) { return entry.first < epoch - 1; });
    return kept;
  }

  std::vector<std::int64_t> new_order(std::int64_t epoch) const {
    if (!options_.weights.empty()) {
      std::vector<std::int64_t> drawn = weighted_order(options_.weights, options_.seed, epoch);
      drawn.resize(static_cast<std::size_t>(size()));
      return drawn;
    }
    std::vector<std::int64_t> order = epoch_order(size(), options_.shuffle, options_.seed, epoch);
    if (!options_.shuffle && left_over() > 0) {
      const std::int64_t begin = epoch % size() * (size() - left_over()) % size();
      std::ranges::rotate(order, order.begin() + static_cast<std::ptrdiff_t>(begin));
    }
    if (!readable_.empty()) {
      for (std::int64_t& index : order) index = readable_[static_cast<std::size_t>(index)];
    }
    return order;
  }

  Unit make_unit(std::int64_t number, SampleReader& reader) {
    const std::int64_t epoch = number / units_per_epoch();
    const std::int64_t first = number % units_per_epoch() * options_.batch_multiplier;
    const std::int64_t end = std::min(first + options_.batch_multiplier, batches_per_epoch());
    const auto order = order_of(epoch);
    Unit unit;
    for (std::int64_t batch = first; batch < end; ++batch)
      unit.batches.push_back(make_batch({epoch, batch}, *order, reader));
    unit.is_ready = true;
    return unit;
  }

  Batch make_batch(const DataPosition& position, const std::vector<std::int64_t>& order, SampleReader& reader) {
    const std::int64_t begin = position.batch * options_.batch;
    Batch batch;
    batch.position = position;
    const std::int64_t places = std::min(options_.batch, size() - begin);
    batch.ends_epoch = position.batch + 1 == batches_per_epoch();
    if (!is_own(position)) return batch;
    std::vector<std::byte*> buffers;
    for (const Field& field : fields_) {
      Shape shape = field.shape;
      shape.insert(shape.begin(), places);
      Tensor& tensor = batch.fields[field.name] = pool_->take(field.dtype, shape);
      buffers.push_back(static_cast<std::byte*>(tensor.mutable_raw()));
    }
    std::vector<std::byte*> sample(forms_.back().size());
    for (std::int64_t i = 0; i < places; ++i) {
      for (std::size_t field = 0; field < sample.size(); ++field)
        sample[field] = buffers[field] + batch.samples * fields_[field].bytes();
      const std::optional<std::int64_t> index = read_sample(position.epoch, begin + i, order, reader, sample);
      if (!index) continue;
      batch.indices.push_back(*index);
      ++batch.samples;
    }
    if (batch.samples < places) {
      for (auto& [name, tensor] : batch.fields) tensor = first_rows(tensor, batch.samples);
    }
    if (options_.mixup > 0) {
      const auto stream = static_cast<std::uint64_t>(position.epoch * batches_per_epoch() + position.batch);
      base::Philox numbers(options_.seed ^ kMixupKey, stream);
      mix_batch(batch.fields, fields_, options_.mixup, numbers);
    }
    return batch;
  }

  // Reads the sample at this position in the epoch's order, or a replacement, and returns its number in the source.
  std::optional<std::int64_t> read_sample(std::int64_t epoch, std::int64_t place,
                                          const std::vector<std::int64_t>& order, SampleReader& reader,
                                          std::span<std::byte* const> to) {
    const std::int64_t size = this->size();
    const auto stream = static_cast<std::uint64_t>(epoch * size + place);
    const auto reads = [&](std::int64_t at) {
      return reader.read(order[static_cast<std::size_t>(at)], options_.seed ^ kSampleKey, stream, to);
    };
    if (reads(place)) return order[static_cast<std::size_t>(place)];
    if (!options_.replace_unreadable && skipped_.count() < data_->size()) return std::nullopt;
    // Every other sample is drawn with the same probability. Taking a neighbour would favour the one behind a long run
    // of unreadable samples.
    constexpr int kMostDraws = 64;
    base::Philox numbers(options_.seed ^ kReplacementKey, stream);
    for (int drawn = 0; drawn < kMostDraws; ++drawn) {
      const std::int64_t at = numbers.next_integer(0, size - 1);
      if (reads(at)) return order[static_cast<std::size_t>(at)];
    }
    for (std::int64_t tried = 1; tried < size; ++tried) {
      const std::int64_t at = (place + tried) % size;
      if (reads(at)) return order[static_cast<std::size_t>(at)];
    }
    const std::vector<std::string> reasons = skipped_.reasons();
    fail(ErrorKind::invalid_argument, "none of the {} samples can be read; the first one: {}", data_->size(),
         reasons.empty() ? std::string("(no reason)") : reasons.front());
  }

  const std::shared_ptr<const Dataset> data_;
  const TransformList transforms_;
  const LoaderOptions options_;
  std::vector<std::vector<Field>> forms_;  // see bind_all
  std::vector<Field> fields_;              // of a batch
  std::vector<std::int64_t> readable_;     // numbers of samples; empty if all are readable
  std::int64_t unreadable_ = 0;            // number of samples that are known to be unreadable
  std::int64_t sample_bytes_ = 0, units_ahead_ = 0;
  const std::shared_ptr<TensorPool> pool_ = std::make_shared<TensorPool>();
  SkippedSamples skipped_;

  // Used by the consumer only.
  std::vector<Batch> current_;
  DataPosition position_, origin_;  // origin_: where the first period begins; changed only without workers
  std::int64_t skip_batches_ = 0;   // in the next unit, after seek()
  std::int64_t samples_ = 0, waited_ns_ = 0;
  std::optional<SampleReader> own_reader_;
  std::vector<pthread_t> threads_;

  // Shared, protected by mutex_. Units are numbered through all epochs.
  mutable std::mutex mutex_;
  std::condition_variable unit_is_ready_, room_;
  std::map<std::int64_t, Unit> ready_;
  std::int64_t first_unit_ = 0, next_unit_ = 0;  // the next to be returned, and the next to be made
  bool stops_ = false;

  std::mutex order_mutex_;
  std::map<std::int64_t, std::shared_ptr<const std::vector<std::int64_t>>> orders_;
};

Loader::Loader(std::shared_ptr<const Dataset> data, TransformList transforms, const LoaderOptions& options)
    : state_(std::make_unique<State>(std::move(data), std::move(transforms), options)) {}
Loader::~Loader() = default;
const std::vector<Field>& Loader::fields() const {
  return state_->fields();
}
std::int64_t Loader::batches_per_epoch() const {
  return state_->batches_per_epoch();
}
std::int64_t Loader::left_over() const {
  return state_->left_over();
}
std::string Loader::describe(std::int64_t index) const {
  return state_->describe(index);
}
Batch Loader::next() {
  return state_->next();
}
DataPosition Loader::position() const {
  return state_->position();
}
void Loader::end_period() {
  state_->end_period();
}
void Loader::seek(const DataPosition& position) {
  state_->seek(position);
}
LoaderReport Loader::report() const {
  return state_->report();
}

}  // namespace tessera::train
