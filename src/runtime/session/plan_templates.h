// Graphs of plans that need no passes, because they are those of other plans of the program with other sizes.
//
// What passes make of a graph depends on its sizes through comparisons. Plans whose sizes compare in the same way
// (passes/size_pattern.h), and for which no pass weighed costs, have the same nodes. The graph of such a plan is a
// template: types are inferred anew where sizes changed, folded constants are computed anew. Two plans made by passes
// must agree before a template serves a third: the one, made from the other, has to come out equal in every type,
// attribute and constant, and it serves only inputs that differ from its own as those two did, by more or by less.
//
// A plan is the same with templates and without.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "passes/pass.h"
#include "passes/sized_graph.h"
#include "tessera/tensor.h"

namespace tessera::runtime {

struct PreparedPlan;

// Thread-safe.
class PlanTemplates {
 public:
  // `model`: the graph that all plans start from; it outlives this. No more than `most` plans are kept, and no more
  // than kMostTemplates.
  PlanTemplates(const ir::Graph& model, std::size_t most);

  struct Draft {
    ir::Graph graph;
    std::shared_ptr<PreparedPlan> like;  // whose graph it was made from
  };
  // The graph of the plan for inputs of these types, if it is known without passes. Throws what a stop of the context
  // throws.
  std::optional<Draft> draft(const std::vector<ir::ValueType>& inputs, const passes::PassContext& context);
  // Learns from a plan that passes made for these inputs, with what they noted.
  void learn(const std::vector<ir::ValueType>& inputs, std::shared_ptr<PreparedPlan> plan,
             const passes::SizeNotes& notes, const passes::PassContext& context);
  static constexpr std::size_t kMostTemplates = 8;

 private:
  // All dimensions of all inputs in a row.
  using Sizes = std::vector<std::int64_t>;

  // A number in a constant that passes made of sizes: the size at this place and so much more.
  struct FromSize {
    std::size_t place = 0;
    std::int64_t more = 0;
  };
  // By element; nothing where the number is always the same.
  using Computed = std::vector<std::optional<FromSize>>;

  struct Template {
    std::vector<std::int64_t> pattern;
    Sizes sizes;
    std::shared_ptr<PreparedPlan> plan;
    std::vector<ir::ValueId> source;  // by value of the plan's graph: the value of the model that it is; or invalid
    // By value: where its source has another shape, the shape that the source had for this plan.
    std::unordered_map<std::int32_t, Shape> shape_of_source;
    std::unordered_map<std::int32_t, Computed> computed;  // constants by value; a guess until `proven`
    // Differences from `sizes` at which a plan that passes made was the same. Sizes that lie on the line through one,
    // or differ by several that move different sizes, are known.
    std::vector<Sizes> proven;
  };

  void look_at_model();
  static bool is_proven(const Template& known, const Sizes& sizes);
  // The template that knows all that differs; null: there is none.
  const Template* find(const std::vector<std::int64_t>& pattern, const Sizes& sizes);
  Template make_template(std::vector<std::int64_t> pattern, Sizes sizes, std::shared_ptr<PreparedPlan> plan) const;
  void find_reshaped_sources(Template& made) const;
  std::optional<ir::Graph> instantiate(const Template& from, const Sizes& sizes,
                                       const passes::PassContext& context) const;
  // Sets the sources' types and contents; returns which values changed, or nothing where that cannot be.
  std::optional<std::vector<char>> set_sources(ir::Graph& graph, const Template& from, const Sizes& sizes) const;
  void guess(Template& known, const Sizes& sizes, const ir::Graph& planned) const;
  void prove(Template& known, const Sizes& sizes, const ir::Graph& planned, const passes::PassContext& context);
  std::vector<std::int64_t> pattern() const;
  std::optional<Sizes> sizes_of(const std::vector<ir::ValueType>& inputs) const;
  ir::ValueId find_by_name(const std::string& name) const;

  static constexpr int kMostFailures = 16;  // in a row, after which it learns no more

  std::mutex mutex_;
  const ir::Graph& model_;
  const std::size_t most_;
  passes::SizedGraph sized_;
  std::unordered_set<const void*> model_constants_;              // by storage
  std::unordered_map<std::string, ir::ValueId> values_by_name_;  // made when first needed
  std::set<std::int64_t> thresholds_;
  std::list<Template> templates_;  // the latest used first
  bool has_seen_a_plan_ = false, is_off_ = false;
  int failures_ = 0;
};

}  // namespace tessera::runtime
