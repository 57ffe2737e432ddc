// tessera share record: a trace from runs on this machine.
#include <filesystem>

#include "common.h"
#include "lease/job_description.h"
#include "share.h"
#include "share/record.h"

namespace tessera::apps {
namespace {

struct RecordArguments {
  ModelOptions model;
  share::RecordOptions record;
  std::string name_of_class = "standard", inputs, output = "-";
  std::vector<std::string> named_inputs;
};

void record(RecordArguments& arguments) {
  check_outputs({arguments.output == "-" ? "" : arguments.output});
  arguments.record.priority = lease::parse_priority(arguments.name_of_class);
  if (arguments.record.name.empty())
    arguments.record.name = std::filesystem::path(arguments.model.model).stem().string();
  const Model model = with_assumed_dims(load_model(arguments.model), true);
  Session session(model, session_options(arguments.model));
  const NamedValues inputs = read_inputs(model, arguments.inputs, arguments.named_inputs, arguments.model);
  write_text(arguments.output, share::record_job(session, inputs, arguments.record, run_options(arguments.model)));
}

}  // namespace

void add_share_record(CLI::App& verb) {
  auto arguments = std::make_shared<RecordArguments>();
  CLI::App* sub = verb.add_subcommand("record", "Run a model and write what its steps took, as a job of a trace");
  add_model_options(*sub, arguments->model);
  add_input_options(*sub, arguments->inputs, arguments->named_inputs, arguments->model);
  add_run_options(*sub, arguments->model);
  sub->add_option("-o,--output", arguments->output, "The trace; - is standard output")
      ->capture_default_str()
      ->type_name("FILE.toml");
  sub->add_option("--name", arguments->record.name, "Of the job; the file's unless given")->type_name("NAME");
  sub->add_option("--class", arguments->name_of_class, "How important it is; standard unless given")
      ->type_name("CLASS")
      ->check(CLI::IsMember({"realtime", "standard", "background"}));
  sub->add_option("--goal", arguments->record.goal_ms, "The latency in ms that a realtime run should have at most")
      ->type_name("MS")
      ->check(CLI::Range(0.0, 1e9));
  sub->add_option("--rate", arguments->record.rate, "Requests a second, at random; 0: one after the other")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e9));
  sub->add_option("--requests", arguments->record.requests, "How many the trace has")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{100'000'000}));
  sub->add_option("--runs", arguments->record.runs, "Runs to measure; each step takes the median")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  sub->footer(
      "Examples:\n"
      "  tessera share record model.onnx --class realtime --goal 20 --rate 30 -o trace.toml\n"
      "  tessera share record other.onnx --class background >> trace.toml\n"
      "  tessera share simulate trace.toml --policy fifo,fill");
  sub->callback([arguments] { record(*arguments); });
}

}  // namespace tessera::apps
