// LabelEncoder and OneHotEncoder: keys are looked up in a table that is built with the kernel.
#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "backends/cpu/classical/kernels.h"
#include "ops/classical/feature.h"

namespace tessera::backends::cpu {
namespace {

// Elements per chunk.
constexpr std::int64_t kCategoryGrain = 4096;

// The position of each key, or the last position of equal keys. NaN equals itself.
template <typename Key>
class KeyTable {
 public:
  explicit KeyTable(std::span<const Key> keys) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto position = static_cast<std::int64_t>(i);
      if (keys[i] == keys[i]) positions_[keys[i]] = position;
      else no_number_ = position;
    }
  }
  // Returns the position of the key, or -1 if there is none.
  std::int64_t find(const Key& key) const {
    if (key != key) return no_number_;
    const auto found = positions_.find(key);
    return found == positions_.end() ? -1 : found->second;
  }

 private:
  std::unordered_map<Key, std::int64_t> positions_;
  std::int64_t no_number_ = -1;
};

template <typename Key, typename Result>
class LabelEncoder final : public Kernel {
 public:
  explicit LabelEncoder(const ops::LabelTable& table)
      : keys_(table.keys.values<Key>()),
        values_(table.values.values<Result>().begin(), table.values.values<Result>().end()),
        fallback_(table.fallback.values<Result>()[0]) {}

  void run(KernelContext& context) const override {
    const Key* x = context.input(0).data<Key>();
    Result* y = context.output(0).mutable_data<Result>();
    context.parallel_for(context.input(0).elements(), kCategoryGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t position = keys_.find(x[i]);
        y[i] = position < 0 ? fallback_ : values_[static_cast<std::size_t>(position)];
      }
    });
  }

 private:
  KeyTable<Key> keys_;
  std::vector<Result> values_;
  Result fallback_;
};

template <typename Key>
KernelPointer label_encoder_of(const ops::LabelTable& table) {
  switch (table.values.dtype()) {
    case DType::string:
      return std::make_unique<LabelEncoder<Key, std::string>>(table);
    case DType::i64:
      return std::make_unique<LabelEncoder<Key, std::int64_t>>(table);
    default:
      return std::make_unique<LabelEncoder<Key, float>>(table);
  }
}

// Looks up elements of type T as keys: floats are truncated to integers.
template <typename T, typename Key>
class OneHotEncoder final : public Kernel {
 public:
  explicit OneHotEncoder(const std::vector<Key>& categories)
      : keys_(categories), count_(static_cast<std::int64_t>(categories.size())) {}

  void run(KernelContext& context) const override {
    const T* x = context.input(0).data<T>();
    float* y = context.output(0).mutable_data<float>();
    const std::int64_t grain = std::max<std::int64_t>(1, kCategoryGrain / (1 + count_ / 16));
    context.parallel_for(context.input(0).elements(), grain, [&](std::int64_t begin, std::int64_t end) {
      std::fill_n(y + begin * count_, (end - begin) * count_, 0.0f);
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t position = find(x[i]);
        if (position >= 0) y[i * count_ + position] = 1;
      }
    });
  }

 private:
  std::int64_t find(const T& element) const {
    if constexpr (std::is_floating_point_v<T>) return keys_.find(std::trunc(static_cast<Key>(element)));
    else return keys_.find(element);
  }

  KeyTable<Key> keys_;
  std::int64_t count_;
};

}  // namespace

std::string reject_label_encoder(const ops::NodeView& view) {
  for (const DType type : {view.input(0).dtype, view.output(0).dtype}) {
    if (type != DType::string && type != DType::i64 && type != DType::f32) return "takes text, i64 and f32";
  }
  return "";
}

KernelPointer make_label_encoder(const ops::NodeView& view, WeightStore&) {
  const ops::LabelTable table = ops::label_table(view);
  switch (view.input(0).dtype) {
    case DType::string:
      return label_encoder_of<std::string>(table);
    case DType::i64:
      return label_encoder_of<std::int64_t>(table);
    default:
      return label_encoder_of<float>(table);
  }
}

std::string reject_one_hot_encoder(const ops::NodeView& view) {
  const DType type = view.input(0).dtype;
  if (type != DType::string && type != DType::i64 && type != DType::f32) return "takes text, i64 and f32";
  return view.integer("zeros") != 0 ? "" : "refuses no category";
}

KernelPointer make_one_hot_encoder(const ops::NodeView& view, WeightStore&) {
  if (view.input(0).dtype == DType::string)
    return std::make_unique<OneHotEncoder<std::string, std::string>>(view.texts("cats_strings"));
  const std::vector<std::int64_t>& categories = view.integers("cats_int64s");
  if (view.input(0).dtype == DType::i64) return std::make_unique<OneHotEncoder<std::int64_t, std::int64_t>>(categories);
  return std::make_unique<OneHotEncoder<float, double>>(std::vector<double>(categories.begin(), categories.end()));
}

}  // namespace tessera::backends::cpu
