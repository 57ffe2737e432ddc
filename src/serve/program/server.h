// A server within a process: the program tessera-serve has one, and so has whoever serves from a process of its own.
#pragma once

#include <memory>
#include <vector>

#include "serve/core/models/repository.h"
#include "serve/program/server_options.h"

namespace tessera::serve {

// Where the server listens; 0: not at all.
struct ServerPorts {
  int http = 0, grpc = 0, metrics = 0;
};

// Serves from its construction until drain() or its end. It installs no signal handlers, but SIGPIPE and SIGXFSZ must
// be ignored in its process: a client that has gone, and a file that has reached its greatest size, are errors of the
// call that met them. The level of the log is one for all servers of a process. Thread-safe.
class Server {
 public:
  enum class Loading { before_return, by_load };
  // Listens, takes requests, and loads all models (one that cannot be loaded stands in models() with the reason) before
  // it returns, or leaves that to load(): the server is live from the first moment, and ready when models are loaded.
  // Throws Error for options and files that cannot be used, and for addresses that cannot be had.
  explicit Server(const ServerOptions& options, Loading loading = Loading::before_return);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Throws Error where the repository cannot be read. By one thread, once.
  void load();
  bool is_loaded() const;

  const ServerPorts& ports() const;
  // Whether every model that was asked for is loaded, and the server takes requests.
  bool is_ready() const;
  std::vector<ModelState> models() const;
  // The server is no longer ready, and takes requests until drain(). Thread-safe, without waiting.
  void begin_leaving();
  // Loads what has changed on disk and unloads what is gone. Throws Error where the repository cannot be read.
  void refresh();
  // Takes no new requests, answers those that it has (for at most ServerOptions::drain_seconds) and ends. A second call
  // returns when the first one has ended. While another thread is in load(), that one goes on with its model alone.
  void drain();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::serve
