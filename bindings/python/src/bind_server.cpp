// tessera._core.Server, in builds with the server.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "gil.h"
#include "serve/program/server.h"
#include "serve_main.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tessera::python {
namespace {

// Makes threads that start during its lifetime block signals, which are for Python's main thread.
class WithoutSignals {
 public:
  WithoutSignals() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~WithoutSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

 private:
  sigset_t before_;
};

// `config` is the path of a TOML file, or None. `settings` override it; options that are not in the dict are kept.
serve::ServerOptions server_options(nb::handle config, const nb::dict& settings) {
  serve::ServerOptions options;
  if (!config.is_none()) serve::read_server_config(path_from_python(config), options);
  const auto take = [&](const char* key, auto& to) {
    if (settings.contains(key)) to = nb::cast<std::remove_reference_t<decltype(to)>>(settings[key]);
  };
  if (settings.contains("repository")) options.repository = path_from_python(settings["repository"]);
  take("http", options.http);
  take("grpc", options.grpc);
  take("metrics", options.metrics);
  take("policy", options.policy);
  take("drain_s", options.drain_seconds);
  take("threads", options.threads);
  take("log_level", options.log_level);
  return options;
}

serve::Server* make_server(nb::object config, const nb::dict& settings) {
  const serve::ServerOptions options = server_options(config, settings);
  serve::Server* made = nullptr;
  {
    const WithoutGil released;
    const WithoutSignals masked;
    made = new serve::Server(options);
  }
  pass_messages();
  return made;
}

nb::dict ports_of(const serve::Server& server) {
  nb::dict ports;
  ports["http"] = server.ports().http;
  ports["grpc"] = server.ports().grpc;
  ports["metrics"] = server.ports().metrics;
  return ports;
}

nb::list models_of(const serve::Server& server) {
  nb::list models;
  for (const serve::ModelState& state : server.models()) {
    nb::dict model;
    model["name"] = python_text(state.name);
    model["version"] = python_text(state.version);
    model["state"] = python_text(state.state);
    model["reason"] = python_text(state.reason);
    models.append(model);
  }
  return models;
}

// Executes the whole command line of `tessera serve`. The caller must have blocked the signals that end it.
int serve_command(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const WithoutGil released;
  return apps::serve_main(static_cast<int>(arguments.size()), argv.data());
}

}  // namespace

void bind_server(nb::module_& module) {
  module.def("serve_command", &serve_command, "arguments"_a);
  nb::class_<serve::Server>(module, "Server")
      .def(nb::new_(&make_server), "config"_a.none(), "settings"_a)
      .def_prop_ro("ports", &ports_of)
      .def_prop_ro("ready", &serve::Server::is_ready)
      .def_prop_ro("models", &models_of)
      .def("reload",
           [](serve::Server& self) {
             const WithoutGil released;
             const WithoutSignals masked;
             self.refresh();
           })
      .def("stop", [](serve::Server& self) {
        const WithoutGil released;
        self.drain();
      });
}

}  // namespace tessera::python
