#include <CLI/CLI.hpp>
#include <cstdio>
#include <fmt/format.h>

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

// One clear line; with -v the whole chain of places it passed through.
int report(const tessera::Error& error, bool verbose) {
  fmt::print(stderr, "tessera: {}: {}\n", tessera::to_string(error.kind()), verbose ? error.message() : error.what());
  if (verbose) {
    for (const std::string& place : error.context()) fmt::print(stderr, "  in {}\n", place);
  }
  return tessera::exit_code(error.kind());
}

// Warnings go to stderr, where they mix with no result; with -v their details too. `verbose` must live as long as the process.
void print_warnings(const bool& verbose) {
  tessera::set_log_handler([&verbose](tessera::LogLevel level, std::string_view message) {
    if (level == tessera::LogLevel::warning) fmt::print(stderr, "tessera: warning: {}\n", message);
    else if (verbose) fmt::print(stderr, "tessera: {}\n", message);
  });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Tessera runs neural networks to the limit of the hardware."};
  app.name("tessera");
  app.set_version_flag("--version", version_text, "Print the version, the processor's features and the devices");
  static bool verbose = false;
  print_warnings(verbose);
  tessera::register_image_codecs();
  app.add_flag("-v,--verbose", verbose, "On an error, print every place it passed through; print the details of warnings");
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
      "6 input/output error, 7 over budget, 8 cancelled, 9 the run failed. Bugs abort.\n"
      "Environment: TESSERA_NUM_THREADS (cores to use), TESSERA_ISA=scalar|avx2|avx512|amx (best instruction set to use).");
  tessera::apps::add_run(app);
  tessera::apps::add_bench(app);
  tessera::apps::add_info(app);
  tessera::apps::add_check(app);
  tessera::apps::add_new(app);
  tessera::apps::add_optimize(app);
  tessera::apps::add_calibrate(app);
  tessera::apps::add_explain(app);
  tessera::apps::add_diff(app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::RuntimeError& exit) {
    return exit.get_exit_code();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const tessera::Error& error) {
    return report(error, verbose);
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "tessera: over budget: the system has no more memory\n");
    return tessera::exit_code(tessera::ErrorKind::over_budget);
  } catch (const std::exception& error) {
    fmt::print(stderr, "tessera: internal error (a bug in Tessera, please report it): {}\n", error.what());
    return 70;
  }
}
