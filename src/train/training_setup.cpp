#include "train/training_setup.h"

#include <algorithm>

#include "base/error.h"
#include "models/models.h"
#include "train/config.h"
#include "train/lift_weights.h"
#include "train/modes.h"
#include "train/schedule.h"
#include "train/separate_weights.h"

namespace tessera::train {
namespace {

TransformList transforms_of(const std::vector<std::string>& prepare, const std::vector<std::string>& augment) {
  TransformList transforms;
  for (const auto* list : {&augment, &prepare}) {
    for (const std::string& description : *list) transforms.push_back(make_transform(description));
  }
  return transforms;
}

// The number of samples that the net takes at once, mostly a symbol.
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

Model load_net(const NetOptions& options) {
  require(options.builder.empty() != options.file.empty(), ErrorKind::invalid_argument,
          "the net is given by either model.builder or model.file");
  if (!options.file.empty()) {
    const Model model = Model::load(options.file);
    return options.dims.empty() ? model : model.with_dims(options.dims);
  }
  models::ModelOptions build;
  build.dims = options.dims;
  build.seed = options.seed;
  return Model(std::make_shared<const ir::Graph>(models::build_model(options.builder, build)));
}

TrainingSetup::TrainingSetup(const Model& model, TrainingConfig given)
    : config(std::move(given)),
      net(std::make_shared<const ir::Graph>(separate_weights(lift_weights(inference_form(model.graph()))))) {
  check_config(config);
  require((config.epochs > 0) != (config.steps > 0), ErrorKind::invalid_argument,
          "the length of the training is given by either train.epochs or train.steps");
  check_schedule(config.optimiser.schedule);
  if (config.metric.empty()) config.metric = default_metric(config.loss.name);
  data = open_data(config.data);
  bind_data();
  make_sessions();
}

LoaderOptions TrainingSetup::loader_options() const {
  LoaderOptions options;
  options.batch = config.data.batch;
  options.shuffle = config.data.shuffle;
  options.seed = config.seed;
  options.workers = config.data.workers;
  options.batch_multiplier = config.data.batch_multiplier;
  options.mixup = config.data.mixup;
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
  const auto& raw = data.train->fields();
  if (std::ranges::find(raw, config.loss.target, &Field::name) != raw.end()) {
    const Binding fed = bind_fields(graph, raw, config.loss.target);
    data.train = converted(data.train, forms_of(graph, fed, raw, config.loss));
    if (data.test) {
      check_test_fields(graph, fed, data.test->fields());
      data.test = converted(data.test, forms_of(graph, fed, data.test->fields(), config.loss));
    }
  }
  loader.emplace(data.train, transforms_of(config.data.prepare, config.data.augment), loader_options());
  std::vector<Field> fields = loader->fields();
  if (config.data.mixup > 0)
    std::erase_if(
        fields, [&](const Field& field) { return field.name == config.loss.target + "_mixed" || field.name == "mix"; });
  binding = bind_fields(graph, fields, config.loss.target);
  check_shapes(graph, binding, fields, config.data.batch);
  const Field& target = *std::ranges::find(fields, config.loss.target, &Field::name);
  targets = target_range(graph, config.loss, target.shape);
  graph_options.target_type = target.dtype;
  graph_options.target_dims = {ir::Dim(config.data.batch)};
  for (const std::int64_t size : target.shape) graph_options.target_dims.emplace_back(size);
}

// The net, or another one whose inputs that have names of the net's take the same data. An only input needs no name.
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
  graph_options.loss = config.loss;
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
  if (!data.test) return;
  TrainingGraphOptions of_any_batch = graph_options;
  of_any_batch.target_dims[0] = batch_of(net.graph());
  TrainingGraph evaluation = make_evaluation_graph(net.graph(), of_any_batch);
  const EvaluatorOptions options{config.loss,
                                 config.metric,
                                 session_options(),
                                 config.data.batch,
                                 std::min(1, config.data.workers),
                                 batch_of(net.graph()).is_known(),
                                 targets};
  evaluator.emplace(Model(std::make_shared<const ir::Graph>(std::move(evaluation.graph))), binding, data.test,
                    transforms_of(config.data.prepare, {}), options);
  check_test_fields(net.graph(), binding, evaluator->fields());
  check_shapes(net.graph(), binding, evaluator->fields(), config.data.batch);
  const Shape& learnt = field_named(loader->fields(), config.loss.target).shape;
  const Shape& tested = field_named(evaluator->fields(), config.loss.target).shape;
  require(learnt == tested, ErrorKind::invalid_argument,
          "the field '{}' of a sample is {} in the test data, but {} in the training data", config.loss.target,
          to_string(tested), to_string(learnt));
  const Model sized = sized_net();
  const ir::ValueInfo* prediction = prediction_of(sized.graph(), config.loss);
  const std::optional<ir::Dims> dims = prediction == nullptr ? std::nullopt : prediction->type.dims;
  if (!dims || !std::ranges::all_of(*dims, &ir::Dim::is_known)) return;
  Shape shape;
  for (const ir::Dim& dim : *dims) shape.push_back(dim.value());
  // As the evaluation graph gives it to metrics.
  if (config.loss.class_axis < 0 && shape.size() > 2) std::rotate(shape.begin() + 1, shape.end() - 1, shape.end());
  evaluator->check_metric(shape);
}

}  // namespace tessera::train
