#include "train/net/initial_weights.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "io/npz.h"
#include "tessera/model.h"
#include "train/net/separate_weights.h"
#include "train/net/training_graph.h"
#include "train/run/checkpoint.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;

bool is_weight(const Tensor& tensor) {
  return tensor.dtype() == DType::f32 && tensor.rank() > 0;
}

std::map<std::string, Tensor> arrays_of_file(const std::string& path) {
  if (fs::is_directory(path)) return newest_checkpoint(path).variables;
  if (fs::path(path).extension() == ".npz") return io::read_npz(path);
  std::map<std::string, Tensor> arrays;
  const ir::Graph graph = separate_weights(Model::load(path).graph());
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    const ir::ValueId id{static_cast<std::int32_t>(i)};
    if (const Tensor* constant = graph.constant(id)) arrays[graph.value(id).name] = *constant;
  }
  return arrays;
}

}  // namespace

std::map<std::string, Tensor> read_weights(const std::string& path) {
  require(fs::exists(path), ErrorKind::not_found, "model.weights: there is no '{}'", path);
  const std::map<std::string, Tensor> arrays = arrays_of_file(path);
  std::map<std::string, Tensor> weights;
  for (const auto& [name, array] : arrays) {
    const auto average = arrays.find(average_of(name));
    const Tensor& value = average != arrays.end() ? average->second : array;
    if (is_weight(value)) weights[name] = value;
  }
  return weights;
}

std::vector<std::string> take_weights(ir::Graph& graph, const std::map<std::string, Tensor>& weights) {
  std::vector<std::string> taken;
  std::vector<ir::ValueId> replacements(graph.value_count());
  for (std::size_t i = 0; i < replacements.size(); ++i) {
    const ir::ValueId id{static_cast<std::int32_t>(i)};
    const Tensor* constant = graph.constant(id);
    if (constant == nullptr || !is_weight(*constant)) continue;
    const std::string name = graph.value(id).name;
    const auto found = weights.find(name);
    if (found == weights.end() || found->second.shape() != constant->shape()) continue;
    graph.value(id).name.clear();
    replacements[i] = graph.add_constant(found->second.clone(), name);
    taken.push_back(name);
  }
  replacements.resize(graph.value_count());
  graph.replace_uses(replacements);
  graph.remove_dead_and_compact();
  return taken;
}

std::string describe_taken(const ir::Graph& graph, const std::map<std::string, Tensor>& weights,
                           const std::vector<std::string>& taken, const std::string& path) {
  std::vector<std::string> left;
  std::size_t all = 0;
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    const ir::ValueId id{static_cast<std::int32_t>(i)};
    const Tensor* constant = graph.constant(id);
    if (constant == nullptr || !is_weight(*constant)) continue;
    ++all;
    const std::string& name = graph.value(id).name;
    if (std::ranges::find(taken, name) != taken.end()) continue;
    const auto found = weights.find(name);
    left.push_back(base::shown(name) + (found == weights.end()
                                            ? " (not in it)"
                                            : fmt::format(" ({} there, {} here)", to_string(found->second.shape()),
                                                          to_string(constant->shape()))));
  }
  require(!taken.empty(), ErrorKind::invalid_argument,
          "model.weights: none of the {} weights of '{}' has the name and shape of one of the net's {}, such as {}",
          weights.size(), path, all, left.empty() ? "" : left[0]);
  constexpr std::size_t kShown = 5;
  std::string text = fmt::format("{} of {} constants are those of '{}'", taken.size(), all, path);
  if (left.empty()) return text;
  const auto end = left.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, left.size()));
  text += fmt::format("; not {}", fmt::join(left.begin(), end, ", "));
  return left.size() > kShown ? text + fmt::format(" and {} more", left.size() - kShown) : text;
}

}  // namespace tessera::train
