#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <new>
#include <sstream>
#include <system_error>

#include "base/environment.h"
#include "key_options.h"
#include "parse_errors.h"
#include "signals.h"
#include "streams.h"
#include "tessera/device.h"
#include "tessera/error.h"
#include "tessera/images.h"
#include "tessera/log.h"
#include "tessera/version.h"
#include "verbs.h"

namespace {

std::string version_text() {
  std::string devices;
  for (const std::string& name : tessera::device_names()) devices += (devices.empty() ? "" : ", ") + name;
  return fmt::format("tessera {}\nmachine: {}\ndevices: {}", TESSERA_VERSION, tessera::describe_machine(), devices);
}

// Prints the error in one line; with -v also the chain of places that it passed through. Returns the exit code.
int report(const tessera::Error& error, bool verbose) {
  tessera::apps::print_error(
      fmt::format("{}: {}", tessera::to_string(error.kind()), verbose ? error.message() : error.what()));
  if (verbose) {
    for (const std::string& place : error.context()) fmt::print(stderr, "  in {}\n", place);
  }
  return tessera::exit_code(error.kind());
}

// Prints warnings on stderr, where they do not mix with results; with -v details too. `verbose` must live as long as
// the process.
void print_warnings(const bool& verbose) {
  tessera::set_log_handler([&verbose](tessera::LogLevel level, std::string_view message) {
    if (level == tessera::LogLevel::warning) tessera::apps::print_warning(message);
    else if (verbose) fmt::print(stderr, "tessera: {}\n", message);
  });
}

void add_verbs(CLI::App& app) {
  tessera::apps::add_run(app);
  tessera::apps::add_bench(app);
  tessera::apps::add_generate(app);
  tessera::apps::add_chat(app);
  tessera::apps::add_info(app);
  tessera::apps::add_check(app);
  tessera::apps::add_new(app);
  tessera::apps::add_optimize(app);
  tessera::apps::add_calibrate(app);
  tessera::apps::add_explain(app);
  tessera::apps::add_diff(app);
  tessera::apps::add_train(app);
  tessera::apps::add_eval(app);
  tessera::apps::add_prune(app);
  tessera::apps::add_compress(app);
  tessera::apps::add_quantize(app);
  tessera::apps::add_protect(app);
  tessera::apps::add_share(app);
  tessera::apps::add_scale(app);
  tessera::apps::add_tokenize(app);
  tessera::apps::add_serve(app);
  tessera::apps::add_completion(app);
  tessera::apps::add_manual(app);
  // An option that may be repeated takes one word each time; the word after it is the verb's next argument.
  for (CLI::App* verb : app.get_subcommands(nullptr)) {
    for (CLI::Option* option : verb->get_options()) {
      if (!option->get_positional()) option->allow_extra_args(false);
    }
  }
}

// Executes the command line. Returns the exit code; errors for the user pass through.
int run(CLI::App& app, int argc, char** argv) {
  tessera::apps::check_verb(app, argc, argv);
  const bool asks_for_help =
      std::any_of(argv, argv + argc, [](std::string_view word) { return word == "--help" || word == "-h"; });
  if (!asks_for_help) {
    // An invalid environment variable is an error of every verb, even if the verb does not use it.
    tessera::base::threads_by_environment();
    tessera::base::isa_by_environment();
    tessera::apps::use_environment_key();
  }
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::RuntimeError& exit) {
    return exit.get_exit_code();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help and --version
      std::ostringstream text;
      app.exit(error, text, text);
      fmt::print("{}", text.str());
      return 0;
    }
    tessera::apps::print_error(tessera::apps::describe(app, error));
    return tessera::exit_code(tessera::ErrorKind::invalid_argument);
  }
}

// Executes the command line and flushes the output. Reports errors of both.
int run_and_report(CLI::App& app, int argc, char** argv, const bool& verbose) {
  try {
    try {
      const int code = run(app, argc, argv);
      tessera::apps::finish_output();
      return code;
    } catch (const std::system_error& error) {
      tessera::apps::check_output_error(error);
      throw;
    }
  } catch (const tessera::Error& error) {
    if (error.kind() != tessera::ErrorKind::cancelled || tessera::apps::received_signal() == 0)
      return report(error, verbose);
    return tessera::exit_code(error.kind());
  } catch (const std::bad_alloc&) {
    tessera::apps::print_error("over budget: the system has no more memory");
    return tessera::exit_code(tessera::ErrorKind::over_budget);
  } catch (const std::exception& error) {
    tessera::apps::print_error(fmt::format("internal error (a bug in Tessera, please report it): {}", error.what()));
    return 70;
  }
}

}  // namespace

int main(int argc, char** argv) {
  tessera::apps::guard_standard_streams();
  tessera::apps::handle_signals();
  CLI::App app{"Tessera runs neural networks to the limit of the hardware."};
  app.name("tessera");
  app.set_version_flag("--version", version_text, "Print the version, the processor's features and the devices");
  static bool verbose = false;
  print_warnings(verbose);
  tessera::register_image_codecs();
  app.add_flag("-v,--verbose", verbose,
               "On an error, print every place it passed through; print the details of warnings");
  tessera::apps::add_key_options(app);
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(
      "Examples:\n"
      "  tessera new resnet50 -o resnet50.onnx --dim batch=1\n"
      "  tessera run resnet50.onnx\n"
      "  tessera bench resnet50.onnx --threads 2 --json\n"
      "  tessera info resnet50.onnx --plan\n"
      "  tessera optimize resnet50.onnx -o resnet50.tsr\n\n"
      "Exit codes: 0 success, 1 a check failed, 2 wrong call, 3 invalid model, 4 unsupported, 5 not found,\n"
      "6 input/output error, 7 over budget, 8 cancelled, 9 the run failed, 130 or 143 interrupted. Bugs abort.\n"
      "Environment: TESSERA_NUM_THREADS (cores to use), TESSERA_ISA=scalar|avx2|avx512|amx (best instruction set to "
      "use), NO_COLOR,\n"
      "TESSERA_KEY_FILE, TESSERA_KEY_COMMAND and TESSERA_PASSWORD_FILE (see tessera protect).\n"
      "There is no configuration file: a shell alias keeps options.");
  add_verbs(app);
  const int code = run_and_report(app, argc, argv, verbose);
  // Partial results of an interrupted verb have been printed; the exit code still tells of the interruption.
  const int signal = tessera::apps::received_signal();
  return signal != 0 ? 128 + signal : code;
}
