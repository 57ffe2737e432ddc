// The operations that both protocols offer, in terms of neither: who asks is checked, what is done is recorded.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "serve/core/models/generation.h"
#include "serve/core/models/repository.h"
#include "serve/core/operations/access.h"
#include "serve/core/operations/audit_log.h"
#include "serve/core/operations/metrics.h"
#include "serve/core/operations/tracing.h"
#include "serve/core/requests/shared_memory.h"
#include "serve/limits/allowances.h"
#include "serve/observe/access_log.h"

namespace tessera::serve {

// The sender of a request as it states it, and the trace that it belongs to.
struct Credentials {
  std::string authorization;  // the header's value
  std::string certificate;    // common name of a verified certificate
  std::string address;        // for the audit log
  std::string traceparent, tracestate;
  std::string request_id;                // see request_id()
  std::shared_ptr<AccessRecord> record;  // null: no line of the access log is written
};

struct ServiceOptions {
  bool shared_memory = true;
  std::string shared_memory_prefix;                          // of the names of regions that clients may register
  bool audit_inference = false;                              // beside changes and refusals, which are always recorded
  std::int64_t most_region_bytes = std::int64_t{256} << 20;  // of all inputs of a request that lie in shared memory
  AllowanceRule peer_rule;    // for an IP address, where there are no keys; its rate is also that of unknown callers
  bool lend_threads = false;  // whether a request's thread may compute, at most one at a time; others must be left
};

// Thread-safe. Functions throw Failure.
class Service {
 public:
  // `audit` and `tracer` may be null.
  Service(Repository& repository, Access& access, AuditLog* audit, const ServiceOptions& options,
          Tracer* tracer = nullptr);

  // Starts an inference. `done` is called exactly once, unless this throws. The response's outputs in shared memory are
  // written, and the request is handed back for the encoder. The call can be cancelled by what is returned: `call`,
  // where one is given, which is new but may have been cancelled already.
  using Done = std::function<void(Outcome, InferenceRequest&)>;
  std::shared_ptr<Call> infer(const Credentials& credentials, InferenceRequest request, Done done,
                              std::shared_ptr<Call> call = nullptr);

  // Starts a generation (see serve/core/models/generation.h) by the model that request.request names. The sink's end()
  // is called exactly once, unless this throws. The call is returned, and can be cancelled. A generation is one request
  // to limits, audit and access log, however many steps it has.
  std::shared_ptr<Call> generate(const Credentials& credentials, GenerateRequest request,
                                 std::shared_ptr<AnswerSink> sink, std::shared_ptr<Call> call);

  bool is_live() const { return true; }
  bool is_ready() const { return loaded_.load() && !is_leaving() && repository_.is_ready(); }
  // All models have been loaded, or cannot be.
  void end_loading() { loaded_.store(true); }
  // The server will end: it is no longer ready, so that nothing new is sent to it, but takes what comes.
  void begin_leaving() { leaving_.store(true); }
  void begin_drain() { draining_.store(true); }
  bool is_leaving() const { return leaving_.load() || draining_.load(); }

  // Without a check of who asks.
  std::shared_ptr<Servable> find(const std::string& name, const std::string& version) const {
    return repository_.find(name, version);
  }
  std::shared_ptr<Servable> model(const Credentials& credentials, const std::string& name, const std::string& version);
  std::vector<std::string> versions(const Credentials& credentials, const std::string& name);
  // Name "": of all models.
  std::vector<std::shared_ptr<Servable>> statistics(const Credentials& credentials, const std::string& name,
                                                    const std::string& version);
  std::vector<ModelState> index(const Credentials& credentials);
  // `config`: see Repository::load.
  void load(const Credentials& credentials, const std::string& name, const std::optional<std::string>& config);
  // `with_steps`: of an ensemble, the models that it needs, too.
  void unload(const Credentials& credentials, const std::string& name, bool with_steps);

  // Parts of the requests by version, see Repository.
  std::map<std::int64_t, double> shares(const Credentials& credentials, const std::string& name);
  void set_shares(const Credentials& credentials, const std::string& name,
                  const std::map<std::int64_t, double>& shares);

  struct CallersRegions {
    SharedMemory& memory;
    std::string caller;
  };
  // Throws Failure(unsupported) where shared memory is off.
  CallersRegions shared_memory(const Credentials& credentials);
  std::string metrics(const Credentials& credentials);
  // Throws Failure(unauthenticated) for callers that nobody knows.
  void identify(const Credentials& credentials);
  // Throws Failure for a request for inference that would be refused whatever its body is: of a caller that nobody
  // knows, that has not the role, or that has used up what its key or address allows.
  void admit_inference(const Credentials& credentials, const std::string& model = "");
  void require_role(const Credentials& credentials, Role role, const std::string& model = "");
  ServerCounters counters() const;
  // The device's work in the last seconds. Does not check who asks.
  const RunTimeline& timeline() const { return repository_.timeline(); }

  std::atomic<std::int64_t> connections{0}, http_requests{0}, grpc_requests{0}, grpc_connections{0},
      refused_grpc_connections{0};

 private:
  [[noreturn]] void refuse(const Failure& failure, const Credentials& credentials, const std::string& caller,
                           const std::string& action, const std::string& model);
  Allowances::Ticket begin_inference(const Credentials& credentials, const std::string& caller);
  std::string caller_for(const Credentials& credentials, Role role, const std::string& model);
  void submit(const std::shared_ptr<Call>& call);
  void record(const Credentials& credentials, const std::string& caller, const std::string& action,
              const std::string& model, const std::string& result);
  void manage(const Credentials& credentials, const std::string& action, const std::string& name,
              const std::function<void()>& change);

  Repository& repository_;
  Access& access_;
  AuditLog* audit_;
  Tracer* tracer_;
  ServiceOptions options_;
  SharedMemory shared_memory_;
  Allowances peers_, strangers_;  // by IP address
  std::atomic<bool> loaded_{false}, leaving_{false}, draining_{false}, thread_is_lent_{false};
  std::atomic<std::int64_t> refused_callers_{0};
  std::int64_t started_ns_;
};

// Triton's interface for traces can be read and not set: throws Failure(unsupported), which says what to do.
[[noreturn]] void refuse_trace_settings();

// Names of the extensions of the protocol that the server has, as its metadata lists them.
const std::vector<std::string>& extensions();

}  // namespace tessera::serve
