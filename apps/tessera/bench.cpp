// tessera bench: measures the time and memory of a model's runs.
#include "report/measure/bench.h"

#include <fmt/format.h>

#include <chrono>

#include "base/numbers/units.h"
#include "base/text.h"
#include "common.h"
#include "generation_bench.h"
#include "io/model_format.h"
#include "option_values.h"
#include "signals.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

struct BenchOptions {
  ModelOptions model;
  report::BenchOptions bench;
  std::string inputs;
  std::vector<std::string> named_inputs;
  GenerationBenchVerb generation;
  bool json = false;
};

void print(const report::BenchResult& result) {
  for (const auto& [name, shape] : result.shapes)
    fmt::print("input   {} {}\n", base::printable(base::shown(name)), shape);
  fmt::print("threads {}, precision {}\n", result.threads, result.precision);
  fmt::print("load    {:.2f} ms, then {:.2f} ms to the first answer\n", result.load_ms, result.first_ms);
  fmt::print("run     median {:.3f} ms, min {:.3f}, p90 {:.3f}, p99 {:.3f} ({} runs{})\n", result.median_ms,
             result.min_ms, result.p90_ms, result.p99_ms, result.runs, result.interrupted ? ", interrupted" : "");
  fmt::print("memory  peak {}, arena {}, weights {}\n", base::format_bytes(result.peak_rss_bytes),
             base::format_bytes(result.arena_bytes), base::format_bytes(result.weights_bytes));
  if (result.device_arena_bytes + result.device_weights_bytes > 0)
    fmt::print("device  arena {}, weights {}\n", base::format_bytes(result.device_arena_bytes),
               base::format_bytes(result.device_weights_bytes));
}

void run_bench(BenchOptions& options) {
  if (io::is_language_model(model_path(options.model.model)))
    return run_generation_bench(options.generation, model_path(options.model.model), options.model.threads,
                                options.json);
  const auto start = std::chrono::steady_clock::now();
  const Model model = load_model(options.model);
  const double load_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  options.bench.session = session_options(options.model);
  options.bench.run = run_options(options.model);
  const GracefulStop stop;  // an interrupted benchmark prints what it has measured so far
  options.bench.run.cancellation = &stop.cancellation();
  const NamedValues inputs = read_inputs(model, options.inputs, options.named_inputs, options.model);
  report::BenchResult result;
  run_with_made_up_sizes(model, has_no_inputs(options.inputs, options.named_inputs, options.model),
                         [&] { result = report::bench_model(model, load_ms, inputs, options.bench); });
  if (options.json) fmt::print("{}\n", report::bench_json(options.model.model, result));
  else print(result);
}

}  // namespace

void add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* verb =
      app.add_subcommand("bench",
                         "Measure load time, run time and memory of a model; of a language model, tokens per "
                         "second");
  add_model_options(*verb, options->model, "an .onnx, .tsr or .gguf file, or a folder with .safetensors files");
  verb->add_option("--runs", options->bench.runs, "Timed runs, at least")
      ->capture_default_str()
      ->check(whole_number(1, 1000000));
  verb->add_option("--seconds", options->bench.seconds, "Go on with timed runs until so many seconds have passed")
      ->capture_default_str()
      ->check(number(0, 1e6));
  verb->add_option("--warmup", options->bench.warmup, "Runs before them that are not counted")
      ->capture_default_str()
      ->check(whole_number(0, 1000000));
  add_input_options(*verb, options->inputs, options->named_inputs, options->model);
  verb->add_flag("--json", options->json, "Print the figures as JSON");
  add_run_options(*verb, options->model);
  add_generation_bench_options(*verb, options->generation);
  verb->footer(
      "Times are of this process alone; to compare two programs, run them in turn and compare medians.\n\nExamples:\n"
      "  tessera bench resnet50.onnx --dim batch=8 --threads 2\n"
      "  tessera bench model.onnx --runs 100 --json\n"
      "  taskset -c 0 tessera bench model.onnx --runs 5 --seconds 2\n"
      "  tessera bench model.gguf --prompt-tokens 512 --answer-tokens 128 --depth 0,2048 --threads 2");
  verb->callback([options] { run_bench(*options); });
}

}  // namespace tessera::apps
