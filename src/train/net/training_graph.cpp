// Length: one class whose members share the graph that they build.
#include "train/net/training_graph.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "ir/constant_role.h"
#include "ops/core/builder.h"
#include "ops/core/gradient.h"
#include "passes/training/differentiate.h"
#include "passes/training/recompute.h"
#include "train/net/batch_norm.h"
#include "train/net/fake_quantisation.h"
#include "train/net/frozen_batch_norm.h"
#include "train/net/layer_weights.h"
#include "train/net/mixed_precision.h"
#include "train/net/optimiser_graph.h"
#include "train/net/prepared_model.h"
#include "train/net/separate_weights.h"
#include "train/net/untrained.h"

namespace tessera::train {
namespace {

using ir::ValueId;
using ops::Term;

// Adds the nodes of the step to the graph. Scalars are f32, as parameters are.
class Step {
 public:
  Step(ir::Graph graph, const TrainingGraphOptions& options, bool trains)
      : options_(options),
        trains_(trains),
        patterns_{options.frozen, options.trained},
        constants_(names_of_constants(graph)),
        predictions_(find_predictions(graph)),
        graph_(prepared_model(std::move(graph), options, trains)),
        builder_(graph_) {}

  TrainingGraph build_evaluation() {
    const ValueId prediction = prepare(false);
    if (options_.batch_norm == BatchNorm::train) add_statistics(read_running_statistics(graph_, options_.frozen));
    make_parameters();
    // Not with quantised weights, which are multiplied without folding.
    if (options_.batch_norm == BatchNorm::frozen && !options_.compress) take_up_frozen_batch_norm(graph_);
    if (options_.precision != DType::f32) round_products(graph_, options_.precision);
    std::vector<ValueId> outputs;
    std::vector<std::size_t> places;  // index of each loss's prediction among the outputs
    std::vector<Term> losses, counts;
    for (const Objective& each : objectives()) {
      const ValueId compared = losses.empty() ? prediction : output_of(losses.size());
      const LossValues made = add_loss(compared, each, false);
      const ValueId output = classes_first(compared, each.loss);
      places.push_back(static_cast<std::size_t>(std::ranges::find(outputs, output) - outputs.begin()));
      if (places.back() == outputs.size()) outputs.push_back(output);
      losses.push_back(Term(builder_, made.loss).cast(DType::f32).unsqueeze({0}));
      counts.push_back(Term(builder_, made.count).cast(DType::f32).unsqueeze({0}));
    }
    graph_.set_outputs(outputs);
    for (const auto& [name, value] :
         {std::pair{"losses", join_numbers(losses)}, {"loss_counts", join_numbers(counts)}}) {
      std::string free = name;  // a name that the model does not use
      while (graph_.find_value(free).valid()) free += "_";
      name_output(value, free.c_str());
    }
    TrainingGraph made = finish();
    made.predictions = std::move(places);
    return made;
  }

  TrainingGraph build() {
    const ValueId prediction = prepare(true);
    const std::vector<ValueId> results = graph_.outputs(), inputs = graph_.inputs();
    if (options_.teacher) keep_maps(graph_, *options_.teacher);
    quantisation_states_ = statistics_.size();
    if (options_.batch_norm == BatchNorm::train) add_statistics(train_batch_norm(graph_, options_.frozen));
    make_parameters();
    // Not with quantised weights, which are multiplied without folding.
    if (options_.batch_norm == BatchNorm::frozen && !options_.compress) take_up_frozen_batch_norm(graph_);
    if (options_.precision != DType::f32) round_products(graph_, options_.precision);
    if (options_.accumulate > 1) begin_micro_batches();
    const Term loss(builder_, add_whole_loss(prediction, inputs));
    graph_.set_outputs(results);
    Term run_loss = loss;
    if (options_.loss_scale.on) {
      loss_scale_ = Term(builder_, graph_.add_variable("train/loss_scale", Tensor::scalar(initial_scale())));
      run_loss = loss * *loss_scale_;
    }
    trained_.gradients = passes::build_gradients(graph_, run_loss.id(), trained_.values, observed_);
    if (micro_batches_) {
      micro_batches_->gather_rows(loss);
      micro_batches_->sum_gradients(trained_);
    }
    if (options_.accumulate == 1) find_row_gradients(builder_, options_.optimiser, trained_);
    update(loss);
    keep_loss(loss);
    const ValueId scaled_loss = run_loss.id();
    name_output(loss.cast(DType::f32).id(), "loss");
    if (options_.recompute_bytes > 0) {
      graph_.sort_topologically();
      recompute_ = passes::recompute(graph_, makers_of(scaled_loss), options_.recompute_bytes);
    }
    return finish();
  }

 private:
  // The nodes that the value depends on, in topological order.
  std::vector<ir::NodeId> makers_of(ValueId value) const {
    std::vector<bool> needed(graph_.value_count());
    needed[static_cast<std::size_t>(value.index)] = true;
    std::vector<ir::NodeId> makers;
    for (auto id = graph_.order().rbegin(); id != graph_.order().rend(); ++id) {
      const ir::Node& node = graph_.node(*id);
      const bool makes = std::ranges::any_of(
          node.outputs, [&](ValueId each) { return each.valid() && needed[static_cast<std::size_t>(each.index)]; });
      if (!makes) continue;
      makers.push_back(*id);
      for (const ValueId input : node.inputs) {
        if (input.valid()) needed[static_cast<std::size_t>(input.index)] = true;
      }
    }
    std::ranges::reverse(makers);
    return makers;
  }

  TrainingGraph finish() {
    graph_.sort_topologically();
    graph_.remove_dead_and_compact();
    std::vector<std::string> statistics;
    for (const RunningStatistic& each : statistics_) statistics.push_back(each.name);
    return {std::move(graph_),     std::move(trained_.names), std::move(reasons_),
            std::move(statistics), std::move(untrained_),     std::move(recompute_)};
  }

  Term number(double value) { return {builder_, builder_.scalar(value)}; }
  Term whole(std::int64_t value) { return {builder_, builder_.constant(Tensor::scalar(value))}; }
  float initial_scale() const { return static_cast<float>(options_.loss_scale.initial); }

  void name_output(ValueId value, const char* name) {
    graph_.value(value).name = name;
    graph_.add_output(value);
  }

  static ValueId join_numbers(const std::vector<Term>& numbers) {
    return numbers.size() == 1
               ? numbers[0].id()
               : numbers[0].combine("Concat", {numbers.begin() + 1, numbers.end()}, {{"axis", std::int64_t{0}}}).id();
  }

  std::vector<Objective> objectives() const {
    std::vector<Objective> all{{options_.loss, options_.target_type, options_.target_dims}};
    all.insert(all.end(), options_.further.begin(), options_.further.end());
    return all;
  }

  ValueId output_of(std::size_t loss) const { return outputs_[predictions_[loss]]; }

  // Finds the model's output that each loss compares.
  std::vector<std::size_t> find_predictions(const ir::Graph& model) const {
    std::vector<std::size_t> found;
    for (const Objective& each : objectives()) found.push_back(find_output(model, each.loss.prediction));
    return found;
  }

  static std::size_t find_output(const ir::Graph& model, const std::string& name) {
    const auto& outputs = model.outputs();
    std::string names;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (model.value(outputs[i]).name == name) return i;
      names += (names.empty() ? "'" : ", '") + model.value(outputs[i]).name + "'";
    }
    require(name.empty(), ErrorKind::invalid_argument, "the model has no output '{}'; its outputs are {}", name, names);
    require(outputs.size() == 1, ErrorKind::invalid_argument,
            "the model has {} outputs ({}); say which one the loss compares (loss.prediction)", outputs.size(), names);
    return 0;
  }

  // --- forward ---

  // Returns the prediction of the net, in its form for training or evaluation.
  ValueId prepare(bool trains) {
    graph_ = separate_weights(std::move(graph_));
    if (options_.compress) {
      FakeQuantisation made = fake_quantise(graph_, *options_.compress, options_.accumulate,
                                            options_.batch_norm == BatchNorm::frozen, trains);
      add_statistics(std::move(made.state));
      observed_ = std::move(made.constants);
    }
    outputs_ = graph_.outputs();
    return output_of(0);
  }

  void add_statistics(std::vector<RunningStatistic> statistics) {
    std::ranges::move(statistics, std::back_inserter(statistics_));
  }

  void check_patterns(const char* key, const std::vector<std::string>& patterns) const {
    for (const std::string& pattern : patterns) {
      const bool found =
          std::ranges::any_of(constants_, [&](const auto& name) { return matches_any({pattern}, name); });
      require(found, ErrorKind::invalid_argument, "{}: no weight has a name like '{}'", key, pattern);
    }
  }

  // For each value that is a float32 constant, whether gradients of the model's outputs flow to it. A table that only a
  // comparison reads is no weight, and weight decay would change it. In evaluations, more constants may be variables.
  std::vector<bool> reached_by_gradients() const {
    std::vector<bool> reached(graph_.value_count(), true);
    if (!trains_) return reached;
    std::vector<ValueId> ys, xs;
    for (const ValueId output : graph_.outputs()) ys.push_back(output);
    for (std::size_t i = 0; i < graph_.value_count(); ++i) {
      const ValueId id{static_cast<std::int32_t>(i)};
      if (graph_.is_constant(id) && graph_.constant(id)->dtype() == DType::f32) xs.push_back(id);
    }
    const std::vector<bool> found = passes::reached_by_gradients(graph_, ys, xs);
    for (std::size_t i = 0; i < xs.size(); ++i) reached[static_cast<std::size_t>(xs[i].index)] = found[i];
    return reached;
  }

  void make_parameters() {
    check_patterns("frozen", options_.frozen);
    check_patterns("trained", options_.trained);
    std::vector<ValueId> replacements(graph_.value_count());
    const std::set<ValueId> fixed = batch_norm_constants(graph_, options_.batch_norm == BatchNorm::frozen);
    const auto uses = graph_.compute_uses();
    const std::vector<bool> reached = reached_by_gradients();
    for (std::size_t i = 0; i < replacements.size(); ++i) {
      const ValueId id{static_cast<std::int32_t>(i)};
      const Tensor* constant = graph_.constant(id);
      if (constant == nullptr || constant->dtype() != DType::f32 || uses[i].empty() ||
          ir::role_of(graph_, id) == ir::ConstantRole::computed)
        continue;
      const std::string name = graph_.value(id).name;
      // Constants of the step itself are not the model's.
      if (constant->rank() == 0 && std::ranges::find(constants_, name) == constants_.end()) continue;
      WeightChoice choice = choose_weight(graph_, id, uses[i], patterns_);
      if (fixed.contains(id)) choice = {false, "of BatchNormalization, frozen"};
      if (choice.trained && !reached[i]) choice = {false, "no gradient reaches it"};
      if (!choice.trained) {
        if (constant->rank() > 0) untrained_.emplace_back(name, choice.reason);
        continue;
      }
      reasons_.push_back(choice.reason);
      // The variable takes over the constant's name.
      graph_.value(id).name = name + "/initial";
      trained_.names.push_back(name);
      trained_.values.push_back(graph_.add_variable(name, *constant));
      replacements[i] = trained_.values.back();
    }
    require(!trained_.values.empty(), ErrorKind::invalid_argument, "the model has no float32 weights left to train{}",
            untrained_.empty() ? ""
                               : fmt::format(": of {} constants none is one ('{}' is {}); model.trained names those "
                                             "that are trained all the same",
                                             untrained_.size(), untrained_[0].first, untrained_[0].second));
    replacements.resize(graph_.value_count());
    graph_.replace_uses(replacements);
  }

  // The target of that name: an input of the model, or else a new input.
  ValueId add_target(const std::string& name, const Objective& objective) {
    ValueId id;
    for (const ValueId input : graph_.inputs()) {
      if (graph_.value(input).name == name) id = input;
    }
    if (!id.valid()) id = graph_.add_input(name, ir::ValueType::tensor(objective.target_type, objective.target_dims));
    const Term given(builder_, id);
    if (given.dtype() == DType::boolean) return given.cast(DType::f32).id();
    return is_float(given.dtype()) ? id : given.cast(DType::i64).id();
  }

  // The prediction for metrics: if its shape does not tell which axis the classes have, it is transposed so that they
  // are along axis 1.
  ValueId classes_first(ValueId prediction, const LossOptions& loss) {
    const Term scores(builder_, prediction);
    if (loss.class_axis >= 0 || scores.rank() < 3) return prediction;
    std::vector<std::int64_t> order{0, scores.rank() - 1};
    for (std::int64_t axis = 1; axis + 1 < scores.rank(); ++axis) order.push_back(axis);
    return scores.transpose(order).id();
  }

  LossValues add_loss(ValueId prediction, const Objective& objective, bool mixup) {
    LossInputs inputs{prediction, add_target(objective.loss.target, objective), {}, {}};
    if (mixup) {
      inputs.mixed_target = add_target(objective.loss.target + "_mixed", objective);
      const ir::Dims& dims = objective.target_dims;
      const ir::Dims batch = dims.empty() ? ir::Dims{} : ir::Dims{dims[0]};
      inputs.mix = graph_.add_input("mix", ir::ValueType::tensor(DType::f32, batch));
    }
    return build_loss(builder_, inputs, objective.loss);
  }

  // The weighted sum of all losses, including a teacher's. `inputs` are those of the model.
  ValueId add_whole_loss(ValueId prediction, const std::vector<ValueId>& inputs) {
    std::optional<Term> sum;
    std::size_t added = 0;
    for (const Objective& each : objectives()) {
      const ValueId output = sum ? output_of(added) : prediction;
      Term loss(builder_, add_loss(output, each, options_.mixup).loss);
      ++added;
      if (each.loss.weight != 1) loss = loss * each.loss.weight;
      sum = sum ? *sum + loss.cast(sum->dtype()) : loss;
    }
    if (!options_.teacher) return sum->id();
    return add_distillation(builder_, {inputs, prediction, sum->id(), options_.target_dims}, *options_.teacher);
  }

  // --- backward ---

  void begin_micro_batches() {
    require(options_.ranks.ranks == 1 || quantisation_states_ == 0, ErrorKind::unsupported,
            "fake quantisation follows the ranges of one micro-batch after the other, which {} ranks run at the same "
            "time: train with [compress] on one rank",
            options_.ranks.ranks);
    micro_batches_.emplace(builder_, options_.accumulate, options_.ranks);
    last_ = micro_batches_->last();
    micro_batches_->separate_statistics(
        {statistics_.begin() + static_cast<std::ptrdiff_t>(quantisation_states_), statistics_.end()});
  }

  // --- update ---

  void update(Term loss) {
    const Term rate(builder_, graph_.add_input("learning_rate", ir::ValueType::tensor(DType::f32, ir::Dims{})));
    const Term count(builder_, graph_.add_variable("train/count", Tensor::scalar(std::int64_t{0})));
    Term scale = number(1.0 / static_cast<double>(options_.accumulate));
    if (loss_scale_) scale = scale / *loss_scale_;
    std::vector<ValueId> operands{scale.id()};
    operands.insert(operands.end(), trained_.gradients.begin(), trained_.gradients.end());
    const Term norm(builder_, builder_.add("tessera::GlobalNorm", operands));
    const Term finite = norm < number(HUGE_VAL);  // false for NaN too
    const Term apply = last_ ? finite & *last_ : finite;
    count_where("train/skipped", last_ ? finite.apply("Not") & *last_ : finite.apply("Not"));
    const Term next_count = count + whole(1);
    graph_.set_variable_update("train/count", apply.choose(next_count, count).id());
    if (loss_scale_) update_loss_scale(finite);
    if (options_.optimiser.clip_norm > 0) {
      // The factor is that of PyTorch's clip_grad_norm_.
      const Term factor = number(options_.optimiser.clip_norm) / (norm + 1e-6);
      scale = scale * factor.combine("Min", {number(1)});
    }
    const std::vector<ValueId> updated =
        add_optimiser(builder_, options_.optimiser, trained_, {rate.id(), next_count.id(), scale.id(), apply.id()});
    if (options_.average_decay > 0) update_averages(updated, apply);
    update_statistics(finite, loss);
    name_output(norm.id(), "gradient_norm");
    name_output(finite.apply("Not").id(), "skipped");
  }

  // Adds 1 to a variable if the condition holds.
  void count_where(const std::string& name, Term condition) {
    const Term before(builder_, graph_.add_variable(name, Tensor::scalar(std::int64_t{0})));
    graph_.set_variable_update(name, (before + condition.cast(DType::i64)).id());
  }

  void keep_loss(Term loss) {
    const Term sum(builder_, graph_.add_variable("train/loss_sum", Tensor::scalar(0.0)));
    if (!micro_batches_) {
      const Term finite = loss.apply("Abs") < HUGE_VAL;  // false for NaN too
      graph_.set_variable_update("train/loss_sum", (sum + finite.choose(loss, 0).cast(DType::f64)).id());
      return count_where("train/loss_count", finite);
    }
    const Term losses = micro_batches_->losses();
    const Term finite = losses.apply("Abs") < HUGE_VAL;
    const Term total = sum + finite.choose(losses, 0).cast(DType::f64).sum({0}, false);
    graph_.set_variable_update("train/loss_sum", (last_ ? last_->choose(total, sum) : total).id());
    const Term count(builder_, graph_.add_variable("train/loss_count", Tensor::scalar(std::int64_t{0})));
    const Term counted = count + finite.cast(DType::i64).sum({0}, false);
    graph_.set_variable_update("train/loss_count", (last_ ? last_->choose(counted, count) : counted).id());
  }

  void update_loss_scale(Term finite) {
    const LossScaleOptions& given = options_.loss_scale;
    const Term good(builder_, graph_.add_variable("train/good_steps", Tensor::scalar(std::int64_t{0})));
    const Term more = good + whole(1);
    const Term grows = finite & more.equals(whole(given.grow_after));
    const Term up = (*loss_scale_ * 2).combine("Min", {number(given.most)});
    const Term down = (*loss_scale_ * 0.5).combine("Max", {number(given.least)});
    Term scale = finite.choose(grows.choose(up, *loss_scale_), down);
    Term steps = (finite & grows.apply("Not")).choose(more, whole(0));
    if (last_) {
      // All runs of an update must have the same scale.
      scale = last_->choose(scale, *loss_scale_);
      steps = last_->choose(steps, good);
    }
    graph_.set_variable_update("train/loss_scale", scale.id());
    graph_.set_variable_update("train/good_steps", steps.id());
  }

  // The statistics of a run that overflowed may be NaN, and are dropped. With accumulation, those of BatchNormalization
  // change once in an update.
  void update_statistics(Term finite, Term loss) {
    const Term of_run = micro_batches_ ? finite & (loss.apply("Abs") < HUGE_VAL) : finite;
    const Term of_update = last_ ? finite & *last_ : finite;
    for (std::size_t i = 0; i < statistics_.size(); ++i) {
      const RunningStatistic& each = statistics_[i];
      const Term before(builder_, each.value);
      const bool folds = micro_batches_ && i >= quantisation_states_;
      const Term next = folds ? micro_batches_->folded(i - quantisation_states_) : Term(builder_, each.next);
      graph_.set_variable_update(each.name, (folds ? of_update : of_run).choose(next, before).id());
    }
  }

  void update_averages(const std::vector<ValueId>& updated, Term apply) {
    const double decay = options_.average_decay;
    for (std::size_t i = 0; i < trained_.names.size(); ++i) {
      const std::string name = average_of(trained_.names[i]);
      const Tensor initial = std::ranges::find(graph_.variables(), trained_.names[i], &ir::Variable::name)->initial;
      const Term average(builder_, graph_.add_variable(name, initial));
      const Term next = average * decay + Term(builder_, updated[i]) * (1 - decay);
      graph_.set_variable_update(name, apply.choose(next, average).id());
    }
  }

  const TrainingGraphOptions& options_;
  bool trains_;
  WeightPatterns patterns_;
  std::vector<std::string> constants_;    // names of the model's own
  std::vector<std::size_t> predictions_;  // index of the output that each loss compares
  std::vector<ValueId> outputs_;          // of the model
  ir::Graph graph_;
  ops::GraphBuilder builder_;
  std::vector<std::pair<std::string, std::string>> untrained_;
  std::vector<std::string> reasons_;
  TrainedParameters trained_;
  std::vector<ValueId> observed_;             // values at which gradients stop
  std::vector<RunningStatistic> statistics_;  // first those of fake quantisation
  std::size_t quantisation_states_ = 0;
  std::optional<MicroBatchGraph> micro_batches_;  // with accumulation
  passes::RecomputeReport recompute_;
  std::optional<Term> loss_scale_, last_;
};

}  // namespace

TrainingGraph make_training_graph(const ir::Graph& model, const TrainingGraphOptions& options) {
  check_options(options);
  return Step(model, options, true).build();
}

TrainingGraph make_evaluation_graph(const ir::Graph& model, const TrainingGraphOptions& options) {
  check_options(options);
  return Step(model, options, false).build_evaluation();
}

std::string first_state_of(const std::string& parameter) {
  return parameter + "/first";
}
std::string second_state_of(const std::string& parameter) {
  return parameter + "/second";
}
std::string average_of(const std::string& parameter) {
  return parameter + "/average";
}

}  // namespace tessera::train
