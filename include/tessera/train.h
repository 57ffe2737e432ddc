// Training a network: forward, loss, backward and update are one graph, which a Trainer runs step by step.
//
// Length: the options of one training, read from top to bottom as in its configuration.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/model.h"
#include "tessera/session.h"

namespace tessera {

struct LossOptions {
  std::string name = "cross_entropy";  // one of loss_names()
  std::string prediction;              // the model's output that the loss compares; empty: its only one
  std::string target = "y";            // the field of the data that it is compared with
  // Where the classes of cross_entropy and dice lie in the prediction: 1 or -1, the last axis. 0: along axis 1, as in
  // PyTorch, or along the last axis if the labels do not fit that.
  std::int64_t class_axis = 0;
  // cross_entropy: the target is (1 − s) · one-hot + s / classes (Szegedy et al., arXiv:1512.00567), and positions
  // with the label ignore_index count for nothing.
  double label_smoothing = 0;
  std::int64_t ignore_index = -100;
  // focal: weight of the positive class, or below 0 no weights; and the exponent (Lin et al., arXiv:1708.02002).
  double alpha = 0.25, gamma = 2;
  double beta = 1;         // smooth_l1: where it becomes linear
  double delta = 1;        // huber: likewise
  double temperature = 1;  // distillation
  double smoothing = 1;    // dice: added to numerator and denominator
  std::int64_t blank = 0;  // ctc: the class that stands for no label; labels of ignore_index are padding
  // cross_entropy: a factor of each class, by which the mean is weighted, as torch.nn.CrossEntropyLoss does it; empty:
  // all count the same. With balanced_classes the factors are samples / (classes · samples of the class), counted in
  // the training data.
  std::vector<double> class_weights;
  bool balanced_classes = false;
  // bce: a factor of positive targets, one for all or one for each position along axis 1, as that of
  // torch.nn.BCEWithLogitsLoss; empty: 1. With balanced_positives it is the number of negative targets for each
  // positive one in the training data.
  std::vector<double> pos_weight;
  bool balanced_positives = false;
  double weight = 1;  // of this loss where several are added up
};

struct ScheduleOptions {
  std::string name = "constant";  // constant, step, cosine, polynomial, one_cycle, plateau
  std::int64_t warmup_steps = 0;  // the rate rises in a line from rate / warmup_steps to the rate
  double final_share = 0;         // cosine, polynomial: of the rate, that is left at the end
  double power = 1;               // polynomial
  std::int64_t every = 0;         // step: the rate is multiplied by `factor` after so many steps each time
  double factor = 0.1;            // step, plateau
  // one_cycle: from initial_share of the rate up to the rate in warmup_share of the steps, then down to final_share.
  double warmup_share = 0.3, initial_share = 0.04;
  // plateau: the rate is multiplied by `factor` when more evaluations in a row than these brought nothing better.
  std::int64_t patience = 10;
};

// Parameters that are trained at another rate than the others.
struct ParameterGroup {
  std::vector<std::string> parameters;  // patterns of names
  double learning_rate = -1;            // in place of the optimiser's; schedules go with it. Below 0: the optimiser's
  double weight_decay = -1;             // likewise
};

struct OptimiserOptions {
  std::string name = "sgd";  // sgd, adam, adamw, adagrad, lars, lamb: see ops/training/optimiser_step.h
  double learning_rate = 0.01;
  ScheduleOptions schedule;
  double momentum = 0;  // sgd, lars
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = -1;                 // below 0: 1e-8, of adagrad 1e-10, of lamb 1e-6
  double rate_decay = 0;               // adagrad
  double trust = 0.001;                // lars
  double weight_decay = 0;             // of parameters whose names match none of no_decay
  std::vector<std::string> no_decay;   // patterns as of file names: "*bias", "norm*"
  std::vector<ParameterGroup> groups;  // the first one that has a parameter counts
  double clip_norm = 0;                // above 0: gradients are scaled down to this global norm
  // Rows of a table that a step does not look up stay unchanged, and so do their momentum and moments, as in
  // torch.optim.SparseAdam. For sgd, adam, adamw and adagrad.
  bool lazy_rows = false;
};

// Loss scaling that adapts itself (Micikevicius et al., arXiv:1710.03740): the loss is multiplied by a power of two,
// which doubles after `grow_after` steps without overflow and halves when a gradient is not finite; that step changes
// nothing.
struct LossScaleOptions {
  bool on = false;
  double initial = 65536, least = 1, most = 16777216;
  std::int64_t grow_after = 2000;
};

// Weights of convolutions and products that become zero while the net trains, those of the smallest magnitudes first.
// The share of zeros rises from initial_sparsity at begin_step to its target at end_step, fast at first (Zhu and Gupta,
// arXiv:1710.01878), with new masks every `every` steps; pruned weights stay zero.
struct PruneOptions {
  double sparsity = 0;                   // target: the share of zeros, in [0, 1)
  std::map<std::string, double> layers;  // other targets, by patterns of names of weights
  double initial_sparsity = 0;
  // "none", or "N:M": of M weights in a row along a layer's inputs at most N stay, whatever the targets are. Layers
  // whose inputs are no multiple of M stay dense.
  std::string structure = "none";
  std::string scope = "per_layer";            // "global": the target `sparsity` is of all weights together
  std::vector<std::string> exclude;           // patterns of names of weights that are not pruned
  std::int64_t begin_step = 0, end_step = 0;  // an end of 0 is after two thirds of the training
  std::int64_t every = 0;                     // 0: a thirtieth of the interval
  bool keep_zeros = false;  // nothing more is pruned, but weights that are zero at the beginning stay zero
};

// The net to train.
struct NetOptions {
  std::string builder;                       // one of the nets that `tessera new` knows …
  std::string file;                          // … or a model file, whose float32 weights are trained on
  std::map<std::string, std::int64_t> dims;  // sizes of named dimensions, and options of the builder
  std::uint64_t seed = 1;                    // of the builder's weights, and of a new last layer
  // A file from which weights of the same names and shapes are loaded: an .npz file, a checkpoint, the folder of a
  // training, or a model.
  std::string weights;
  // Above 0: replaces the last layer before the output that the first loss compares by one with so many outputs and new
  // weights (train/net/new_head.h).
  std::int64_t classes = 0;
  std::vector<std::string> frozen;  // patterns of names of weights that stay as they are: "conv1.*"
  // Patterns of names of constants to train, whatever the file says of them; they take precedence over `frozen`.
  std::vector<std::string> trained;
  double dropout = -1;  // the probability of each Dropout of the net; below 0: as the file has it
  // "train": BatchNormalization uses the statistics of the batch and updates running statistics; "frozen": it uses its
  // running statistics.
  std::string batch_norm = "train";
};

// Quantisation-aware training: convolutions and products compute with weights and data as a quantised net has them,
// and the trained net is exported with integers between QuantizeLinear and DequantizeLinear. Weights have a step for
// each output channel and no zero point, data one step and zero point (train/net/fake_quantisation.h).
struct CompressOptions {
  int weights = 8;      // bits: 8 or 4
  int activations = 8;  // bits of the layers' data: 8, or 0, which leaves them as they are
  // "learned": steps are trained (Esser et al., arXiv:1902.08153) from what was observed before start_step, or in the
  // first run; "averaged": they follow the largest weights and the exponential average of the data's ends.
  std::string ranges = "learned";
  double range_decay = 0.99;  // of the average
  // BatchNormalization behind a convolution: "folded" into the weights before they are rounded (Jacob et al.,
  // arXiv:1712.05877), or "kept" behind the rounded layer and folded when the net is exported.
  std::string batch_norm = "kept";
  std::int64_t start_step = 0;       // steps before it do not round
  std::int64_t freeze_step = 0;      // above 0: from it on statistics of BatchNormalization and averaged ranges stay
  std::vector<std::string> exclude;  // patterns of names of weights whose layers stay float
};

// A trained net that a smaller one learns from. The step computes both; the teacher's weights and BatchNormalization
// stay as they are. The loss is
//   (1 − weight) · L(labels) + weight · T² · KL(softmax(teacher / T) ‖ softmax(student / T)) + attention_weight / 2 · A
// with the temperature T (Hinton et al., arXiv:1503.02531); A is the sum over pairs of feature maps of the mean over
// samples of ‖q(student) / ‖q(student)‖ − q(teacher) / ‖q(teacher)‖‖², q being the mean of squares over the channels,
// axis 1 (Zagoruyko and Komodakis, arXiv:1612.03928). Evaluations leave the teacher out.
struct TeacherOptions {
  NetOptions net;              // its `frozen` and `batch_norm` mean nothing here
  std::optional<Model> model;  // in place of `net`
  std::string checkpoint;      // of a training of that net, or its folder: weights in place of the net's own
  std::string logits;          // the output that teaches; empty: the only one
  double temperature = 4;
  double weight = 0.9;                           // of the soft targets, in [0, 1]
  std::map<std::string, std::string> attention;  // values of the student, and those of the teacher that they follow
  double attention_weight = 10;
};

// Samples made by a function: the fields with element types and shapes (without the batch dimension), the number of
// samples, and the function, which is called from several threads at once. An exception of the function is an error of
// that sample alone.
struct SampleSource {
  struct Field {
    std::string name;
    DType dtype = DType::f32;
    Shape shape;
  };
  std::vector<Field> fields;
  std::int64_t size = 0;
  std::function<std::map<std::string, Tensor>(std::int64_t index)> read;
};

// The samples that a net learns from. A path is an .npz file (arrays by field name, dimension 0 counts the samples), a
// .csv table, an IDX file (images; `train_labels` has their labels), a text file (.txt), CIFAR's binary folder, or a
// folder of images with one folder per class.
struct TrainingData {
  std::string train, test;
  std::string train_labels, test_labels;  // of IDX files
  // In place of files: fields by name, [samples, …].
  std::map<std::string, Tensor> train_arrays, test_arrays;
  std::optional<SampleSource> train_source, test_source;
  // Without test data: this share of the training data is held out, the same samples for every seed.
  double hold_out = 0;
  // Validation data, by which the training is judged while it runs: they decide which weights are the best ones, and
  // when to stop. Without any, the test data are used.
  std::string validation, validation_labels;
  std::map<std::string, Tensor> validation_arrays;
  std::optional<SampleSource> validation_source;
  double validation_share = 0;  // without validation data: this share of the training data, chosen as for hold_out
  std::int64_t batch = 32;
  bool shuffle = true;
  // The samples of an epoch: "once", each sample once; "balanced", as many as there are, drawn with replacement, all
  // classes equally often; "weighted", drawn in proportion to the field `sampling_weights`.
  std::string sampling = "once";
  std::string sampling_weights;
  std::vector<std::string> augment;   // transforms of training data; see train/data/transform.h
  std::vector<std::string> prepare;   // transforms of training and test data alike
  int workers = 2;                    // threads that prepare batches ahead of use
  std::int64_t batch_multiplier = 1;  // batches that a worker makes at a time
  std::string cache = "none";         // of decoded samples: none, memory, disk
  double mixup = 0;                   // above 0: images are mixed, see train/data/loader.h
  // Folders of images: their size (0: that of the first one) and channels.
  std::int64_t height = 0, width = 0, channels = 3;
  // Tables: the column to predict, whether it is a number, and how columns are encoded
  // (train/data/tables/column_encoding.h).
  std::string target_column;
  bool target_is_number = false;
  std::map<std::string, std::string> encodings;
  std::vector<std::string> ignored_columns;
  std::string separator;                    // between cells; empty: detected from the table's first lines
  std::vector<std::string> missing_values;  // words for a missing value besides "", "NA", "nan", "?" and such
  double clip_quantile = 0;
  // Text: tokens are "character" or "word", a sample has `length` of them, and the task is "tokens" or "next_token".
  std::string tokens = "character", task = "tokens";
  std::int64_t length = 64, vocabulary = 256;
};

struct TrainingConfig {
  // The folder for the log, checkpoints, the report and the trained model; empty: no files are written.
  std::string output;
  // True: a new training removes the files of an old one in that folder. False: it refuses such a folder.
  bool overwrite = false;
  NetOptions model;
  TrainingData data;
  LossOptions loss;
  std::vector<LossOptions> further_losses;  // each with its output and target; the weighted sum is trained
  OptimiserOptions optimiser;
  LossScaleOptions loss_scale;  // on by default where the precision is f16
  std::optional<PruneOptions> prune;
  std::optional<TeacherOptions> teacher;
  std::optional<CompressOptions> compress;
  std::int64_t epochs = 0;  // either epochs or steps is above 0
  std::int64_t steps = 0;   // updates of the weights
  // The element type in which convolutions and products multiply: f32, bf16 or f16. Weights, sums, norms and losses
  // stay f32.
  std::string precision = "f32";
  std::uint64_t seed = 0;  // for the order of the samples, augmentation and random operators
  // Batches whose gradients are averaged for one step; with ranks, those of all ranks together.
  std::int64_t accumulate = 1;
  // The number of the group of ranks that train together, of which this trainer is one; 0: it trains alone. Rank 0
  // alone writes files and evaluates.
  std::int64_t communicator = 0;
  double rank_timeout_s = 300;  // how long a rank waits for one that does not answer before the training fails
  double average_decay = 0;     // above 0: an exponential moving average of the weights is kept, tested and exported
  std::int64_t log_every = 10;  // steps for each line of the log
  std::int64_t evaluate_every = 0;    // steps; 0: at the end of each epoch
  std::int64_t checkpoint_every = 0;  // steps; 0: at the end of each epoch
  std::int64_t patience = 0;          // above 0: training stops after so many evaluations in a row without improvement
  // The metric that decides which weights are the best: accuracy, auc, loss …; empty: the first of `metrics`, or the
  // usual one for the loss. "NAME@OUTPUT" applies to the loss of that output instead of the first one.
  std::string metric;
  std::vector<std::string> metrics;  // further metrics that evaluations compute
  bool evaluate_training = false;    // evaluations include the training data, without augmentation
  bool tensorboard = false;          // the folder `tensorboard` in the output gets event files for TensorBoard
  std::int64_t recompute_bytes = 0;  // above 0: activations beyond so many bytes are recomputed in the backward pass
  std::string device = "cpu";
  int threads = 0;  // 0: all cores that this process may use
  std::int64_t memory_limit_bytes = 0;
  // The configuration as text, including settings, with absolute paths; kept beside the log.
  std::string toml;
};

// A line of the log, measured over the steps since the line before.
struct StepReport {
  std::int64_t step = 0, steps = 0;  // done, and in all
  std::int64_t epoch = 0;            // from 0
  double loss = 0;                   // mean
  double learning_rate = 0, gradient_norm = 0;
  double samples_per_s = 0;
  double data_wait_share = 0;  // share of the time spent waiting for data
  double seconds = 0;          // since training began, including resumed parts
  std::int64_t skipped = 0;    // steps so far that changed nothing because of overflow
};

// Metrics per class of a net, where each sample (or position) has one class. A score above 0 means class 1 of two.
struct ClassReport {
  struct Figures {
    std::string name;                             // the class's name in the data, or its number
    std::optional<double> precision, recall, f1;  // nothing where they are 0 / 0
    std::int64_t support = 0;                     // labels of the class
  };
  std::vector<Figures> classes;
  std::vector<std::int64_t> confusion;  // [label, prediction], row by row
};

struct EvaluationReport {
  std::int64_t step = 0;
  std::string metric;  // "accuracy", "auc" or "loss"
  double value = 0, loss = 0;
  std::int64_t samples = 0;
  bool best = false;  // whether it is the best so far
  // Samples that could not be read, which are left out above, and the reasons for the first of them.
  std::int64_t skipped_samples = 0;
  std::vector<std::string> skipped_reasons;
  std::string data = "test";                            // "test", "validation" or "train"
  std::vector<std::pair<std::string, double>> metrics;  // all of them, `metric` first
  std::optional<ClassReport> classes;                   // where the first loss has at most 1,000 classes
  bool of_best = false;  // whether the weights are those of the best evaluation instead of those of `step`
};

struct TrainingResult {
  std::int64_t steps = 0, samples = 0;
  double loss = 0;  // of the last line of the log
  // Metrics of the final weights on the validation data, or on the test data if there are no validation data; and the
  // best such metrics of the training.
  std::optional<EvaluationReport> evaluation;
  std::optional<EvaluationReport> best;
  // With both validation and test data: metrics on the test data, with the final weights and with the best ones.
  std::optional<EvaluationReport> test, best_test;
  double seconds = 0;
  std::int64_t peak_rss_bytes = 0, skipped_steps = 0, skipped_samples = 0;
  std::vector<std::string> skipped_reasons;  // of the first samples that could not be read
  bool interrupted = false, stopped_early = false;
};

// Told in the thread that trains.
struct TrainingHooks {
  std::function<void(const StepReport&)> step;
  std::function<void(const EvaluationReport&)> evaluation;
  std::function<void(const std::string& path)> checkpoint;
  std::function<void(std::int64_t step, std::int64_t steps)> progress;  // after every step
  // When it is cancelled, training saves a checkpoint and returns.
  const Cancellation* cancellation = nullptr;
  // If set, called in place of Session::run for each step, so that a training can be a job of an arbiter
  // (tessera/share.h). It must run the session with these arguments and return the result.
  std::function<std::vector<Value>(Session&, const NamedValues&, const std::vector<OutputRequest>&, const RunOptions&)>
      run;
  std::vector<StepTiming>* timings = nullptr;  // filled with the operators of one step
};

// The float32 constants of a net that are trained. The exporter decides: initializers are weights, unless they are
// marked as buffers. Outputs of Constant nodes and attributes are not trained, nor are masks (addends with elements of
// −10,000 or less), settings of operators (the factors of Resize) and frozen constants. NetOptions::frozen and trained
// override both rules.
struct TrainedWeights {
  std::vector<std::string> names, reasons;                     // one name per weight, and why it is trained
  std::int64_t elements = 0;                                   // number of elements of all weights together
  std::vector<std::pair<std::string, std::string>> untrained;  // names of rank 1 or more, and why they are not trained
  std::vector<std::string> notes;  // sentences about changes to the net: a new last layer, weights from a file
};

// The encoding of a column of a table as numbers.
struct EncodedColumn {
  std::string name, encoding;  // "z_score", "one_hot" …
  std::int64_t numbers = 0;    // number of numbers that the column becomes
  std::int64_t missing = 0;    // missing values in the training data
  std::string description;     // "z_score of numbers with mean 38.6 and deviation 13.6"
};

// A description of the training data, as loaded.
struct DataSummary {
  std::int64_t samples = 0;     // in the training data, without those known to be unreadable
  std::int64_t unreadable = 0;  // for tables; files turn out to be unreadable only when they are read
  // Samples left over in each epoch because they do not fill a batch: different ones each time; without shuffling they
  // are the first ones of the next epoch.
  std::int64_t left_over = 0;
  std::vector<EncodedColumn> columns;  // of a table
  std::string target;                  // column, and its classes unless it is a number
  std::vector<std::string> classes;
};

// One training. Not thread-safe.
class Trainer {
 public:
  // The net is config.model's. Throws Error: invalid_argument for options that do not fit one another, the net or the
  // data; not_found, io; unsupported, listing the operators that have no gradient.
  explicit Trainer(TrainingConfig config);
  // Trains this model in place of config.model's.
  Trainer(const Model& model, TrainingConfig config);
  ~Trainer();
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  // Continues from the newest complete checkpoint in the folder, or from this checkpoint file: weights, optimiser
  // state, loss scale, random numbers and the position in the data are as if training had not stopped. Throws
  // Error(not_found) if there is none, invalid_argument for a checkpoint of another net.
  void resume(const std::string& folder_or_file);

  std::int64_t step() const;  // number of updates so far

  // Trains to the end. Throws Error(invalid_argument) for an output folder that holds another training, unless
  // config.overwrite is set or this one goes on from a checkpoint there, and while another training writes to it.
  // Throws Error(failed) when the loss is no longer finite: the message names the first tensor that
  // is not and what may help. The weights are those of the last good step then.
  TrainingResult run(const TrainingHooks& hooks = {});

  // Metrics on "test", "validation" or "train" data with the current weights. Throws Error(invalid_argument) where
  // there are no such data.
  EvaluationReport evaluate(const std::string& data = "test");
  // Returns a copy of the net with the current weights (their moving average, if average_decay is above 0), to run,
  // optimise or save; later steps do not change it. BatchNormalization has its running statistics. A net trained on a
  // table includes the encoding of the columns: its inputs are the columns. With config.compress it is the quantised
  // net, with integers between QuantizeLinear and DequantizeLinear.
  Model model() const;
  // Writes everything that resume() needs, replacing the file as a whole. Throws Error(io).
  void save(const std::string& path) const;
  // The trained and the untrained weights of the net by their names in it, each with the reason, as `tessera train`
  // prints them at its start. Their values are those of the initialisers of model() with the same names.
  TrainedWeights weights() const;
  // A description of the training data; for a table, how its columns are encoded.
  DataSummary data() const;
  // The step as a graph, for explaining it.
  const Model& step_model() const;
  const TrainingConfig& config() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A configuration from TOML text (docs/training.md lists the keys), with "key.of.table=value" settings over it. Throws
// Error(invalid_argument) for unknown keys, naming the nearest known one, and values of the wrong kind. `where` names
// the text in messages; relative paths of files in it are relative to the current folder.
TrainingConfig parse_training_config(const std::string& toml, const std::string& where,
                                     const std::vector<std::string>& settings = {});
std::vector<std::string> loss_names();

}  // namespace tessera
