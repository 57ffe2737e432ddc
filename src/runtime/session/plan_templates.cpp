#include "runtime/session/plan_templates.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "ops/core/infer.h"
#include "ops/op_table.h"
#include "passes/number_ranks.h"
#include "passes/size_pattern.h"
#include "runtime/session/program.h"

namespace tessera::runtime {
namespace {

using ir::ValueId;

// Comparing longer ones would take longer than passes do.
constexpr std::int64_t kMostComparedBytes = std::int64_t{1} << 20;

bool are_equal(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (a.shares_storage_with(b)) return true;
  return !a.is_deferred() && !b.is_deferred() && a.bytes() <= kMostComparedBytes && a.has_data() && b.has_data() &&
         identical(a, b);
}

// Whether all that differ became larger, or all smaller. What is equal for both is then no function of them that only
// rises or falls.
bool go_one_way(const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to) {
  bool rises = false, falls = false;
  for (std::size_t i = 0; i < from.size(); ++i) {
    rises = rises || to[i] > from[i];
    falls = falls || to[i] < from[i];
  }
  return rises != falls;
}

std::vector<std::int64_t> difference(const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to) {
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i < from.size(); ++i) result.push_back(to[i] - from[i]);
  return result;
}

// a / b == c / d, for numbers small enough to tell.
bool is_same_ratio(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  const bool small =
      std::ranges::all_of(std::array{a, b, c, d}, [](std::int64_t x) { return x < kMost && x > -kMost; });
  return small && a * d == c * b;
}

// Shorter data are equal by chance.
constexpr std::int64_t kLeastOwnElements = 16;

std::string_view bytes_of(const Tensor& tensor) {
  return {static_cast<const char*>(tensor.raw()), static_cast<std::size_t>(tensor.bytes())};
}

bool is_own_data(const Tensor& tensor) {
  return !tensor.is_deferred() && tensor.has_data() && tensor.dtype() != DType::string &&
         tensor.elements() >= kLeastOwnElements && tensor.bytes() <= kMostComparedBytes;
}

// The shape that stands to `now` as `like` stands to `former`, which has the same dimensions but for ones.
std::optional<Shape> reshaped(const Shape& former, const Shape& like, const Shape& now) {
  Shape result;
  std::size_t next = 0;
  if (former.size() != now.size()) return std::nullopt;
  for (const std::int64_t size : like) {
    while (size != 1 && next < former.size() && former[next] == 1 && now[next] == 1) ++next;
    if (size == 1) {
      result.push_back(1);
      continue;
    }
    if (next == former.size() || former[next] != size) return std::nullopt;
    result.push_back(now[next++]);
  }
  for (; next < former.size(); ++next) {
    if (former[next] != 1 || now[next] != 1) return std::nullopt;
  }
  return result;
}

bool may_stay(const ir::Graph& graph, const ir::Node& node, const passes::PassContext& context) {
  const ops::OpDef* op = ops::find_op(node.op);
  return op == nullptr || op->decompose == nullptr || !context.keeps_composite || context.keeps_composite(graph, node);
}

}  // namespace

PlanTemplates::PlanTemplates(const ir::Graph& model, std::size_t most)
    : model_(model), most_(std::min(most, kMostTemplates)), sized_(model) {}

// What is said once of the model, when its second plan is made.
void PlanTemplates::look_at_model() {
  for (std::size_t i = 0; i < model_.value_count(); ++i) {
    const ValueId id{static_cast<std::int32_t>(i)};
    values_by_name_.emplace(model_.value(id).name, id);
    if (const Tensor* constant = model_.constant(id)) model_constants_.insert(constant->storage());
  }
  is_off_ = values_by_name_.size() != model_.value_count();
}

std::optional<PlanTemplates::Sizes> PlanTemplates::sizes_of(const std::vector<ir::ValueType>& inputs) const {
  Sizes sizes;
  for (const ir::ValueType& type : inputs) {
    if (!type.is_tensor() || !type.dims) return std::nullopt;
    for (const ir::Dim& dim : *type.dims) {
      if (!dim.is_known()) return std::nullopt;
      sizes.push_back(dim.value());
    }
  }
  return sizes;
}

std::vector<std::int64_t> PlanTemplates::pattern() const {
  std::vector<std::int64_t> all = passes::size_pattern(sized_.graph(), model_constants_, thresholds_);
  all.insert(all.end(), sized_.kept_composites().begin(), sized_.kept_composites().end());
  return all;
}

std::optional<PlanTemplates::Draft> PlanTemplates::draft(const std::vector<ir::ValueType>& inputs,
                                                         const passes::PassContext& context) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::none_of(templates_, [](const Template& each) { return !each.proven.empty(); })) return std::nullopt;
  const std::optional<Sizes> sizes = sizes_of(inputs);
  if (!sizes) return std::nullopt;
  try {
    if (!sized_.resize(inputs, context)) return std::nullopt;
    const Template* known = find(pattern(), *sizes);
    if (known == nullptr) return std::nullopt;
    std::optional<ir::Graph> graph = instantiate(*known, *sizes, context);
    return graph ? std::optional(Draft{*std::move(graph), known->plan}) : std::nullopt;
  } catch (const Error&) {
    // The passes say what is wrong, in their words.
    sized_.forget();
    context.check_stop();
    return std::nullopt;
  } catch (...) {
    sized_.forget();
    throw;
  }
}

const PlanTemplates::Template* PlanTemplates::find(const std::vector<std::int64_t>& pattern, const Sizes& sizes) {
  const auto knows = [&](const Template& each) {
    return each.sizes.size() == sizes.size() && each.pattern == pattern && is_proven(each, sizes);
  };
  const auto found = std::ranges::find_if(templates_, knows);
  if (found == templates_.end()) return nullptr;
  templates_.splice(templates_.begin(), templates_, found);
  return &templates_.front();
}

void PlanTemplates::learn(const std::vector<ir::ValueType>& inputs, std::shared_ptr<PreparedPlan> plan,
                          const passes::SizeNotes& notes, const passes::PassContext& context) {
  const std::lock_guard lock(mutex_);
  // Most programs have one shape, for which all of this is too much.
  if (!std::exchange(has_seen_a_plan_, true) || is_off_) return;
  if (values_by_name_.empty()) look_at_model();
  if (is_off_) return;
  std::optional<Sizes> sizes = sizes_of(inputs);
  if (notes.weighed || !sizes || failures_ > kMostFailures) {
    is_off_ = ++failures_ > kMostFailures;
    if (is_off_) templates_.clear();
    return;
  }
  for (const std::int64_t number : notes.thresholds) {
    if (thresholds_.insert(number).second) templates_.clear();
  }
  try {
    if (!sized_.resize(inputs, context)) {
      ++failures_;
      return;
    }
    std::vector<std::int64_t> now = pattern();
    const auto known = std::ranges::find_if(
        templates_, [&](const Template& each) { return each.pattern == now && each.sizes.size() == sizes->size(); });
    if (known != templates_.end()) {
      const bool had_a_guess = !known->computed.empty();
      prove(*known, *sizes, plan->plan->graph, context);
      const bool has_a_guess = !had_a_guess && !known->computed.empty();
      if (!known->proven.empty() || has_a_guess) return templates_.splice(templates_.begin(), templates_, known);
      templates_.erase(known);
    }
    templates_.push_front(make_template(std::move(now), *std::move(sizes), std::move(plan)));
    if (templates_.size() > most_) templates_.pop_back();
  } catch (const Error&) {
    sized_.forget();  // the plan is there all the same
  } catch (...) {
    sized_.forget();
    throw;
  }
}

void PlanTemplates::prove(Template& known, const Sizes& sizes, const ir::Graph& planned,
                          const passes::PassContext& context) {
  std::optional<ir::Graph> made;
  if (go_one_way(known.sizes, sizes)) {
    try {
      made = instantiate(known, sizes, context);
    } catch (const Error&) {  // a constant of other sizes contradicts those of now
      made.reset();
    }
    if (known.computed.empty() && (!made || !ir::structurally_equal(*made, planned))) guess(known, sizes, planned);
  }
  if (!made || !ir::structurally_equal(*made, planned)) {
    ++failures_;
    known.proven.clear();
    return;
  }
  failures_ = 0;
  if (!is_proven(known, sizes)) known.proven.push_back(difference(known.sizes, sizes));
}

bool PlanTemplates::is_proven(const Template& known, const Sizes& sizes) {
  Sizes left = difference(known.sizes, sizes);
  for (const Sizes& way : known.proven) {
    const auto first =
        static_cast<std::size_t>(std::ranges::find_if(way, [](std::int64_t each) { return each != 0; }) - way.begin());
    bool on_the_way = true;
    for (std::size_t i = 0; i < left.size(); ++i)
      on_the_way = on_the_way && (way[i] == 0 || is_same_ratio(left[i], way[i], left[first], way[first]));
    for (std::size_t i = 0; i < left.size() && on_the_way; ++i) left[i] = way[i] == 0 ? left[i] : 0;
  }
  return !known.proven.empty() && std::ranges::all_of(left, [](std::int64_t each) { return each == 0; });
}

// How small integer constants follow from sizes, by this plan and the template's. A third plan shows whether they do.
void PlanTemplates::guess(Template& known, const Sizes& sizes, const ir::Graph& planned) const {
  const ir::Graph& graph = known.plan->plan->graph;
  if (graph.value_count() != planned.value_count()) return;
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    const ValueId value{static_cast<std::int32_t>(i)};
    if (known.source[i].valid() || !graph.is_constant(value) || !planned.is_constant(value)) continue;
    const Tensor &from = *graph.constant(value), &to = *planned.constant(value);
    if (from.dtype() != DType::i64 || to.dtype() != DType::i64 || from.shape() != to.shape() || are_equal(from, to) ||
        !from.has_data() || !to.has_data() || from.elements() > passes::kMostNumbers)
      continue;
    Computed computed;
    for (std::int64_t k = 0; k < from.elements(); ++k) {
      const std::int64_t a = from.data<std::int64_t>()[k], b = to.data<std::int64_t>()[k];
      computed.emplace_back();
      for (std::size_t place = 0; a != b && place < sizes.size() && !computed.back(); ++place) {
        if (b - a == sizes[place] - known.sizes[place]) computed.back() = {place, a - known.sizes[place]};
      }
      if (a != b && !computed.back()) return known.computed.clear();
    }
    known.computed.emplace(value.index, std::move(computed));
  }
}

ValueId PlanTemplates::find_by_name(const std::string& name) const {
  const auto found = values_by_name_.find(name);
  return found != values_by_name_.end() ? found->second : ValueId{};
}

PlanTemplates::Template PlanTemplates::make_template(std::vector<std::int64_t> pattern, Sizes sizes,
                                                     std::shared_ptr<PreparedPlan> plan) const {
  const ir::Graph& planned = plan->plan->graph;
  const ir::Graph& sized = sized_.graph();
  std::vector<ValueId> source(planned.value_count());
  for (std::size_t i = 0; i < source.size(); ++i) {
    const ValueId value{static_cast<std::int32_t>(i)};
    const ValueId same = find_by_name(planned.value(value).name);
    if (!same.valid() || planned.is_constant(value) != sized.is_constant(same)) continue;
    const Tensor* constant = planned.is_constant(value) ? planned.constant(value) : nullptr;
    const bool equal = constant != nullptr ? are_equal(*constant, *sized.constant(same))
                                           : planned.value(value).type == sized.value(same).type;
    if (equal) source[i] = same;
  }
  Template made{std::move(pattern), std::move(sizes), std::move(plan), std::move(source), {}, {}, {}};
  find_reshaped_sources(made);
  return made;
}

// Passes give folded constants other names and ones among their dimensions.
void PlanTemplates::find_reshaped_sources(Template& made) const {
  const ir::Graph &planned = made.plan->plan->graph, &sized = sized_.graph();
  std::unordered_map<std::string_view, ValueId> folded;
  for (std::size_t i = 0; i < sized.value_count(); ++i) {
    const ValueId value{static_cast<std::int32_t>(i)};
    if (!sized.is_constant(value) || model_constants_.contains(sized.constant(value)->storage())) continue;
    if (is_own_data(*sized.constant(value))) folded.emplace(bytes_of(*sized.constant(value)), value);
  }
  for (std::size_t i = 0; i < made.source.size() && !folded.empty(); ++i) {
    const ValueId value{static_cast<std::int32_t>(i)};
    if (made.source[i].valid() || !planned.is_constant(value)) continue;
    const Tensor& constant = *planned.constant(value);
    if (model_constants_.contains(constant.storage()) || !is_own_data(constant)) continue;
    const auto found = folded.find(bytes_of(constant));
    if (found == folded.end()) continue;
    const Tensor& own = *sized.constant(found->second);
    if (own.dtype() != constant.dtype() || !reshaped(own.shape(), constant.shape(), own.shape())) continue;
    made.source[i] = found->second;
    made.shape_of_source.emplace(value.index, own.shape());
  }
}

std::optional<std::vector<char>> PlanTemplates::set_sources(ir::Graph& graph, const Template& from,
                                                            const Sizes& sizes) const {
  const ir::Graph& sized = sized_.graph();
  std::vector<char> changed(graph.value_count(), 0);
  for (std::size_t i = 0; i < changed.size(); ++i) {
    const ValueId value{static_cast<std::int32_t>(i)}, source = from.source[i];
    if (!source.valid()) continue;
    if (graph.is_constant(value)) {
      if (!sized.is_constant(source)) return std::nullopt;
      Tensor now = *sized.constant(source);
      if (const auto former = from.shape_of_source.find(value.index); former != from.shape_of_source.end()) {
        const std::optional<Shape> shape = reshaped(former->second, graph.constant(value)->shape(), now.shape());
        if (!shape) return std::nullopt;
        now = now.reshaped(*shape);
      }
      if (are_equal(*graph.constant(value), now)) continue;
      graph.become_constant(value, now);
    } else {
      if (graph.value(value).type == sized.value(source).type) continue;
      graph.value(value).type = sized.value(source).type;
    }
    changed[i] = 1;
  }
  for (const auto& [index, computed] : from.computed) {
    const ValueId value{index};
    Tensor numbers(DType::i64, graph.constant(value)->shape());
    for (std::size_t k = 0; k < computed.size(); ++k) {
      numbers.mutable_data<std::int64_t>()[k] =
          computed[k] ? sizes[computed[k]->place] + computed[k]->more : graph.constant(value)->data<std::int64_t>()[k];
    }
    graph.become_constant(value, std::move(numbers));
    changed[static_cast<std::size_t>(index)] = 1;
  }
  return changed;
}

// The template's graph with the sizes of the sized graph; nothing where a device no longer takes a composite.
std::optional<ir::Graph> PlanTemplates::instantiate(const Template& from, const Sizes& sizes,
                                                    const passes::PassContext& context) const {
  ir::Graph graph = from.plan->plan->graph;
  std::optional<std::vector<char>> now = set_sources(graph, from, sizes);
  if (!now) return std::nullopt;
  std::vector<char>& changed = *now;
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    const auto is_changed = [&](ValueId each) {
      return each.valid() && changed[static_cast<std::size_t>(each.index)] != 0;
    };
    if (std::ranges::none_of(node.inputs, is_changed) && std::ranges::none_of(node.outputs, is_changed)) continue;
    if (!may_stay(graph, node, context)) return std::nullopt;
    std::vector<ir::ValueType> former;
    for (const ValueId output : node.outputs) {
      former.push_back(output.valid() ? graph.value(output).type : ir::ValueType{});
      if (output.valid() && !from.source[static_cast<std::size_t>(output.index)].valid()) graph.value(output).type = {};
    }
    ops::infer_node_in_place(graph, id);
    for (std::size_t i = 0; i < former.size(); ++i) {
      const ValueId output = node.outputs[i];
      if (output.valid() && !(graph.value(output).type == former[i]))
        changed[static_cast<std::size_t>(output.index)] = 1;
    }
  }
  return graph;
}

}  // namespace tessera::runtime
