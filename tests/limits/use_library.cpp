// A host program that loads a model and runs it on all threads, twice, as limits_test.py lets it: under limits of the
// system.
//
//   use_library MODEL: exit code 0 and "ran with N threads" in the end, or 20 and the text of a tessera::Error.
//   Anything else is a fault of the library.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "base/threads/thread_pool.h"
#include "runtime/session/random_inputs.h"
#include "tessera/error.h"
#include "tessera/log.h"
#include "tessera/optimise.h"
#include "tessera/session.h"

int main(int argc, char** argv) {
  try {
    tessera::set_log_handler([](tessera::LogLevel, std::string_view message) {
      std::fprintf(stderr, "warning: %.*s\n", static_cast<int>(message.size()), message.data());
    });
    const tessera::Model model = tessera::Model::load(argv[1]);
    const tessera::NamedValues inputs = tessera::runtime::random_inputs(model, 1, 0);
    tessera::Session session(model);
    for (int i = 0; i < 2; ++i) session.run(inputs);
    if (argc > 2) tessera::optimise(model, argv[2]);
    std::printf("ran with %d threads\n", tessera::base::ThreadPool::process().cores());
    return 0;
  } catch (const tessera::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 20;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "not an Error: %s\n", error.what());
    return 21;
  }
}
