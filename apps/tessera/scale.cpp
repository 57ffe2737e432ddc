// tessera scale: how long a training takes on many GPUs, by a simulator.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/numbers/units.h"
#include "base/text.h"
#include "common.h"
#include "cost/convergence.h"
#include "dist/scaling/model_profile.h"
#include "dist/scaling/time_to_train.h"
#include "option_values.h"
#include "report/explain/explain.h"
#include "report/values/json_text.h"
#include "train/net/training_step.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

constexpr std::int64_t kUsualGpuBatch = 32;

struct ScaleOptions {
  ModelOptions model;
  std::string cluster = "dgxa100", gpus = "1..4096", convergence, all_reduce = "fastest";
  std::optional<double> samples;
  std::optional<std::int64_t> gpu_batch;
  std::int64_t evaluators = 0;
  bool no_capture = false, json = false;
};

std::vector<cost::ConvergencePoint> read_table(const std::string& file_or_text) {
  const bool is_text = file_or_text.find(':') != std::string::npos && !std::filesystem::exists(file_or_text);
  return cost::parse_convergence(is_text ? file_or_text : dist::read_small_file(file_or_text));
}

// The name of the first dimension of the first input, which is the batch.
std::string batch_dimension(const Model& net, const std::string& title) {
  const std::string name =
      net.inputs().empty() || net.inputs()[0].dim_names.empty() ? "" : net.inputs()[0].dim_names[0];
  require(!name.empty(), ErrorKind::unsupported,
          "the batch of '{}' is fixed, but its training step is evaluated for two batches: export the model with a "
          "symbolic first dimension",
          title);
  return name;
}

cost::Evaluation evaluate_step(const Model& net, const std::string& dimension, std::int64_t batch,
                               const dist::ClusterProfile& cluster, const ScaleOptions& options) {
  report::ExplainOptions how;
  how.devices = {cluster.device};
  how.precision = cost::Precision::f16;
  how.training = true;
  how.session = session_options(options.model);
  const Model step = train::usual_training_step(with_assumed_dims(net.with_dims({{dimension, batch}}), options.json));
  return report::explain(step, "step", how).devices[0].evaluation;
}

dist::TrainingProfile profile_of_model(const ScaleOptions& options, const dist::ClusterProfile& cluster) {
  require(options.samples.has_value(), ErrorKind::invalid_argument,
          "a model file does not say how many samples an epoch has; give --samples");
  const Model net = load_model(options.model);
  const std::string title = model_title(options.model.model), dimension = batch_dimension(net, title);
  const std::int64_t batch = options.gpu_batch.value_or(kUsualGpuBatch);
  return dist::profile_of_evaluations(evaluate_step(net, dimension, batch, cluster, options),
                                      evaluate_step(net, dimension, 2 * batch, cluster, options), batch,
                                      dist::count_parameters(net.graph()), *options.samples, title);
}

dist::TrainingProfile read_net(const ScaleOptions& options, const dist::ClusterProfile& cluster) {
  const std::string& file = options.model.model;
  if (!file.ends_with(".toml")) return profile_of_model(options, cluster);
  require(!options.samples && !options.gpu_batch && options.model.dims.empty(), ErrorKind::invalid_argument,
          "--samples, --gpu-batch and --dim are for model files; the profile {} states epoch_samples and "
          "most_gpu_batch",
          file);
  return dist::parse_training_profile(dist::read_small_file(file), file);
}

nlohmann::json as_json(const dist::ScalingPoint& point) {
  nlohmann::json json = {{"gpus", point.gpus}, {"minutes", nullptr}};
  if (!point.training) return json;
  const dist::ScalingPoint::Training& training = *point.training;
  const dist::StepTime& step = training.step;
  json.update({{"minutes", training.seconds / 60},
               {"batch", training.batch},
               {"epochs", training.epochs},
               {"steps", training.steps},
               {"gpu_batch", step.gpu_batch},
               {"micro_batches", step.micro_batches},
               {"gpus_per_sample", step.split},
               {"step_ms", 1e3 * step.seconds()},
               {"compute_ms", 1e3 * step.compute_seconds},
               {"exchange_ms", 1e3 * step.exchange_seconds},
               {"all_reduce_ms", 1e3 * step.all_reduce_seconds},
               {"exposed_all_reduce_ms", 1e3 * step.exposed_seconds},
               {"update_ms", 1e3 * step.update_seconds},
               {"all_reduce", point.gpus > 1 ? nlohmann::json(name_of(step.all_reduce)) : nlohmann::json(nullptr)}});
  return json;
}

void print_points(const dist::ScalingModel& model, const std::vector<dist::ScalingPoint>& points) {
  const dist::TrainingProfile& profile = model.profile();
  fmt::print("{} on {}\n", base::printable(base::shown(profile.title)),
             base::printable(base::shown(model.cluster().title)));
  fmt::print("{} parameters; {:.4g} us a sample on one GPU{}; {}\n\n", base::format_count(profile.parameters),
             1e6 * model.sample_seconds(),
             model.peak_share() > 0 ? fmt::format(", {:.0f}% of its peak", 100 * model.peak_share()) : "",
             profile.measured ? fmt::format("calibrated by a training on {} GPUs", profile.measured->gpus)
                              : "predicted by the cost model alone, not calibrated");
  fmt::print("{:>7} {:>9} {:>8} {:>10} {:>9} {:>10} {:>9} {:>9} {:>10}  {}\n", "GPUs", "batch", "per GPU", "minutes",
             "step ms", "compute", "exchange", "exposed", "GPU-hours", "all-reduce");
  for (const dist::ScalingPoint& point : points) {
    if (!point.training) {
      fmt::print("{:>7} every batch of the table has fewer samples than GPUs\n", point.gpus);
      continue;
    }
    const dist::ScalingPoint::Training& training = *point.training;
    const dist::StepTime& step = training.step;
    const std::string samples =
        step.split > 1 ? fmt::format("{}/{}", step.gpu_batch, step.split) : fmt::format("{}", step.gpu_batch);
    fmt::print("{:>7} {:>9} {:>8} {:>10.2f} {:>9.3f} {:>10.3f} {:>9.3f} {:>9.3f} {:>10.1f}  {}\n", point.gpus,
               training.batch, samples, training.seconds / 60, 1e3 * step.seconds(), 1e3 * step.compute_seconds,
               1e3 * step.exchange_seconds, 1e3 * step.exposed_seconds,
               static_cast<double>(point.gpus) * training.seconds / 3600,
               point.gpus > 1 ? name_of(step.all_reduce) : "none");
  }
}

void run_scale(const ScaleOptions& options) {
  dist::ScalingOptions how;
  how.all_reduce = dist::parse_all_reduce_algorithm(options.all_reduce);
  how.capture = !options.no_capture;
  how.evaluators = options.evaluators;
  const std::vector<std::int64_t> gpus = dist::parse_gpu_counts(options.gpus);
  const std::vector<cost::ConvergencePoint> table = read_table(options.convergence);
  const dist::ClusterProfile cluster = dist::load_cluster(options.cluster);
  const dist::ScalingModel model(read_net(options, cluster), cluster);
  const std::vector<dist::ScalingPoint> points = dist::simulate_scaling(model, gpus, table, how);
  if (!options.json) return print_points(model, points);
  nlohmann::json json = {{"net", model.profile().title},
                         {"cluster", cluster.name},
                         {"calibrated", model.profile().measured.has_value()},
                         {"sample_us", 1e6 * model.sample_seconds()},
                         {"points", nlohmann::json::array()}};
  for (const dist::ScalingPoint& point : points) json["points"].push_back(as_json(point));
  fmt::print("{}\n", report::json_text(json, 2));
}

void add_scale_options(CLI::App& verb, ScaleOptions& options) {
  verb.add_option("--cluster", options.cluster, "Which cluster: a name from the list below, or a FILE.toml")
      ->capture_default_str();
  verb.add_option("--gpus", options.gpus, "Numbers of GPUs: 64, or 1..4096 (doubling), or a list such as 1..64,104")
      ->capture_default_str();
  verb.add_option("--convergence", options.convergence,
                  "Epochs until the net is good enough, by batch: a file or text such as 912:50,1536:65")
      ->type_name("FILE")
      ->required();
  verb.add_option("--all-reduce", options.all_reduce, "How gradients are summed; fastest: the fastest of the others")
      ->capture_default_str()
      ->check(CLI::IsMember({"fastest", "one-shot", "ring", "tree", "hierarchical", "in-network"}));
  verb.add_option("--evaluators", options.evaluators, "GPUs of each number that evaluate and do not train")
      ->capture_default_str()
      ->check(whole_number(0, dist::kMostGpus));
  verb.add_flag("--no-capture", options.no_capture, "The host launches every kernel of every step, as frameworks do");
  verb.add_option("--samples", options.samples, "Of a model file: samples of an epoch")->check(number(1, 1e15));
  verb.add_option("--gpu-batch", options.gpu_batch,
                  fmt::format("Of a model file: samples that a GPU computes at once ({} if not given); more are "
                              "accumulated",
                              kUsualGpuBatch))
      ->check(whole_number(1, 1 << 20));
  verb.add_flag("--json", options.json, "Print the result as JSON");
}

}  // namespace

void add_scale(CLI::App& app) {
  auto options = std::make_shared<ScaleOptions>();
  CLI::App* verb = app.add_subcommand("scale", "Predict how long a training takes on many GPUs");
  add_model_options(*verb, options->model,
                    "a profile (.toml: sizes of a step and one measured training), or an .onnx or .tsr file");
  add_scale_options(*verb, *options);
  std::string names;
  for (const dist::ClusterProfile& cluster : dist::built_in_clusters())
    names += fmt::format("  {:<14} {}\n", cluster.name, cluster.title);
  verb->footer(
      "Minutes are steps x time of a step. Steps follow from the convergence table: larger batches need fewer "
      "steps and more epochs.\nA step computes the GPU's part of the batch, exchanges embeddings, sums "
      "gradients behind the backward pass, and updates.\nFor each number of GPUs, the fastest batch of the "
      "table is shown; 'exposed' is the part of the sum that is not hidden.\n\n"
      "Clusters:\n" +
      names +
      "\nExamples:\n"
      "  tessera scale examples/scaling/ssd.toml --gpus 8..1024 --convergence examples/scaling/ssd.txt\n"
      "  tessera scale examples/scaling/unet3d.toml --gpus 104 --evaluators 24 --convergence 80:2016\n"
      "  tessera scale examples/scaling/ssd.toml --gpus 1024 --convergence 3072:75 --no-capture\n"
      "  tessera scale resnet50.onnx --samples 1281167 --gpu-batch 64 --convergence 3264:35,13056:45 --json\n"
      "docs/scaling.md shows how to write a profile, and how far predictions were from published results.");
  verb->callback([options] { run_scale(*options); });
}

}  // namespace tessera::apps
