#include "train/run/training_setup.h"

#include <algorithm>

#include "backends/backend_table.h"
#include "base/error.h"
#include "base/log.h"
#include "models/models.h"
#include "passes/find.h"
#include "train/config/config.h"
#include "train/evaluation/class_balance.h"
#include "train/evaluation/metrics.h"
#include "train/net/initial_weights.h"
#include "train/net/lift_weights.h"
#include "train/net/modes.h"
#include "train/net/new_head.h"
#include "train/net/separate_weights.h"
#include "train/run/schedule.h"

namespace tessera::train {
namespace {

TransformList transforms_of(const std::vector<std::string>& prepare, const std::vector<std::string>& augment) {
  TransformList transforms;
  for (const auto* list : {&augment, &prepare}) {
    for (const std::string& description : *list) transforms.push_back(make_transform(description));
  }
  return transforms;
}

// The dimension of the net's batch, usually a symbol.
ir::Dim batch_of(const ir::Graph& graph) {
  for (const ir::ValueId id : graph.inputs()) {
    const std::optional<ir::Dims>& dims = graph.value(id).type.dims;
    if (dims && !dims->empty()) return dims->front();
  }
  return ir::Dim::symbol("batch");
}

DType precision_of(const std::string& name) {
  return name == "bf16" ? DType::bf16 : name == "f16" ? DType::f16 : DType::f32;
}

}  // namespace

bool runs_at_once(std::string_view device) {
  const backends::Device& found = backends::find_device(device);
  return found.is_host() && found.computes();
}

Model load_net(const NetOptions& options) {
  require(options.builder.empty() != options.file.empty(), ErrorKind::invalid_argument,
          "the net is given by either model.builder or model.file");
  if (!options.file.empty()) {
    const Model model = Model::load(options.file);
    return options.dims.empty() ? model : model.with_dims(options.dims);
  }
  models::BuildOptions build;
  build.dims = options.dims;
  build.seed = options.seed;
  return Model(std::make_shared<const ir::Graph>(models::build_model(options.builder, build)));
}

namespace {

// The net for training, with the weights and the last layer that the options request. A weight of the old last layer
// that fits the new one is also taken.
Model prepared_net(const Model& model, const TrainingConfig& config, std::vector<std::string>& notes) {
  const NetOptions& options = config.model;
  ir::Graph graph = separate_weights(lift_weights(inference_form(model.graph())));
  std::map<std::string, Tensor> weights;
  if (!options.weights.empty()) weights = read_weights(options.weights);
  std::vector<std::string> taken = take_weights(graph, weights);
  if (options.classes > 0) {
    NewHead made = replace_head(std::move(graph), config.loss.prediction, options.classes, options.seed);
    graph = std::move(made.graph);
    notes.push_back(made.description);
    std::map<std::string, Tensor> open = weights;
    for (const std::string& name : taken) open.erase(name);
    for (std::string& name : take_weights(graph, open)) taken.push_back(std::move(name));
  }
  if (!options.weights.empty()) notes.push_back(describe_taken(graph, weights, taken, options.weights));
  return Model(std::make_shared<const ir::Graph>(std::move(graph)));
}

// Warns of a softmax or sigmoid at the output if the loss takes logits and includes it.
void warn_of_activations(const ir::Graph& graph, const std::vector<LossOptions>& losses) {
  for (const LossOptions& loss : losses) {
    const bool of_classes = loss.name == "cross_entropy" || loss.name == "dice" || loss.name == "distillation";
    if (!of_classes && loss.name != "bce" && loss.name != "focal") continue;
    const char* activation = of_classes ? "Softmax" : "Sigmoid";
    for (const ir::ValueId output : graph.outputs()) {
      const std::string& name = graph.value(output).name;
      if (!loss.prediction.empty() && loss.prediction != name) continue;
      if (passes::producer_of(graph, passes::source_of(graph, output), activation) == nullptr) continue;
      warn(
          "the output '{}' is a {}, but the loss {} takes logits and applies it once more: train the net without that "
          "last layer, or it learns slowly and its figures are wrong",
          name, activation, loss.name);
    }
  }
}

}  // namespace

TrainingSetup::TrainingSetup(const Model& model, TrainingConfig given)
    : config(std::move(given)), net(prepared_net(model, config, notes)) {
  check_config(config);
  require((config.epochs > 0) != (config.steps > 0), ErrorKind::invalid_argument,
          "the length of the training is given by either train.epochs or train.steps");
  check_schedule(config.optimiser.schedule);
  if (config.metric.empty())
    config.metric = config.metrics.empty() ? default_metric(config.loss.name) : config.metrics.front();
  metrics = {config.metric};
  for (const std::string& each : config.metrics) {
    if (std::ranges::find(metrics, each) == metrics.end()) metrics.push_back(each);
  }
  // Without test data, nothing else checks the names.
  for (const std::string& each : metrics) {
    const std::string name = each.substr(0, each.find('@'));
    if (name != "loss") make_metric(name);
  }
  find_rank();
  data = open_data(config.data);
  bind_data();
  make_sessions();
}

void TrainingSetup::find_rank() {
  block = {0, config.accumulate};
  if (config.communicator == 0) return;
  communicator = base::find_communicator(config.communicator);
  graph_options.ranks = {communicator->rank(), communicator->size(), config.communicator};
  graph_options.accumulate = config.accumulate;
  check_options(graph_options);
  block = base::SumBlock::of_rank(config.accumulate, communicator->rank(), communicator->size());
  if (!leads()) config.output.clear();
}

// Replaces "balanced" weights by numbers.
void TrainingSetup::balance_losses() {
  for (LossOptions& loss : losses) {
    require(loss.weight > 0, ErrorKind::invalid_argument, "the weight of the loss {} is {}, expected a positive number",
            loss.name, loss.weight);
    if (loss.balanced_classes) loss.class_weights = balanced_class_weights(*data.train, loss.target, loss.ignore_index);
    if (loss.balanced_positives) loss.pos_weight = balanced_pos_weight(*data.train, loss.target);
  }
  require(losses.size() == 1 || config.data.mixup == 0, ErrorKind::invalid_argument,
          "data.mixup mixes the targets of one loss, but there are {}", losses.size());
}

LoaderOptions TrainingSetup::loader_options() const {
  LoaderOptions options;
  options.batch = config.data.batch;
  options.shuffle = config.data.shuffle;
  options.seed = config.seed;
  options.workers = config.data.workers;
  options.batch_multiplier = config.data.batch_multiplier;
  options.mixup = config.data.mixup;
  options.period = config.accumulate;
  options.first = block.first;
  options.count = block.count;
  const std::string& sampling = config.data.sampling;
  require(sampling == "once" || config.data.shuffle, ErrorKind::invalid_argument,
          "data.sampling = \"{}\" draws samples at random, but data.shuffle is false", sampling);
  require((sampling == "weighted") == !config.data.sampling_weights.empty(), ErrorKind::invalid_argument,
          "data.sampling is \"{}\" and data.sampling_weights is '{}': \"weighted\" needs the field of the weights, and "
          "nothing else takes one",
          sampling, config.data.sampling_weights);
  if (sampling == "balanced")
    options.weights = balanced_sample_weights(*data.train, config.loss.target, config.loss.ignore_index);
  if (sampling == "weighted") options.weights = sample_weights(*data.train, config.data.sampling_weights);
  return options;
}

std::unique_ptr<Loader> TrainingSetup::make_loader(int workers) const {
  LoaderOptions options = loader_options();
  options.workers = workers;
  return std::make_unique<Loader>(data.train, transforms_of(config.data.prepare, config.data.augment), options);
}

DataSummary TrainingSetup::data_summary() const {
  DataSummary summary;
  summary.unreadable = static_cast<std::int64_t>(data.train->unreadable().size());
  summary.samples = data.train->size() - summary.unreadable;
  summary.left_over = loader->left_over();
  if (!data.table) return summary;
  for (const ColumnEncoding& column : data.table->columns)
    summary.columns.push_back(
        {column.column, std::string(name_of(column.kind)), column.width(), column.missing_cells, column.describe()});
  summary.target = data.table->target;
  summary.classes = data.table->classes;
  return summary;
}

void TrainingSetup::bind_data() {
  const ir::Graph& graph = net.graph();
  std::vector<std::string> targets{config.loss.target};
  for (const LossOptions& loss : config.further_losses) targets.push_back(loss.target);
  const auto for_net = [&](std::vector<Field> fields) {
    if (config.data.sampling == "weighted")
      std::erase_if(fields, [&](const Field& field) { return field.name == config.data.sampling_weights; });
    return fields;
  };
  losses = {config.loss};
  losses.insert(losses.end(), config.further_losses.begin(), config.further_losses.end());
  const std::vector<Field> raw = for_net(data.train->fields());
  const bool are_raw = std::ranges::all_of(
      targets, [&](const std::string& each) { return std::ranges::find(raw, each, &Field::name) != raw.end(); });
  if (are_raw) {
    const Binding fed = bind_fields(graph, raw, targets);
    data.train = converted(data.train, forms_of(graph, fed, raw, losses));
    for (auto* other : {&data.test, &data.validation}) {
      if (!*other) continue;
      check_test_fields(graph, fed, (*other)->fields());
      *other = converted(*other, forms_of(graph, fed, (*other)->fields(), losses));
    }
  }
  balance_losses();
  warn_of_activations(graph, losses);
  loader.emplace(data.train, transforms_of(config.data.prepare, config.data.augment), loader_options());
  std::vector<Field> fields = for_net(loader->fields());
  if (config.data.mixup > 0)
    std::erase_if(
        fields, [&](const Field& field) { return field.name == config.loss.target + "_mixed" || field.name == "mix"; });
  binding = bind_fields(graph, fields, targets);
  check_shapes(graph, binding, fields, config.data.batch);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const Field& target = *std::ranges::find(fields, losses[i].target, &Field::name);
    if (const auto range = target_range(graph, losses[i], target.shape))
      target_ranges.try_emplace(losses[i].target, *range);
    Objective objective{losses[i], target.dtype, {ir::Dim(config.data.batch)}};
    for (const std::int64_t size : target.shape) objective.target_dims.emplace_back(size);
    if (i > 0) graph_options.further.push_back(objective);
    else
      graph_options.loss = objective.loss, graph_options.target_type = objective.target_type,
      graph_options.target_dims = objective.target_dims;
  }
}

// The net, or another one, with the batch size fixed. Inputs with the same names, or single inputs, take the same data.
Model TrainingSetup::sized(const Model& model) const {
  std::map<std::string, std::int64_t> sizes;
  const auto note = [&](const ir::Dim& dim, std::int64_t size) {
    if (dim.is_symbol()) sizes.try_emplace(dim.name(), size);
  };
  for (const ir::ValueId id : model.graph().inputs()) {
    const ir::ValueInfo& input = model.graph().value(id);
    const auto field = binding.fields.size() == 1 ? binding.fields.begin() : binding.fields.find(input.name);
    if (!input.type.dims || input.type.dims->empty() || field == binding.fields.end()) continue;
    const Shape& shape = std::ranges::find(loader->fields(), field->second, &Field::name)->shape;
    note(input.type.dims->front(), config.data.batch);
    for (std::size_t i = 0; i < shape.size() && i + 1 < input.type.dims->size(); ++i)
      note((*input.type.dims)[i + 1], shape[i]);
  }
  return sizes.empty() ? model : model.with_dims(sizes);
}

SessionOptions TrainingSetup::session_options() const {
  SessionOptions options;
  options.device = config.device;
  options.threads = config.threads;
  options.memory_limit_bytes = config.memory_limit_bytes;
  options.precision = DType::f32;
  return options;
}

void TrainingSetup::make_sessions() {
  graph_options.frozen = config.model.frozen;
  graph_options.trained = config.model.trained;
  graph_options.dropout = config.model.dropout;
  graph_options.batch_norm = config.model.batch_norm == "frozen" ? BatchNorm::frozen : BatchNorm::train;
  graph_options.optimiser = config.optimiser;
  graph_options.loss_scale = config.loss_scale;
  graph_options.precision = precision_of(config.precision);
  graph_options.accumulate = config.accumulate;
  graph_options.average_decay = config.average_decay;
  graph_options.mixup = config.data.mixup > 0;
  graph_options.recompute_bytes = config.recompute_bytes;
  if (config.teacher) {
    graph_options.teacher =
        std::make_shared<const Teacher>(Teacher{sized(load_teacher(*config.teacher)).graph(), *config.teacher});
  }
  graph_options.compress = config.compress;
  TrainingGraph made = make_training_graph(sized_net().graph(), graph_options);
  parameters = std::move(made.parameters);
  reasons = std::move(made.reasons);
  statistics = std::move(made.statistics);
  untrained = std::move(made.untrained);
  const std::int64_t per_epoch = loader->batches_per_epoch();
  steps_per_epoch = std::max<std::int64_t>(1, per_epoch / config.accumulate);
  steps = config.steps > 0 ? config.steps : std::max<std::int64_t>(1, config.epochs * per_epoch / config.accumulate);
  require(!config.compress || config.compress->start_step < steps, ErrorKind::invalid_argument,
          "compress.start_step is {}, but the training has {} steps: nothing would be quantised",
          config.compress ? config.compress->start_step : 0, steps);
  if (config.prune) {
    pruner.emplace(net.graph(), parameters, *config.prune, steps);
    add_masks(made.graph, pruner->parameters());
  }
  step_model.emplace(std::make_shared<const ir::Graph>(std::move(made.graph)));
  session.emplace(*step_model, session_options());
  for (const char* name : {"validation", "test"}) {
    if (has_data(name) && leads()) evaluator_of(name);
  }
}

std::shared_ptr<const Dataset> TrainingSetup::data_of(const std::string& name) const {
  require(name == "test" || name == "validation" || name == "train", ErrorKind::invalid_argument,
          "there are no data '{}' to evaluate; there are test, validation and train", name);
  return name == "test" ? data.test : name == "validation" ? data.validation : data.train;
}

Evaluator& TrainingSetup::evaluator_of(const std::string& name) {
  std::unique_ptr<Evaluator>& evaluator = evaluators_[name];
  if (evaluator) return *evaluator;
  const std::shared_ptr<const Dataset> samples = data_of(name);
  require(samples != nullptr, ErrorKind::invalid_argument, "there are no {} data; data.{} or data.{} gives some", name,
          name, name == "test" ? "hold_out" : "validation_share");
  const ir::Dim batch = batch_of(net.graph());
  if (!evaluation_model_) {
    TrainingGraphOptions of_any_batch = graph_options;
    of_any_batch.target_dims[0] = batch;
    for (Objective& objective : of_any_batch.further) objective.target_dims[0] = batch;
    TrainingGraph evaluation = make_evaluation_graph(net.graph(), of_any_batch);
    predictions_ = std::move(evaluation.predictions);
    evaluation_model_.emplace(std::make_shared<const ir::Graph>(std::move(evaluation.graph)));
  }
  const EvaluatorOptions options{
      losses,           metrics, session_options(), config.data.batch, std::min(1, config.data.workers),
      batch.is_known(), name,    target_ranges,     predictions_};
  evaluator = std::make_unique<Evaluator>(*evaluation_model_, binding, samples, transforms_of(config.data.prepare, {}),
                                          options);
  check_test_fields(net.graph(), binding, evaluator->fields());
  check_shapes(net.graph(), binding, evaluator->fields(), config.data.batch);
  const Model sized = sized_net();
  std::vector<Shape> shapes;  // of the predictions for the losses
  for (const LossOptions& loss : losses) {
    const Shape& learnt = field_named(loader->fields(), loss.target).shape;
    const Shape& tested = field_named(evaluator->fields(), loss.target).shape;
    require(learnt == tested, ErrorKind::invalid_argument,
            "the field '{}' of a sample is {} in the {} data, but {} in the training data", loss.target,
            to_string(tested), name, to_string(learnt));
    const ir::ValueInfo* prediction = prediction_of(sized.graph(), loss);
    const std::optional<ir::Dims> dims = prediction == nullptr ? std::nullopt : prediction->type.dims;
    shapes.emplace_back();
    if (!dims || !std::ranges::all_of(*dims, &ir::Dim::is_known)) continue;
    Shape& shape = shapes.back();
    for (const ir::Dim& dim : *dims) shape.push_back(dim.value());
    // Transposes as the evaluation graph does for metrics.
    if (loss.class_axis < 0 && shape.size() > 2) std::rotate(shape.begin() + 1, shape.end() - 1, shape.end());
  }
  evaluator->check_metrics(shapes);
  return *evaluator;
}

}  // namespace tessera::train
