// Reads a training from a TOML file.
#include "train/config/config.h"

#include <algorithm>
#include <initializer_list>

#include "base/error.h"
#include "io/toml_table.h"
#include "tessera/train.h"
#include "train/net/distillation.h"
#include "train/net/fake_quantisation.h"
#include "train/net/pruning.h"

namespace tessera {
namespace {

using io::TomlTable;

std::string choice(TomlTable& table, const char* place, const char* key, const char* otherwise,
                   std::initializer_list<std::string_view> known) {
  const std::string value = table.text(key, otherwise);
  require(std::ranges::find(known, value) != known.end(), ErrorKind::invalid_argument, "{}.{} is '{}', expected {}",
          place, key, value, fmt::join(known, ", "));
  return value;
}

double at_least(TomlTable& table, const char* place, const char* key, double otherwise, double least) {
  const double value = table.number(key, otherwise);
  require(value >= least, ErrorKind::invalid_argument, "{}.{} is {}, expected at least {}", place, key, value, least);
  return value;
}
std::int64_t at_least(TomlTable& table, const char* place, const char* key, std::int64_t otherwise,
                      std::int64_t least) {
  const std::int64_t value = table.whole(key, otherwise);
  require(value >= least, ErrorKind::invalid_argument, "{}.{} is {}, expected at least {}", place, key, value, least);
  return value;
}

// A fraction: from 0 to below 1.
double share(TomlTable& table, const char* place, const char* key, double otherwise) {
  const double value = table.number(key, otherwise);
  require(value >= 0 && value < 1, ErrorKind::invalid_argument, "{}.{} is {}, expected a number in [0, 1)", place, key,
          value);
  return value;
}

NetOptions read_model(TomlTable table) {
  NetOptions model;
  model.builder = table.text("builder", "");
  model.file = table.text("file", "");
  model.dims = table.table("options").all_wholes();
  model.seed = static_cast<std::uint64_t>(at_least(table, "model", "seed", std::int64_t{1}, 0));
  model.weights = table.text("weights", "");
  model.classes = at_least(table, "model", "classes", std::int64_t{0}, 0);
  model.frozen = table.texts("frozen");
  model.trained = table.texts("trained");
  model.dropout = table.has("dropout") ? share(table, "model", "dropout", 0) : -1;
  model.batch_norm = choice(table, "model", "batch_norm", "train", {"train", "frozen"});
  return model;
}

TrainingData read_data(TomlTable table) {
  TrainingData data;
  data.train = table.text("train", "");
  data.test = table.text("test", "");
  data.train_labels = table.text("train_labels", "");
  data.test_labels = table.text("test_labels", "");
  data.hold_out = share(table, "data", "hold_out", 0);
  data.validation = table.text("validation", "");
  data.validation_labels = table.text("validation_labels", "");
  data.validation_share = share(table, "data", "validation_share", 0);
  data.batch = at_least(table, "data", "batch", data.batch, 1);
  data.shuffle = table.boolean("shuffle", true);
  data.sampling = choice(table, "data", "sampling", "once", {"once", "balanced", "weighted"});
  data.sampling_weights = table.text("sampling_weights", "");
  data.augment = table.texts("augment");
  data.prepare = table.texts("prepare");
  data.workers = static_cast<int>(std::min<std::int64_t>(at_least(table, "data", "workers", std::int64_t{2}, 0), 1024));
  data.batch_multiplier = at_least(table, "data", "batch_multiplier", std::int64_t{1}, 1);
  data.cache = choice(table, "data", "cache", "none", {"none", "memory", "disk"});
  data.mixup = at_least(table, "data", "mixup", 0.0, 0.0);
  data.height = at_least(table, "data", "height", std::int64_t{0}, 0);
  data.width = at_least(table, "data", "width", std::int64_t{0}, 0);
  data.channels = at_least(table, "data", "channels", std::int64_t{3}, 1);
  data.target_column = table.text("target_column", "");
  data.target_is_number = table.boolean("target_is_number", false);
  data.encodings = table.table("encodings").all_texts();
  data.ignored_columns = table.texts("ignored_columns");
  data.separator = table.text("separator", "");
  require(data.separator.size() <= 1, ErrorKind::invalid_argument,
          "data.separator is '{}', expected one character, such as \";\"", data.separator);
  data.missing_values = table.texts("missing_values");
  data.clip_quantile = share(table, "data", "clip_quantile", 0);
  data.tokens = choice(table, "data", "tokens", "character", {"character", "word"});
  data.task = choice(table, "data", "task", "tokens", {"tokens", "next_token"});
  data.length = at_least(table, "data", "length", data.length, 1);
  data.vocabulary = at_least(table, "data", "vocabulary", data.vocabulary, 4);
  return data;
}

// Reads a list of numbers, a single number, or "balanced".
void read_weights(TomlTable& table, const char* key, std::vector<double>& weights, bool& balanced) {
  if (!table.is_text(key)) {
    weights = table.numbers(key);
    return;
  }
  const std::string given = table.text(key, "");
  require(given == "balanced", ErrorKind::invalid_argument, "loss.{} is '{}', expected numbers or \"balanced\"", key,
          given);
  balanced = true;
}

LossOptions read_loss(TomlTable table) {
  LossOptions loss;
  loss.name = table.text("name", loss.name);
  loss.prediction = table.text("logits", table.text("prediction", ""));
  loss.target = table.text("target", loss.target);
  loss.class_axis = table.whole("class_axis", 0);
  loss.label_smoothing = share(table, "loss", "label_smoothing", 0);
  loss.ignore_index = table.whole("ignore_index", loss.ignore_index);
  loss.alpha = table.number("alpha", loss.alpha);
  loss.gamma = table.number("gamma", loss.gamma);
  loss.beta = table.number("beta", loss.beta);
  loss.delta = table.number("delta", loss.delta);
  loss.temperature = table.number("temperature", loss.temperature);
  loss.smoothing = table.number("smoothing", loss.smoothing);
  loss.blank = table.whole("blank", loss.blank);
  read_weights(table, "class_weights", loss.class_weights, loss.balanced_classes);
  read_weights(table, "pos_weight", loss.pos_weight, loss.balanced_positives);
  loss.weight = table.number("weight", loss.weight);
  return loss;
}

OptimiserOptions read_optimiser(TomlTable table) {
  OptimiserOptions optimiser;
  optimiser.name = choice(table, "optimiser", "name", "sgd", {"sgd", "adam", "adamw", "adagrad", "lars", "lamb"});
  const bool adapts = optimiser.name != "sgd" && optimiser.name != "lars";
  optimiser.learning_rate = at_least(table, "optimiser", "learning_rate", adapts ? 0.001 : 0.01, 0.0);
  optimiser.momentum = table.number("momentum", 0);
  optimiser.nesterov = table.boolean("nesterov", false);
  optimiser.beta1 = table.number("beta1", optimiser.beta1);
  optimiser.beta2 = table.number("beta2", optimiser.beta2);
  optimiser.epsilon = table.number("epsilon", optimiser.epsilon);
  optimiser.rate_decay = table.number("rate_decay", 0);
  optimiser.trust = table.number("trust", optimiser.trust);
  optimiser.weight_decay = table.number("weight_decay", optimiser.name == "adamw" ? 0.01 : 0);
  optimiser.no_decay = table.texts("no_decay");
  for (TomlTable& each : table.table_list("groups")) {
    ParameterGroup group{each.texts("parameters"), each.number("learning_rate", -1), each.number("weight_decay", -1)};
    require(!group.parameters.empty(), ErrorKind::invalid_argument,
            "optimiser.groups: 'parameters' is missing, the patterns of names of the parameters in the group");
    optimiser.groups.push_back(std::move(group));
  }
  optimiser.clip_norm = table.number("clip_norm", 0);
  optimiser.lazy_rows = table.boolean("lazy_rows", false);
  TomlTable schedule = table.table("schedule");
  ScheduleOptions& given = optimiser.schedule;
  given.name = choice(schedule, "optimiser.schedule", "name", "constant",
                      {"constant", "step", "cosine", "polynomial", "one_cycle", "plateau"});
  given.warmup_share = share(schedule, "optimiser.schedule", "warmup_share", given.warmup_share);
  given.initial_share = share(schedule, "optimiser.schedule", "initial_share", given.initial_share);
  given.patience = at_least(schedule, "optimiser.schedule", "patience", given.patience, 0);
  given.warmup_steps = schedule.whole("warmup_steps", 0);
  given.final_share = schedule.number("final_share", given.name == "one_cycle" ? given.initial_share * 1e-4 : 0);
  given.power = schedule.number("power", 1);
  given.every = schedule.whole("every", 0);
  given.factor = schedule.number("factor", given.factor);
  return optimiser;
}

LossScaleOptions read_loss_scale(TomlTable table, bool on) {
  LossScaleOptions scale;
  scale.on = table.boolean("on", on);
  scale.initial = table.number("initial", scale.initial);
  scale.least = table.number("least", scale.least);
  scale.most = table.number("most", scale.most);
  scale.grow_after = at_least(table, "train.loss_scale", "grow_after", scale.grow_after, 1);
  return scale;
}

void read_train(TomlTable table, TrainingConfig& config) {
  config.epochs = at_least(table, "train", "epochs", std::int64_t{0}, 0);
  config.steps = at_least(table, "train", "steps", std::int64_t{0}, 0);
  config.precision = choice(table, "train", "precision", "f32", {"f32", "bf16", "f16"});
  config.loss_scale = read_loss_scale(table.table("loss_scale"), config.precision == "f16");
  config.seed = static_cast<std::uint64_t>(at_least(table, "train", "seed", std::int64_t{0}, 0));
  config.accumulate = at_least(table, "train", "accumulate", std::int64_t{1}, 1);
  config.rank_timeout_s = table.number("rank_timeout", config.rank_timeout_s);
  config.average_decay = share(table, "train", "average_decay", 0);
  config.log_every = at_least(table, "train", "log_every", config.log_every, 1);
  config.evaluate_every = at_least(table, "train", "evaluate_every", std::int64_t{0}, 0);
  config.checkpoint_every = at_least(table, "train", "checkpoint_every", std::int64_t{0}, 0);
  config.patience = at_least(table, "train", "patience", std::int64_t{0}, 0);
  config.metric = table.text("metric", "");
  config.metrics = table.texts("metrics");
  config.evaluate_training = table.boolean("evaluate_training", false);
  config.tensorboard = table.boolean("tensorboard", false);
  config.recompute_bytes = at_least(table, "train", "recompute_bytes", std::int64_t{0}, 0);
  config.device = table.text("device", config.device);
  config.threads =
      static_cast<int>(std::min<std::int64_t>(at_least(table, "train", "threads", std::int64_t{0}, 0), 4096));
  config.memory_limit_bytes = at_least(table, "train", "memory_limit_bytes", std::int64_t{0}, 0);
}

}  // namespace

TrainingConfig train::read_training_config(TomlTable& root) {
  TrainingConfig config;
  config.output = root.text("output", "");
  config.model = read_model(root.table("model"));
  config.data = read_data(root.table("data"));
  std::vector<TomlTable> losses = root.table_list("loss");
  config.loss = losses.empty() ? LossOptions{} : read_loss(losses[0]);
  for (std::size_t i = 1; i < losses.size(); ++i) config.further_losses.push_back(read_loss(losses[i]));
  config.optimiser = read_optimiser(root.table("optimiser"));
  read_train(root.table("train"), config);
  if (root.has("prune")) config.prune = train::read_prune(root.table("prune"));
  if (root.has("teacher")) config.teacher = train::read_teacher(root.table("teacher"));
  if (root.has("compress")) config.compress = train::read_compress(root.table("compress"));
  // Makes paths absolute, because the training may be resumed or evaluated from another folder.
  for (const char* path : {"output", "model.file", "data.train", "data.test", "data.train_labels", "data.test_labels",
                           "teacher.file", "teacher.checkpoint"})
    root.make_absolute(path);
  config.toml = root.as_toml();
  return config;
}

TrainingConfig parse_training_config(const std::string& toml, const std::string& where,
                                     const std::vector<std::string>& settings) {
  TomlTable root = TomlTable::parse(toml, where, settings);
  TrainingConfig config = train::read_training_config(root);
  root.check_all_read();
  return config;
}

}  // namespace tessera
