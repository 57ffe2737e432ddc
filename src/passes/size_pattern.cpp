#include "passes/size_pattern.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "passes/number_ranks.h"

namespace tessera::passes {
namespace {

// A mask lowers scores by more than this (fuse_attention.cpp).
constexpr float kLowest = -1e4F;

// Fewer numbers are sizes.
constexpr std::int64_t kLeastIndices = 4;

enum class Content : std::int64_t { uniform, plain, other };

bool is_plain(const Tensor& tensor) {
  if (tensor.dtype() == DType::i8 || tensor.dtype() == DType::u8) return tensor.elements() > kMostNumbers;
  if (tensor.dtype() != DType::f32) return false;
  bool in_range = true, flags = true;
  for (const float number : tensor.values<float>()) {
    in_range = in_range && number > kLowest && number < -kLowest;  // false for NaN
    flags = flags && (number == 0.0F || number == 1.0F);
  }
  return in_range && !flags;
}

template <typename T>
bool counts_up(const Tensor& tensor) {
  const auto values = tensor.values<T>();
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i] != values[i - 1] + 1) return false;
  }
  return true;
}

// Whether an integer constant is indices rather than sizes, which are few numbers in a row.
template <typename T>
bool is_indices(const Tensor& tensor) {
  return tensor.elements() >= kLeastIndices &&
         (tensor.rank() > 1 || tensor.elements() > kMostNumbers || counts_up<T>(tensor));
}

// Calls body(number) for what stands for sizes in an integer constant: the least and the largest one of indices, else
// all numbers. Returns whether it is an integer constant.
template <typename Body>
bool for_each_size(const Tensor& tensor, Body body) {
  if (tensor.is_deferred() || !tensor.has_data() || tensor.elements() == 0) return false;
  const auto pass_on = [&]<typename T>(std::span<const T> values) {
    if (!is_indices<T>(tensor)) return std::ranges::for_each(values, body), true;
    const auto [least, largest] = std::ranges::minmax(values);
    body(least);
    body(largest);
    return true;
  };
  if (tensor.dtype() == DType::i64) return pass_on(std::span<const std::int64_t>(tensor.values<std::int64_t>()));
  if (tensor.dtype() == DType::i32) return pass_on(std::span<const std::int32_t>(tensor.values<std::int32_t>()));
  return false;
}

bool is_uniform(const Tensor& tensor) {
  const auto bytes = static_cast<std::size_t>(tensor.bytes());
  const std::size_t first = std::max<std::size_t>(1, static_cast<std::size_t>(bits_of(tensor.dtype())) / 8);
  const auto* data = static_cast<const char*>(tensor.raw());
  return bytes > 0 && std::memcmp(data, data + first, bytes - first) == 0;
}

Content content_of(const Tensor& tensor) {
  if (tensor.is_deferred() || !tensor.has_data() || tensor.dtype() == DType::string) return Content::other;
  if (is_uniform(tensor)) return Content::uniform;
  if (is_plain(tensor)) return Content::plain;
  return Content::other;
}

class SizePattern {
 public:
  SizePattern(const ir::Graph& graph, const std::unordered_set<const void*>& model_constants)
      : graph_(graph), model_constants_(model_constants) {}

  std::vector<std::int64_t> make(const std::set<std::int64_t>& thresholds) {
    find_used();
    for (const std::int64_t number : {0, 1, 2}) ranks_.add(number);
    for (const std::int64_t number : thresholds) ranks_.add(number);
    for_each_value([&](const ir::ValueInfo& info, const Tensor* constant) {
      if (info.type.dims) {
        for (const ir::Dim& dim : *info.type.dims) {
          if (dim.is_known()) ranks_.add(dim.value());
        }
      }
      if (constant != nullptr) for_each_size(*constant, [&](std::int64_t number) { ranks_.add(number); });
    });
    ranks_.sort();
    elements_of_values(0), elements_of_values(1);
    for_each_value([&](const ir::ValueInfo& info, const Tensor* constant) { add(info, constant); });
    return std::move(pattern_);
  }

 private:
  // Finds the values that are read: folded nodes leave behind others that nothing reads.
  void find_used() {
    used_.assign(graph_.value_count(), false);
    const auto use = [&](ir::ValueId id) {
      if (id.valid()) used_[static_cast<std::size_t>(id.index)] = true;
    };
    for (const ir::NodeId id : graph_.order()) {
      const ir::Node& node = graph_.node(id);
      if (std::ranges::none_of(node.outputs, [](ir::ValueId output) { return output.valid(); })) continue;
      std::ranges::for_each(node.inputs, use);
      std::ranges::for_each(node.outputs, use);
    }
    std::ranges::for_each(graph_.inputs(), use);
    std::ranges::for_each(graph_.outputs(), use);
    for (const ir::Variable& variable : graph_.variables()) use(variable.read), use(variable.update);
  }

  void for_each_value(auto&& body) const {
    for (std::size_t i = 0; i < graph_.value_count(); ++i) {
      const ir::ValueId id{static_cast<std::int32_t>(i)};
      if (!used_[i]) continue;
      body(graph_.value(id), graph_.is_constant(id) ? graph_.constant(id) : nullptr);
    }
  }

  void add(const ir::ValueInfo& info, const Tensor* constant) {
    if (constant != nullptr && model_constants_.contains(constant->storage())) return;
    pattern_.push_back(static_cast<std::int64_t>(info.origin) << 8 | static_cast<std::int64_t>(info.type.dtype));
    add_dims(info.type);
    if (constant != nullptr) add_content(*constant);
  }

  void add_dims(const ir::ValueType& type) {
    if (!type.dims) return pattern_.push_back(-1);
    std::uint64_t elements = 1;
    bool known = true;
    for (const ir::Dim& dim : *type.dims) {
      known = known && dim.is_known();
      elements *= static_cast<std::uint64_t>(dim.value());
      if (dim.is_known()) pattern_.push_back(static_cast<std::int64_t>(ranks_.of(dim.value())));
      else pattern_.push_back(-2 - static_cast<std::int64_t>(std::hash<std::string>()(dim.name()) >> 2));
    }
    if (known) pattern_.push_back(elements_of_values(elements));
  }

  void add_content(const Tensor& constant) {
    if (constant.elements() == 0) return;
    const auto add_rank = [&](std::int64_t number) {
      pattern_.push_back(static_cast<std::int64_t>(ranks_.of(number)));
    };
    if (for_each_size(constant, add_rank)) return;
    const Content content = content_of(constant);
    pattern_.push_back(static_cast<std::int64_t>(content));
    // Which are equal, for they may become one.
    if (content != Content::other) {
      const std::string_view bytes(static_cast<const char*>(constant.raw()),
                                   static_cast<std::size_t>(constant.bytes()));
      const std::size_t hash = std::hash<std::string_view>()(bytes);
      pattern_.push_back(contents_.try_emplace(hash, static_cast<std::int64_t>(contents_.size())).first->second);
    }
    std::int64_t word = 0;
    if (content == Content::uniform) {
      std::memcpy(&word, constant.raw(),
                  std::min<std::size_t>(sizeof word, static_cast<std::size_t>(constant.bytes())));
      if (const int bits = bits_of(constant.dtype()); bits < 64) word &= (std::int64_t{1} << bits) - 1;
    } else if (content == Content::other) {
      word = static_cast<std::int64_t>(std::bit_cast<std::uintptr_t>(constant.storage()));
    }
    pattern_.push_back(word);
  }

  // The number of a class of values with so many elements.
  std::int64_t elements_of_values(std::uint64_t elements) {
    return classes_.try_emplace(elements, static_cast<std::int64_t>(classes_.size())).first->second;
  }

  const ir::Graph& graph_;
  const std::unordered_set<const void*>& model_constants_;
  std::vector<bool> used_;
  NumberRanks ranks_;
  std::unordered_map<std::uint64_t, std::int64_t> classes_, contents_;  // by number of elements; by hash
  std::vector<std::int64_t> pattern_;
};

}  // namespace

std::vector<std::int64_t> size_pattern(const ir::Graph& graph, const std::unordered_set<const void*>& model_constants,
                                       const std::set<std::int64_t>& thresholds) {
  return SizePattern(graph, model_constants).make(thresholds);
}

}  // namespace tessera::passes
