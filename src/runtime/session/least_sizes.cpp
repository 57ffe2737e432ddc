#include "runtime/session/least_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "ops/core/infer.h"
#include "runtime/run/evaluate.h"

namespace tessera::runtime {
namespace {

// As large as anybody's least size is, and a multiple of all usual strides. Inference alone looks at it.
constexpr std::int64_t kLarge = 2048;

// A dimension of an input that the model leaves open; others of its name have the same size.
struct NamedDim {
  std::size_t input;
  std::size_t axis;
  std::int64_t size;
  std::vector<std::pair<std::size_t, std::size_t>> places;  // (input, axis)
};

class LeastSizes {
 public:
  LeastSizes(const ir::Graph& graph, const std::vector<Value>& inputs) : graph_(graph) {
    std::map<std::string, std::size_t> named;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      types_.push_back(inputs[i].is_tensor() ? type_of(inputs[i]) : graph.value(graph.inputs()[i]).type);
      const ir::ValueType& declared = graph.value(graph.inputs()[i]).type;
      if (!inputs[i].is_tensor() || !declared.is_tensor() || !declared.dims) continue;
      const Shape& shape = inputs[i].tensor().shape();
      for (std::size_t axis = 0; axis < shape.size() && axis < declared.dims->size(); ++axis) {
        const ir::Dim& dim = (*declared.dims)[axis];
        if (dim.is_known()) continue;
        const std::string name = dim.is_unknown() ? "" : to_string(dim);
        const auto known = named.find(name);
        if (!name.empty() && known != named.end()) {
          open_[known->second].places.emplace_back(i, axis);
          continue;
        }
        if (!name.empty()) named.emplace(name, open_.size());
        open_.push_back({i, axis, shape[axis], {{i, axis}}});
      }
    }
  }

  std::string describe() const {
    std::vector<std::int64_t> sizes;
    for (const NamedDim& dim : open_) sizes.push_back(std::max(dim.size, kLarge));
    if (open_.empty() || !fits(sizes)) return "";
    std::string words;
    for (std::size_t i = 0; i < open_.size(); ++i) {
      const std::int64_t least = least_size(sizes, i);
      if (least <= open_[i].size || !fits_with(sizes, i, least + 1)) continue;
      const ir::ValueInfo& input = graph_.value(graph_.inputs()[open_[i].input]);
      words += fmt::format("{}dimension {} of input '{}' is {}, and the model takes no less than {}",
                           words.empty() ? "" : "; ", open_[i].axis, input.name, open_[i].size, least);
    }
    return words;
  }

 private:
  bool fits(const std::vector<std::int64_t>& sizes) const {
    ir::Graph graph = graph_;
    std::vector<ir::ValueType> types = types_;
    for (std::size_t i = 0; i < open_.size(); ++i) {
      for (const auto& [input, axis] : open_[i].places) (*types[input].dims)[axis] = sizes[i];
    }
    for (std::size_t i = 0; i < types.size(); ++i) graph.value(graph.inputs()[i]).type = types[i];
    try {
      ops::infer_graph(graph);
    } catch (const Error&) {
      return false;
    }
    return true;
  }

  // A size that alone fits is one that another has, not the least of many.
  bool fits_with(std::vector<std::int64_t> sizes, std::size_t which, std::int64_t size) const {
    sizes[which] = size;
    return fits(sizes);
  }

  // The least size of one dimension, while the others are large.
  std::int64_t least_size(std::vector<std::int64_t> sizes, std::size_t which) const {
    std::int64_t low = -1, high = sizes[which];  // the least is in (low, high]
    while (high - low > 1) {
      sizes[which] = low + (high - low) / 2;
      (fits(sizes) ? high : low) = sizes[which];
    }
    return high;
  }

  const ir::Graph& graph_;
  std::vector<ir::ValueType> types_;
  std::vector<NamedDim> open_;
};

}  // namespace

std::string describe_small_inputs(const ir::Graph& graph, const std::vector<Value>& inputs) {
  return LeastSizes(graph, inputs).describe();
}

}  // namespace tessera::runtime
