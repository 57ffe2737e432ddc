#include "tessera/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "base/error.h"
#include "base/numbers/checked.h"

namespace tessera {
namespace {

constexpr std::size_t kAlignment = 64, kHugePage = std::size_t{2} << 20;

std::shared_ptr<void> allocate(DType type, std::int64_t elements, std::int64_t bytes) {
  if (type == DType::string) {
    auto* strings = new (std::nothrow) std::string[static_cast<std::size_t>(elements)];
    require(strings != nullptr, ErrorKind::over_budget, "cannot allocate {} bytes for a tensor", bytes);
    return std::shared_ptr<void>(strings, [](void* p) { delete[] static_cast<std::string*>(p); });
  }
  void* data = nullptr;
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
  const bool large = size >= kHugePage;
  const int failed = posix_memalign(&data, large ? kHugePage : kAlignment, size);
  require(failed == 0, ErrorKind::over_budget, "cannot allocate {} bytes for a tensor", bytes);
  // The first access to ordinary pages costs about four times as much.
  if (large) madvise(data, size / kHugePage * kHugePage, MADV_HUGEPAGE);
  return std::shared_ptr<void>(data, std::free);
}

// The elements of a deferred tensor: computed when they are first read, and kept.
class DeferredElements {
 public:
  explicit DeferredElements(std::function<void(void*)> fill) : fill_(std::move(fill)) {}

  void fill(void* data) const { fill_(data); }
  const Tensor* kept() const { return is_kept_.load(std::memory_order_acquire) ? &elements_ : nullptr; }
  const Tensor& keep(DType type, const Shape& shape) {
    std::lock_guard lock(mutex_);
    if (!is_kept_.load(std::memory_order_relaxed)) {
      Tensor elements(type, shape);
      fill_(elements.mutable_raw());
      elements_ = std::move(elements);
      is_kept_.store(true, std::memory_order_release);
    }
    return elements_;
  }

 private:
  std::function<void(void*)> fill_;
  std::mutex mutex_;
  std::atomic<bool> is_kept_ = false;
  Tensor elements_;
};

// The object that computes a deferred tensor's elements, which owns its storage.
DeferredElements& elements_of(const std::shared_ptr<const void>& owner) {
  return *static_cast<DeferredElements*>(const_cast<void*>(owner.get()));
}

}  // namespace

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::int64_t element_count(const Shape& shape) {
  // A zero anywhere makes the product zero, whatever the other dimensions are; negative ones are refused first. The
  // shape is formatted only for an error message, because this runs for every tensor.
  bool empty = false;
  for (std::int64_t dim : shape) {
    if (dim < 0) fail(ErrorKind::invalid_argument, "negative dimension {} in shape {}", dim, to_string(shape));
    empty = empty || dim == 0;
  }
  if (empty) return 0;
  std::int64_t count = 1;
  for (std::int64_t dim : shape) {
    if (__builtin_mul_overflow(count, dim, &count))
      fail(ErrorKind::over_budget, "shape {} has too many elements", to_string(shape));
  }
  return count;
}

std::int64_t byte_count(DType type, const Shape& shape) {
  const std::int64_t count = element_count(shape);
  if (type == DType::string) return base::checked_multiply(count, sizeof(std::string));
  const int bits = bits_of(type);
  if (bits >= 8) return base::checked_multiply(count, bits / 8);
  return base::ceil_divide(base::checked_multiply(count, bits), 8);
}

Tensor::Tensor(DType type, Shape shape)
    : type_(type), shape_(std::move(shape)), elements_(element_count(shape_)), bytes_(byte_count(type, shape_)) {
  std::shared_ptr<void> storage = allocate(type_, elements_, bytes_);
  data_ = storage.get();
  owner_ = std::move(storage);
}

Tensor::Tensor(DType type, Shape shape, void* data, std::shared_ptr<const void> owner)
    : type_(type),
      shape_(std::move(shape)),
      elements_(element_count(shape_)),
      bytes_(byte_count(type, shape_)),
      data_(data),
      owner_(std::move(owner)) {}

Tensor Tensor::deferred(DType type, Shape shape, std::function<void(void*)> fill) {
  require(type != DType::string, ErrorKind::invalid_argument, "strings cannot be deferred");
  Tensor result(type, std::move(shape), nullptr, std::make_shared<DeferredElements>(std::move(fill)));
  result.deferred_ = true;
  return result;
}

bool Tensor::is_deferred() const {
  return deferred_ && elements_of(owner_).kept() == nullptr;
}

Tensor Tensor::contents() const {
  if (!deferred_) return *this;
  if (const Tensor* kept = elements_of(owner_).kept()) return kept->reshaped(shape_);
  Tensor result(type_, shape_);
  elements_of(owner_).fill(result.data_);
  return result;
}

const void* Tensor::computed() const {
  const Tensor* kept = elements_of(owner_).kept();
  return (kept != nullptr ? *kept : elements_of(owner_).keep(type_, shape_)).data_;
}

template <typename T>
Tensor Tensor::from(Shape shape, std::span<const T> values) {
  Tensor result(dtype_of<T>, std::move(shape));
  require(result.elements_ == static_cast<std::int64_t>(values.size()), ErrorKind::invalid_argument,
          "{} values given for shape {}", values.size(), to_string(result.shape_));
  std::copy(values.begin(), values.end(), static_cast<T*>(result.data_));
  return result;
}

template Tensor Tensor::from<float>(Shape, std::span<const float>);
template Tensor Tensor::from<double>(Shape, std::span<const double>);
template Tensor Tensor::from<f16_t>(Shape, std::span<const f16_t>);
template Tensor Tensor::from<bf16_t>(Shape, std::span<const bf16_t>);
template Tensor Tensor::from<std::int8_t>(Shape, std::span<const std::int8_t>);
template Tensor Tensor::from<std::int16_t>(Shape, std::span<const std::int16_t>);
template Tensor Tensor::from<std::int32_t>(Shape, std::span<const std::int32_t>);
template Tensor Tensor::from<std::int64_t>(Shape, std::span<const std::int64_t>);
template Tensor Tensor::from<std::uint8_t>(Shape, std::span<const std::uint8_t>);
template Tensor Tensor::from<std::uint16_t>(Shape, std::span<const std::uint16_t>);
template Tensor Tensor::from<std::uint32_t>(Shape, std::span<const std::uint32_t>);
template Tensor Tensor::from<std::uint64_t>(Shape, std::span<const std::uint64_t>);
template Tensor Tensor::from<bool>(Shape, std::span<const bool>);
template Tensor Tensor::from<std::string>(Shape, std::span<const std::string>);
template Tensor Tensor::from<std::complex<float>>(Shape, std::span<const std::complex<float>>);
template Tensor Tensor::from<std::complex<double>>(Shape, std::span<const std::complex<double>>);

void Tensor::check_type(DType wanted) const {
  if (type_ != wanted) fail(ErrorKind::invalid_argument, "tensor holds {}, not {}", name_of(type_), name_of(wanted));
}

Tensor Tensor::reshaped(Shape shape) const {
  if (element_count(shape) != elements_)
    fail(ErrorKind::invalid_argument, "cannot view shape {} as {}", to_string(shape_), to_string(shape));
  Tensor result = *this;
  result.shape_ = std::move(shape);
  return result;
}

Tensor Tensor::clone() const {
  if (!has_value()) return {};
  Tensor result(type_, shape_);
  if (type_ == DType::string) {
    std::copy_n(static_cast<const std::string*>(data_), elements_, static_cast<std::string*>(result.data_));
  } else if (bytes_ > 0) {
    std::memcpy(result.data_, raw(), static_cast<std::size_t>(bytes_));
  }
  return result;
}

bool identical(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (a.elements() == 0) return true;
  if (a.dtype() == DType::string)
    return std::equal(a.data<std::string>(), a.data<std::string>() + a.elements(), b.data<std::string>());
  // If the elements end within a byte, its other bits mean nothing and are not compared.
  const int used_bits = static_cast<int>(a.elements() * bits_of(a.dtype()) % 8);
  const std::size_t whole_bytes = static_cast<std::size_t>(a.bytes()) - (used_bits != 0 ? 1 : 0);
  const auto *left = static_cast<const std::uint8_t*>(a.raw()), *right = static_cast<const std::uint8_t*>(b.raw());
  return std::memcmp(left, right, whole_bytes) == 0 &&
         (used_bits == 0 || ((left[whole_bytes] ^ right[whole_bytes]) & ((1 << used_bits) - 1)) == 0);
}

namespace {

template <typename T>
void require_distinct(const Tensor& keys) {
  std::vector<T> sorted(keys.values<T>().begin(), keys.values<T>().end());
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) fail(ErrorKind::invalid_argument, "a map holds key '{}' twice", *twice);
}

}  // namespace

Value Value::sequence(std::vector<Value> elements) {
  Value value;
  value.kind_ = Kind::sequence;
  value.elements_ = std::make_shared<const std::vector<Value>>(std::move(elements));
  return value;
}

Value Value::map(Tensor keys, std::vector<Value> values) {
  require(keys.elements() == static_cast<std::int64_t>(values.size()) && keys.rank() == 1, ErrorKind::invalid_argument,
          "a map of {} values with keys of shape {}: one key a value is needed", values.size(),
          to_string(keys.shape()));
  require(keys.dtype() == DType::i64 || keys.dtype() == DType::string, ErrorKind::invalid_argument,
          "the keys of a map are {}, expected i64 or string", name_of(keys.dtype()));
  if (keys.dtype() == DType::string) require_distinct<std::string>(keys);
  else require_distinct<std::int64_t>(keys);
  Value value;
  value.kind_ = Kind::map;
  value.tensor_ = std::move(keys);
  value.elements_ = std::make_shared<const std::vector<Value>>(std::move(values));
  return value;
}

const Tensor& Value::tensor() const {
  require(kind_ == Kind::tensor, ErrorKind::invalid_argument, "the value is not a tensor");
  return tensor_;
}

Tensor& Value::tensor() {
  require(kind_ == Kind::tensor, ErrorKind::invalid_argument, "the value is not a tensor");
  return tensor_;
}

const std::vector<Value>& Value::elements() const {
  require(kind_ == Kind::sequence || kind_ == Kind::map, ErrorKind::invalid_argument,
          "the value is not a sequence or map");
  return *elements_;
}

const Tensor& Value::keys() const {
  require(kind_ == Kind::map, ErrorKind::invalid_argument, "the value is not a map");
  return tensor_;
}

const Value* Value::find(std::string_view key) const {
  const std::span<const std::string> all = keys().values<std::string>();
  const auto found = std::find(all.begin(), all.end(), key);
  return found == all.end() ? nullptr : &(*elements_)[static_cast<std::size_t>(found - all.begin())];
}

const Value* Value::find(std::int64_t key) const {
  const std::span<const std::int64_t> all = keys().values<std::int64_t>();
  const auto found = std::find(all.begin(), all.end(), key);
  return found == all.end() ? nullptr : &(*elements_)[static_cast<std::size_t>(found - all.begin())];
}

}  // namespace tessera
