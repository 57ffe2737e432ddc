#include "passes/pass_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <vector>

#include "passes/number_ranks.h"

namespace tessera::passes {
namespace {

class Hash {
 public:
  void add(std::uint64_t number) { state_ = std::rotl((state_ ^ number) * 0x9e3779b97f4a7c15U, 29) + number; }
  void add(std::string_view text) {
    add(text.size());
    add_bytes(text.data(), text.size());
  }
  void add_bytes(const void* data, std::size_t bytes) {
    const auto* from = static_cast<const char*>(data);
    for (; bytes >= sizeof(std::uint64_t); bytes -= sizeof(std::uint64_t), from += sizeof(std::uint64_t)) {
      std::uint64_t word;
      std::memcpy(&word, from, sizeof word);
      add(word);
    }
    std::uint64_t rest = 0;
    std::memcpy(&rest, from, bytes);
    add(rest);
  }
  std::uint64_t value() const { return (state_ ^ (state_ >> 32)) * 0xd6e8feb86659fd93U; }

 private:
  std::uint64_t state_ = 0x2545f4914f6cdd1dU;
};

std::int64_t elements_of(const ir::Dims& dims) {
  std::uint64_t product = 1;
  for (const ir::Dim& dim : dims) product *= static_cast<std::uint64_t>(dim.value());
  return static_cast<std::int64_t>(product);
}
bool is_concrete(const ir::Dims& dims) {
  return std::ranges::all_of(dims, [](const ir::Dim& dim) { return dim.is_known(); });
}

class PatternMaker {
 public:
  PatternMaker(const ir::Graph& graph, const std::unordered_set<const void*>& model_constants)
      : graph_(graph), model_constants_(model_constants) {}

  std::uint64_t make() {
    rank_numbers();
    for (std::size_t i = 0; i < graph_.value_count(); ++i) add_value(ir::ValueId{static_cast<std::int32_t>(i)});
    for (const ir::NodeId id : graph_.order()) add_node(id);
    add(graph_.inputs());
    add(graph_.outputs());
    for (const ir::Variable& variable : graph_.variables()) add({variable.read, variable.update});
    return hash_.value();
  }

 private:
  void rank_numbers() {
    for (const std::int64_t number : {0, 1, 2}) ranks_.add(number);
    for (std::size_t i = 0; i < graph_.value_count(); ++i) {
      const ir::ValueId id{static_cast<std::int32_t>(i)};
      if (const std::optional<ir::Dims>& dims = graph_.value(id).type.dims) {
        for (const ir::Dim& dim : *dims) {
          if (dim.is_known()) ranks_.add(dim.value());
        }
        if (is_concrete(*dims)) ranks_.add(elements_of(*dims));
      }
      if (const Tensor* constant = constant_of(id))
        for_each_number(*constant, [&](std::int64_t number) { ranks_.add(number); });
    }
    ranks_.sort();
  }

  const Tensor* constant_of(ir::ValueId id) const { return graph_.is_constant(id) ? graph_.constant(id) : nullptr; }

  void add(const std::vector<ir::ValueId>& ids) {
    hash_.add(ids.size());
    for (const ir::ValueId id : ids) hash_.add(static_cast<std::uint64_t>(id.index));
  }

  void add_value(ir::ValueId id) {
    const ir::ValueInfo& info = graph_.value(id);
    hash_.add(static_cast<std::uint64_t>(info.origin) << 16 | static_cast<std::uint64_t>(info.type.kind) << 8 |
              static_cast<std::uint64_t>(info.type.dtype));
    if (info.type.dims) {
      hash_.add(info.type.dims->size());
      for (const ir::Dim& dim : *info.type.dims) {
        if (dim.is_known()) hash_.add(ranks_.of(dim.value()));
        else hash_.add(dim.name());
      }
      if (is_concrete(*info.type.dims)) hash_.add(ranks_.of(elements_of(*info.type.dims)));
    }
    if (const Tensor* constant = constant_of(id)) add_constant(*constant);
  }

  void add_constant(const Tensor& constant) {
    if (model_constants_.contains(constant.storage())) return add_pointer(constant.storage());
    if (for_each_number(constant, [&](std::int64_t number) { hash_.add(ranks_.of(number)); })) return;
    const bool readable = constant.has_data() && !constant.is_deferred() && constant.dtype() != DType::string;
    if (!readable || constant.bytes() == 0) return;
    const auto bytes = static_cast<std::size_t>(constant.bytes());
    // The data of a plan enters the pattern only by whether all elements are equal, and by that element.
    const std::size_t first = std::max<std::size_t>(1, static_cast<std::size_t>(bits_of(constant.dtype())) / 8);
    const auto* data = static_cast<const char*>(constant.raw());
    const bool is_uniform = std::memcmp(data, data + first, bytes - first) == 0;
    hash_.add(static_cast<std::uint64_t>(is_uniform));
    if (is_uniform) hash_.add_bytes(data, first);
  }

  void add_pointer(const void* pointer) {
    hash_.add(static_cast<std::uint64_t>(std::bit_cast<std::uintptr_t>(pointer)));
  }

  void add_node(ir::NodeId id) {
    const ir::Node& node = graph_.node(id);
    hash_.add(node.op);
    add(node.inputs);
    add(node.outputs);
    hash_.add(static_cast<std::uint64_t>(node.captures));
    for (const auto& [name, attribute] : node.attributes) {
      hash_.add(name);
      std::visit([&](const auto& value) { add_attribute(value); }, attribute);
    }
  }

  template <typename T>
  void add_attribute(const T& value) {
    if constexpr (std::is_arithmetic_v<T>) hash_.add_bytes(&value, sizeof value);
    else if constexpr (std::is_same_v<T, std::string>) hash_.add(std::string_view(value));
    else if constexpr (std::is_same_v<T, Tensor>) add_pointer(value.storage());
    else if constexpr (std::is_same_v<T, ir::SubgraphPointer>) add_pointer(value.get());
    else if constexpr (std::is_same_v<T, ir::ValueType>) hash_.add(std::string_view(ir::to_string(value)));
    else {
      hash_.add(value.size());
      for (const auto& each : value) add_attribute(each);
    }
  }

  const ir::Graph& graph_;
  const std::unordered_set<const void*>& model_constants_;
  NumberRanks ranks_;
  Hash hash_;
};

}  // namespace

PassMemory::PassMemory(const ir::Graph& model) {
  for (std::size_t i = 0; i < model.value_count(); ++i) {
    if (const Tensor* constant = model.constant(ir::ValueId{static_cast<std::int32_t>(i)}))
      model_constants_.insert(constant->storage());
  }
}

std::uint64_t PassMemory::structure_of(const ir::Graph& graph) {
  Hash hash;
  hash.add(graph.value_count());
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    hash.add(node.op);
    hash.add(static_cast<std::uint64_t>(id.index) << 32 | node.attributes.size());
    for (const ir::ValueId input : node.inputs) hash.add(static_cast<std::uint64_t>(input.index));
    for (const ir::ValueId output : node.outputs) hash.add(static_cast<std::uint64_t>(output.index));
  }
  return hash.value();
}

std::uint64_t PassMemory::pattern_of(const ir::Graph& graph) const {
  return PatternMaker(graph, model_constants_).make();
}

bool PassMemory::is_quiet(std::size_t pass, std::uint64_t pattern) const {
  const std::lock_guard lock(mutex_);
  const auto found = quiet_.find(pattern);
  return found != quiet_.end() && (found->second >> pass & 1) != 0;
}

void PassMemory::note_quiet(std::size_t pass, std::uint64_t pattern) {
  const std::lock_guard lock(mutex_);
  if (quiet_.size() >= kMostPatterns && !quiet_.contains(pattern)) quiet_.clear();
  quiet_[pattern] |= std::uint64_t{1} << pass;
}

}  // namespace tessera::passes
