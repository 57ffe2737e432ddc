#include "serve_command.h"

#include "option_values.h"

namespace tessera::apps {

namespace {

void add_verify(CLI::App& verb, ServeArguments& arguments) {
  CLI::App* const verify = verb.add_subcommand("audit-verify", "Check the chain of an audit log");
  verify->add_option("file", arguments.audit_files, "Audit logs, oldest first: audit.log.1 audit.log.2 audit.log")
      ->type_name("FILE")
      ->required();
  verify
      ->add_option("--key", arguments.audit_key,
                   "File with the key of the hashes, where the log has one (audit_key_file)")
      ->type_name("FILE");
  verify
      ->add_option("--head", arguments.audit_head,
                   "A last hash that was noted: the server's log has it at the start, at each change of the file and "
                   "at the end")
      ->type_name("HASH");
  verify->add_flag("--json", arguments.json, "Print the verdict as JSON");
  verify->callback([&arguments] { arguments.verifies = true; });
  verify->footer(
      "Exit code 1 and the first wrong line where the log was changed. What is not shown: without --key and --head,\n"
      "that somebody who can write the file has written all of it anew from some line on; without --head, that lines\n"
      "are missing at the end. With --head, all lines up to that hash are as they were when it was noted.");
}

void add_health(CLI::App& verb, ServeArguments& arguments) {
  CLI::App* const health = verb.add_subcommand("health", "Ask a running server whether it is ready");
  health->add_option("url", arguments.health_url, "Where to ask (http://127.0.0.1:8000/v2/health/ready)")
      ->type_name("URL");
  health
      ->add_option("--authorities", arguments.authorities,
                   "PEM file of those who sign the server's certificate, instead of those that the system trusts")
      ->type_name("FILE");
  CLI::Option* const certificate =
      health->add_option("--certificate", arguments.certificate, "PEM file of the client's own certificate")
          ->type_name("FILE");
  CLI::Option* const key =
      health->add_option("--key", arguments.key, "PEM file of that certificate's private key")->type_name("FILE");
  certificate->needs(key);
  key->needs(certificate);
  health->add_flag("--any-certificate", arguments.accepts_any_certificate,
                   "Do not check the server's certificate: for a server on this machine");
  health->add_option("--timeout", arguments.timeout_s, "Time to wait for an answer (2s)")->transform(duration());
  health->callback([&arguments] { arguments.asks_health = true; });
  health->footer("Exit code 1 where the server does not answer or is not ready: for the health checks of containers.");
}

}  // namespace

void add_serve_command(CLI::App& verb, ServeArguments& arguments) {
  verb.add_option("repository", arguments.repository,
                  "A folder of models (NAME/VERSION/model.onnx, NAME/config.pbtxt), or one model file");
  const auto address = [&](const char* name, std::optional<std::string>& to, const char* what) {
    verb.add_option(name, to, what)->type_name("HOST:PORT");
  };
  address("--http", arguments.http, "Address for HTTP (127.0.0.1:8000), port 0 for a free one, or off");
  address("--grpc", arguments.grpc, "Address for gRPC (127.0.0.1:8001), or off");
  address("--metrics", arguments.metrics, "Address for Prometheus metrics (127.0.0.1:8002), or off");
  verb.add_option("--config", arguments.config,
                  "TOML file: keys, TLS, limits, audit and access log, traces; see docs/serving.md")
      ->type_name("FILE");
  suggest(verb.add_option("--policy", arguments.policy,
                          "How models share the device: fifo, fair, iteration, headroom, fill (unless given) or "
                          "predictive; see docs/sharing.md")
              ->type_name("NAME"),
          {"fifo", "fair", "iteration", "headroom", "fill", "predictive"});
  verb.add_option("--poll", arguments.poll_s, "Time between two looks for changed models; 0: only on SIGHUP")
      ->transform(duration());
  suggest(verb.add_option("--model-control-mode", arguments.control_mode,
                          "none: models are loaded at the start alone; poll: as their folders change (15s unless "
                          "--poll); explicit: those of --load-model, and what requests load. Without it, all are "
                          "loaded, and requests and SIGHUP change them")
              ->type_name("MODE"),
          {"none", "poll", "explicit"});
  verb.add_option("--load-model", arguments.load_models,
                  "With the mode explicit, a model to load at the start, once for each of them; '*': all")
      ->type_name("NAME")
      ->allow_extra_args(false);
  verb.add_option("--ready-when", arguments.ready_when,
                  "When the server is ready: all (unless given) models that were asked for are loaded, any of them is, "
                  "or those of a list of names with commas between")
      ->type_name("RULE");
  verb.add_option("--shutdown-delay", arguments.shutdown_delay_s,
                  "Time on SIGTERM in which the server is not ready, but takes requests, before it drains (0s)")
      ->transform(duration());
  verb.add_option("--drain", arguments.drain_s, "Time that requests in flight have to end on SIGTERM (30s)")
      ->transform(duration());
  verb.add_option("--threads", arguments.threads, "Threads that read requests and write answers (2)")
      ->check(whole_number(1, 256));
  suggest(verb.add_option("--log-level", arguments.log_level,
                          "What is logged on standard error: debug, info (unless given), warning or error")
              ->type_name("LEVEL"),
          {"debug", "info", "warning", "error"});
  verb.add_flag("--json", arguments.json, "Print the addresses, or the verdict, as JSON");
  add_health(verb, arguments);
  add_verify(verb, arguments);
  verb.footer(
      "Examples:\n"
      "  tessera serve model.onnx\n"
      "  tessera serve models/ --http 0.0.0.0:8000 --config server.toml\n"
      "  curl -s localhost:8000/v2/models/model/infer -d '{\"inputs\": [{\"name\": \"x\", \"datatype\": \"FP32\",\n"
      "    \"shape\": [1, 2], \"data\": [1, 2]}]}'\n"
      "  tessera serve health\n"
      "  tessera serve audit-verify audit.log\n\n"
      "Speaks the Open Inference Protocol v2 over HTTP and gRPC, as Triton's clients do; http://localhost:8000 is a\n"
      "page that shows the server at work. SIGTERM drains, and a second one ends it at\n"
      "once; SIGHUP reads the models anew.");
}

}  // namespace tessera::apps
