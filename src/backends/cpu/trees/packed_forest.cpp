#include "backends/cpu/trees/packed_forest.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"

namespace tessera::backends::cpu {
namespace {

using ops::Comparison;
using ops::Forest;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::uint32_t kNanBits = 0x7FC00000;

// A node's comparison, converted to x <= split, or to x == split if `equal`.
struct Rule {
  float split = kNan;
  bool exchange = false;         // of the children
  bool missing_is_true = false;  // NaN takes the branch of x <= split
  bool equal = false;
};

// The largest float32 number below `value`; NaN if there is none.
float float_below(double value) {
  const float rounded = float_below_or_equal(value);
  if (static_cast<double>(rounded) < value) return rounded;
  return rounded == -std::numeric_limits<float>::infinity()
             ? kNan
             : std::nextafter(rounded, -std::numeric_limits<float>::infinity());
}

Rule rule_of(const Forest::Node& node) {
  const bool missing = node.missing_is_true;
  const float below_or_equal = float_below_or_equal(node.split);
  const bool is_float = static_cast<double>(below_or_equal) == node.split;
  switch (node.comparison) {
    case Comparison::less_equal:
      return {below_or_equal, false, missing};
    case Comparison::less:
      return {float_below(node.split), false, missing};
    case Comparison::greater:
    case Comparison::greater_equal:
      if (std::isnan(node.split)) return {kNan, false, missing};
      return {node.comparison == Comparison::greater ? below_or_equal : float_below(node.split), true, !missing};
    case Comparison::equal:
      return is_float ? Rule{below_or_equal, false, missing, true} : Rule{kNan, false, missing};
    case Comparison::not_equal:  // NaN differs from every number
      return is_float ? Rule{below_or_equal, true, false, true} : Rule{kNan, true, false};
    case Comparison::member:
      break;
  }
  fail(ErrorKind::unsupported, "a packed forest has no tests of membership");
}

std::uint64_t node_of(float split, std::uint32_t word) {
  return std::uint64_t{word} << 32 | std::bit_cast<std::uint32_t>(split);
}

class Packer {
 public:
  explicit Packer(const Forest& forest) : forest_(forest) {
    for (const Forest::Node& node : forest.nodes) rules_.push_back(rule_of(node));
    const auto features = static_cast<std::uint32_t>(std::max<std::int64_t>(forest.features, 1));
    std::uint32_t bits = static_cast<std::uint32_t>(std::bit_width(features - 1));
    packed_.feature_mask = (1u << bits) - 1;
    if (std::ranges::any_of(rules_, &Rule::missing_is_true)) packed_.missing = 1u << bits++;
    if (std::ranges::any_of(rules_, &Rule::equal)) {
      if (packed_.missing == 0) packed_.missing = 1u << bits++;
      packed_.equal = 1u << bits++;
    }
    packed_.child_shift = bits;
  }

  PackedForest pack() {
    for (const std::int64_t root : forest_.roots) add_tree(root);
    for (const PackedForest::Tree& tree : packed_.trees) packed_.roots.push_back(tree.first_node);
    packed_.roots.insert(packed_.roots.end(), PackedForest::kPadding, packed_.roots.empty() ? 0 : packed_.roots.back());
    if (!packed_.leaves.empty()) packed_.levels /= static_cast<double>(packed_.leaves.size());
    return std::move(packed_);
  }

 private:
  struct Open {
    std::int64_t at;      // a child, as in Forest::Node
    std::uint32_t place;  // in the tree
    std::uint32_t level;
  };

  // Adds a tree with children before siblings, so that the last levels below a node are contiguous.
  void add_tree(std::int64_t root) {
    const std::size_t first = packed_.nodes.size(), first_leaf = packed_.leaves.size();
    std::uint32_t levels = 0;
    packed_.nodes.push_back(0);
    std::vector<Open> open{{root, 0, 0}};
    while (!open.empty()) {
      const Open next = open.back();
      open.pop_back();
      levels = std::max(levels, next.level);
      const std::size_t to = first + next.place;
      if (next.at < 0) {
        const auto number = static_cast<std::uint32_t>(packed_.leaves.size() - first_leaf);
        packed_.nodes[to] = node_of(std::bit_cast<float>(kNanBits | number), next.place << packed_.child_shift);
        packed_.leaves.push_back(static_cast<std::size_t>(-1 - next.at));
        packed_.levels += next.level;
        continue;
      }
      const auto i = static_cast<std::size_t>(next.at);
      const Forest::Node& node = forest_.nodes[i];
      const Rule& rule = rules_[i];
      const auto child = static_cast<std::uint32_t>(packed_.nodes.size() - first);
      const std::uint32_t flags = (rule.missing_is_true ? packed_.missing : 0) | (rule.equal ? packed_.equal : 0);
      packed_.nodes[to] =
          node_of(rule.split, child << packed_.child_shift | flags | static_cast<std::uint32_t>(node.feature));
      packed_.nodes.resize(packed_.nodes.size() + 2);
      open.push_back({rule.exchange ? node.when_false : node.when_true, child + 1, next.level + 1});
      open.push_back({rule.exchange ? node.when_true : node.when_false, child, next.level + 1});
    }
    packed_.trees.push_back(
        {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(first_leaf), levels <= 4, levels <= 3});
    packed_.tops.push_back(top_of(packed_.nodes.data() + first));
  }

  TreeTop top_of(const std::uint64_t* tree) const {
    TreeTop top{};
    top.splits.fill(kNan);
    for (std::size_t i = 0; i < TreeTop::kNodes; ++i) {
      const std::uint32_t place = top.places[i];
      const auto word = static_cast<std::uint32_t>(tree[place] >> 32);
      const std::uint32_t child = word >> packed_.child_shift;
      const bool leaf = child == place;
      top.splits[i] = leaf ? kNan : std::bit_cast<float>(static_cast<std::uint32_t>(tree[place]));
      top.words[i] = word & ((1u << packed_.child_shift) - 1);
      top.places[2 * i + 1] = child;
      top.places[2 * i + 2] = leaf ? child : child + 1;
    }
    return top;
  }

  const Forest& forest_;
  std::vector<Rule> rules_;  // one per node
  PackedForest packed_;
};

}  // namespace

std::string packing_fault(std::int64_t nodes_of_tree, std::int64_t all_nodes, std::int64_t trees,
                          std::int64_t features) {
  constexpr std::int64_t most_nodes = std::int64_t{1} << 26;
  if (features > std::int64_t{1} << 22) return "takes at most 2^22 features";
  if (all_nodes > most_nodes) return "takes at most 2^26 nodes";
  if (trees > std::int64_t{1} << 20) return "takes at most 2^20 trees";
  const auto bits = [](std::int64_t count) { return std::bit_width(static_cast<std::uint64_t>(count)); };
  // A word holds two flags, a feature and the positions of all nodes and leaves.
  if (nodes_of_tree > PackedForest::kLeafNumbers - 1 || bits(features) + 2 + bits(2 * nodes_of_tree + 1) > 31)
    return "takes smaller trees of so many features";
  return "";
}

PackedForest pack_forest(const Forest& forest) {
  return Packer(forest).pack();
}

float float_below_or_equal(double value) {
  constexpr double smallest_normal = std::numeric_limits<float>::min();
  if (std::abs(value) < smallest_normal) {
    // For multiples of the smallest denormal, the multiple is the bit pattern.
    const auto units = static_cast<std::int32_t>(std::floor(value * 0x1p149));
    return std::bit_cast<float>(units < 0 ? 0x80000000u | static_cast<std::uint32_t>(-units)
                                          : static_cast<std::uint32_t>(units));
  }
  const float nearest = static_cast<float>(value);
  return static_cast<double>(nearest) > value ? std::nextafter(nearest, -std::numeric_limits<float>::infinity())
                                              : nearest;
}

}  // namespace tessera::backends::cpu
