// tessera quantize: makes a model smaller and faster with integers, and reports the loss of quality.
#include <fmt/format.h>

#include "calibration_options.h"
#include "common.h"
#include "compress/quantise/quantisation_report.h"
#include "compress/quantise/quantise_file.h"
#include "option_values.h"
#include "tessera/optimise.h"
#include "tessera/quantise.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

struct QuantizeOptions {
  ModelOptions model;
  QuantiseOptions how;
  std::string output, estimator = "auto", page;
  double max_drop = -1;
  bool json = false, all = false, fast = false;
};

void run_quantize(QuantizeOptions options) {
  check_outputs({options.output, options.page});
  check_form(options.page, {kPageForm, kJsonForm});
  check_output_name(options.output);
  options.how.session = session_options(options.model);
  options.how.estimator = parse_range_estimator(options.estimator);
  if (options.max_drop >= 0) options.how.max_drop = options.max_drop;
  options.how.diagnose = !options.fast;
  options.how.progress = show_progress;
  const Model model = load_model(options.model);
  const QuantisedModel made = compress::quantise_to_file(model, options.how, options.output, !options.fast,
                                                         compress::file_bytes_of(options.model.model, model));
  const compress::QuantisationFiles files{model_title(options.model.model), options.output};
  if (options.page.ends_with(".json")) write_text(options.page, compress::quantisation_json(made.report, files) + "\n");
  else if (!options.page.empty()) write_text(options.page, compress::quantisation_html(made.report, files));
  constexpr std::size_t kShown = 10;
  fmt::print("{}", options.json ? compress::quantisation_json(made.report, files) + "\n"
                                : compress::quantisation_text(made.report, files,
                                                              options.all ? made.report.layers.size() : kShown));
}

void add_scheme_options(CLI::App& verb, QuantizeOptions& options) {
  verb.add_option("--weights", options.how.weights, "Bits of weights: int8, or int4 (products; the rest int8)")
      ->capture_default_str()
      ->check(CLI::IsMember({"int8", "int4"}));
  verb.add_option("--group", options.how.group,
                  "Weights of a product along its inputs that share a scale, where that makes it smaller (default 32 "
                  "with int4, 128 with int8)")
      ->check(CLI::IsMember({16, 32, 64, 128, 256}));
  verb.add_flag("--full", options.how.full, "Quantise activations too, to integer layers; needs --data");
  verb.add_option("--estimator", options.estimator,
                  "How ranges of activations are chosen; auto takes the one with which the outputs are closest to the "
                  "float model's")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "minmax", "percentile", "mse", "kl"}));
  verb.add_option("--percentile", options.how.percentile, "Of the values that lie in the range, for that estimator")
      ->capture_default_str()
      ->check(number(50.001, 100));
  verb.add_flag("!--no-bias-correction", options.how.correct_bias,
                "Do not correct biases for the mean error of rounded weights");
  verb.add_flag("!--no-variance-correction", options.how.correct_variance,
                "Do not correct the variance of each channel's rounded weights");
  verb.add_flag("!--no-equalisation", options.how.equalise, "Do not equalise channels across layers");
  verb.add_flag("--adaptive-rounding", options.how.adaptive_rounding,
                "Round each weight up or down as the layer's outputs on the data demand (AdaRound); takes seconds to "
                "minutes; needs --data");
  verb.add_option("--rounding-steps", options.how.rounding_steps, "Steps of adaptive rounding for each layer")
      ->capture_default_str()
      ->check(whole_number(1, 1'000'000));
  verb.add_option("--exclude", options.how.exclude, "A pattern of names of layers that stay in float; may be repeated")
      ->type_name("PATTERN");
  verb.add_option("--max-drop", options.max_drop,
                  "Keep the worst layers in float until the metric is at most this much worse than the float model's")
      ->check(number(0, 1e9));
  add_metric_option(verb, options.how.metric);
}

}  // namespace

void add_quantize(CLI::App& app) {
  auto options = std::make_shared<QuantizeOptions>();
  CLI::App* verb = app.add_subcommand(
      "quantize", "Write a model with weights, or everything, in 8 or 4 bits, and say what it costs");
  add_model_options(*verb, options->model, "an .onnx file, or a .tsr file that prune or compress wrote");
  verb->add_option("-o,--output", options->output,
                   "Where to write: OUT.onnx for any program, or OUT.tsr for this machine")
      ->required();
  add_scheme_options(*verb, *options);
  add_calibration_options(*verb, options->how.data, "Inputs to calibrate and measure on");
  verb->add_flag("--fast", options->fast, "Neither diagnose layers (unless --max-drop asks for it) nor measure times");
  verb->add_option("--report", options->page, "Also write the report as a page (.html) or as JSON (.json)");
  verb->add_flag("--all", options->all, "List all layers, not only the ten that cost most");
  verb->add_flag("--json", options->json, "Print the report as JSON");
  verb->add_option("--threads", options->model.threads, "Most threads to use; 0: all cores this process may use")
      ->capture_default_str()
      ->check(whole_number(0, 1024));
  verb->footer(
      "Without --full only weights are rounded: no data are needed, products become as much faster as their weights "
      "are smaller where memory\nbounds them. With --full layers compute in integers. The signal-to-noise ratio of a "
      "layer is that of the outputs when this layer alone\nis quantised. No layer becomes larger. With labels that are "
      "classes the accuracy before and after is computed without --metric.\nA metric command gets the path of an .npz "
      "with the outputs by name and 'labels', and prints one number; higher is better.\n\nExamples:\n"
      "  tessera quantize model.onnx -o small.onnx --weights int4\n"
      "  tessera quantize model.onnx -o small.onnx --weights int4 --adaptive-rounding --data calibration.npz\n"
      "  tessera quantize model.onnx -o int8.onnx --full --data calibration.npz\n"
      "  tessera quantize model.onnx -o int8.onnx --full --data photos/ --normalise imagenet --max-drop 0.005 "
      "--report page.html\n"
      "  tessera quantize model.onnx -o int8.tsr --full --data data.npz --max-drop 0.5 --metric "
      "'command:python3 errors.py'");
  verb->callback([options] { run_quantize(*options); });
}

}  // namespace tessera::apps
