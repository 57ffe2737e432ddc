#include "protect/obfuscate/similarity.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "protect/obfuscate/dice.h"

namespace tessera::protect {
namespace {

constexpr std::size_t kMostNodes = 4000;

std::vector<std::string> operators_of(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::NodeId id : graph.order()) {
    if (names.size() < kMostNodes) names.push_back(graph.node(id).op);
  }
  return names;
}

// Each name by the number of its first place among different names.
std::vector<std::size_t> numbers_of(const std::vector<std::string>& names) {
  std::map<std::string, std::size_t> known;
  std::vector<std::size_t> numbers;
  for (const std::string& name : names) numbers.push_back(known.emplace(name, known.size()).first->second);
  return numbers;
}

template <typename T>
double closeness(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.empty() && b.empty()) return 1;
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return 1 - static_cast<double>(row.back()) / static_cast<double>(std::max(a.size(), b.size()));
}

// Nodes with their computed operands and the number of constant ones.
struct Structure {
  std::vector<std::vector<std::size_t>> operands;
  std::vector<std::size_t> constants;

  explicit Structure(const ir::Graph& graph) {
    std::map<std::int32_t, std::size_t> places;
    for (const ir::NodeId id : graph.order()) {
      if (places.size() < kMostNodes) places.emplace(id.index, places.size());
    }
    operands.resize(places.size());
    constants.resize(places.size());
    for (const auto& [index, place] : places) {
      for (const ir::ValueId input : graph.node({index}).inputs) {
        if (!input.valid()) continue;
        const ir::ValueInfo& value = graph.value(input);
        const auto producer = places.find(value.producer.index);
        if (value.origin == ir::Origin::node && producer != places.end()) operands[place].push_back(producer->second);
        else if (value.origin == ir::Origin::constant) ++constants[place];
      }
    }
  }
  // Replaces the operands of each node by random ones among the nodes before it.
  void draw_edges(Dice& dice) {
    for (std::size_t node = 1; node < operands.size(); ++node) {
      for (std::size_t& operand : operands[node]) operand = dice.below(node);
    }
  }

  // Numbers that are equal for equal surroundings, by the refinement of Weisfeiler and Leman, sorted.
  std::vector<std::uint64_t> surroundings() const {
    constexpr int kDistance = 2;
    constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15;
    const auto mixed = [](std::uint64_t a, std::uint64_t b) {
      return (a ^ (b + kFactor + (a << 6) + (a >> 2))) * kFactor;
    };
    std::vector<std::vector<std::size_t>> readers(operands.size());
    for (std::size_t node = 0; node < operands.size(); ++node) {
      for (const std::size_t operand : operands[node]) readers[operand].push_back(node);
    }
    std::vector<std::uint64_t> labels;
    for (std::size_t node = 0; node < operands.size(); ++node)
      labels.push_back(mixed(mixed(operands[node].size() + 1, constants[node] + 1), readers[node].size() + 1));
    for (int round = 0; round < kDistance; ++round) {
      std::vector<std::uint64_t> next;
      for (std::size_t node = 0; node < operands.size(); ++node) {
        std::uint64_t label = labels[node];
        for (const auto* neighbours : {&operands[node], &std::as_const(readers[node])}) {
          std::vector<std::uint64_t> theirs;
          for (const std::size_t each : *neighbours) theirs.push_back(labels[each]);
          std::ranges::sort(theirs);
          label = mixed(label, theirs.size());
          for (const std::uint64_t each : theirs) label = mixed(label, each);
        }
        next.push_back(label);
      }
      labels = std::move(next);
    }
    std::ranges::sort(labels);
    return labels;
  }
};

// The share of the first list's numbers that have a partner of their own in the second.
double shared(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
  std::vector<std::uint64_t> both;
  std::ranges::set_intersection(a, b, std::back_inserter(both));
  return a.empty() ? 1 : static_cast<double>(both.size()) / static_cast<double>(a.size());
}

}  // namespace

GraphSimilarity compare_graphs(const ir::Graph& original, const ir::Graph& hidden, std::uint64_t seed) {
  constexpr int kDraws = 20;
  const std::vector<std::string> ours = operators_of(original), theirs = operators_of(hidden);
  GraphSimilarity similarity{closeness(ours, theirs), closeness(numbers_of(ours), numbers_of(theirs))};
  const std::vector<std::uint64_t> surroundings = Structure(original).surroundings();
  Structure structure(hidden);
  similarity.subgraphs = shared(surroundings, structure.surroundings());
  Dice dice(seed);
  for (int draw = 0; draw < kDraws; ++draw) {
    structure.draw_edges(dice);
    similarity.subgraphs_by_chance += shared(surroundings, structure.surroundings()) / kDraws;
  }
  return similarity;
}

}  // namespace tessera::protect
