#include "serve/core/service.h"

#include <set>

#include "base/text.h"
#include "serve/core/operations/log.h"
#include "serve/limits/peer_address.h"

namespace tessera::serve {
namespace {

// The answer and the trace of a request repeat its id; that of a sequence is kept while the sequence lives.
constexpr std::size_t kMostIdBytes = 64 << 10;

void check_id(const std::string& id, const char* what) {
  if (id.size() > kMostIdBytes)
    throw Failure(Reason::bad_request,
                  fmt::format("{} has {} bytes, at most {} are taken", what, id.size(), kMostIdBytes));
}

// The name that stands twice in a list of inputs or outputs, or null. Lists are short, or refused by the model.
template <typename List>
const std::string* repeated(const List& list) {
  std::set<std::string_view> names;
  for (const auto& element : list) {
    if (!names.insert(element.name).second) return &element.name;
  }
  return nullptr;
}

// An answer that held the same output many times would be larger than all that the model makes.
void check_names_once(const InferenceRequest& request) {
  const auto check = [](const std::string* name, const char* what) {
    if (name != nullptr)
      throw Failure(Reason::bad_request, fmt::format("{} '{}' is there twice", what, base::shown(*name)));
  };
  if (request.inputs.size() > 1) check(repeated(request.inputs), "input");
  if (request.outputs.size() > 1) check(repeated(request.outputs), "output");
}

}  // namespace

Service::Service(Repository& repository, Access& access, AuditLog* audit, const ServiceOptions& options, Tracer* tracer)
    : repository_(repository),
      access_(access),
      audit_(audit),
      tracer_(tracer),
      options_(options),
      shared_memory_(options.shared_memory_prefix),
      started_ns_(Clock::steady().now_ns()) {}

const std::vector<std::string>& extensions() {
  static const std::vector<std::string> names{
      "classification",     "model_repository", "schedule_policy",      "model_configuration",
      "binary_tensor_data", "statistics",       "system_shared_memory", "logging"};
  return names;
}

void refuse_trace_settings() {
  throw Failure(Reason::unsupported, "traces are set up by [tracing] in the server's configuration");
}

void Service::record(const Credentials& credentials, const std::string& caller, const std::string& action,
                     const std::string& model, const std::string& result) {
  if (audit_ != nullptr) audit_->write({caller, action, model, result, credentials.address});
}

// Callers that guess tokens learn nothing more after some tries.
void Service::refuse(const Failure& failure, const Credentials& credentials, const std::string& caller,
                     const std::string& action, const std::string& model) {
  ++refused_callers_;
  if (audit_ != nullptr) audit_->note_refusal({caller, action, model, failure.what(), credentials.address});
  if (failure.reason() == Reason::unauthenticated)
    strangers_.begin(network_of(credentials.address), {options_.peer_rule.requests_per_second, 0},
                     "this address, for requests of unknown callers,");
  throw failure;
}

std::string Service::caller_for(const Credentials& credentials, Role role, const std::string& model) {
  std::string caller = "unknown";
  try {
    caller = access_.identify(credentials.authorization, credentials.certificate);
    if (credentials.record) {
      credentials.record->key = access_.is_open() ? "" : caller;
      if (!model.empty()) credentials.record->model = model;
    }
    access_.check(caller, role, model);
    return caller;
  } catch (const Failure& failure) {
    refuse(failure, credentials, caller, std::string(name_of(role)), model);
  }
}

void Service::identify(const Credentials& credentials) {
  try {
    const std::string caller = access_.identify(credentials.authorization, credentials.certificate);
    if (credentials.record && !access_.is_open()) credentials.record->key = caller;
  } catch (const Failure& failure) {
    refuse(failure, credentials, "unknown", "call", "");
  }
}

void Service::admit_inference(const Credentials& credentials, const std::string& model) {
  const std::string caller = caller_for(credentials, Role::infer, model);
  if (!access_.is_open()) return access_.check_allowance(caller);
  peers_.check(network_of(credentials.address), options_.peer_rule, "this address");
}

Allowances::Ticket Service::begin_inference(const Credentials& credentials, const std::string& caller) {
  if (!access_.is_open()) return access_.begin(caller);
  return peers_.begin(network_of(credentials.address), options_.peer_rule, "this address");
}

void Service::require_role(const Credentials& credentials, Role role, const std::string& model) {
  caller_for(credentials, role, model);
}

std::shared_ptr<Call> Service::infer(const Credentials& credentials, InferenceRequest request, Done done,
                                     std::shared_ptr<Call> call) {
  const std::int64_t arrival_ns = Clock::steady().now_ns();
  const std::string caller = caller_for(credentials, Role::infer, request.model);
  Allowances::Ticket ticket = begin_inference(credentials, caller);
  check_names_once(request);
  check_id(request.id, "the request's id");
  check_id(request.sequence.id.text, "the sequence's id");
  bool reads_regions = false;
  for (const InferenceInput& input : request.inputs) reads_regions = reads_regions || input.region.has_value();
  for (const RequestedOutput& output : request.outputs) reads_regions = reads_regions || output.region.has_value();
  if (reads_regions) {
    if (!options_.shared_memory) throw Failure(Reason::unsupported, "shared memory is off on this server");
    std::int64_t bytes = 0;
    for (const InferenceInput& input : request.inputs) {
      const std::int64_t part = input.region ? input.region->byte_size : 0;
      if (part > options_.most_region_bytes - bytes)
        throw Failure(Reason::too_large,
                      fmt::format("the inputs in shared memory have more than {} bytes", options_.most_region_bytes));
      bytes += std::max<std::int64_t>(part, 0);
    }
    shared_memory_.read_inputs(caller, request);
  }
  if (options_.audit_inference && audit_ != nullptr)
    audit_->note({caller, "infer", request.model, "accepted", credentials.address});
  if (!call) call = std::make_shared<Call>();
  call->arrival_ns = arrival_ns;
  call->request = std::move(request);
  // The call lives as long as its function: whoever calls it holds the call.
  if (credentials.record) call->times = std::make_shared<RequestTimes>();
  call->done = [this, caller, raw = call.get(), id = credentials.request_id, record = credentials.record,
                ticket = std::move(ticket), done = std::move(done)](Outcome outcome) mutable {
    InferenceRequest& request = raw->request;
    ticket.reset();
    if (record) {
      record->queue_ns += raw->times->queue_ns;
      record->run_ns += raw->times->run_ns;
    }
    if (!outcome.failure) {
      try {
        shared_memory_.write_outputs(caller, request, outcome.response);
      } catch (...) {
        outcome.failure = current_failure();
      }
    }
    if (raw->trace)
      raw->trace->finish(Clock::steady().now_ns(), outcome.failure ? outcome.failure->what() : "",
                         {{"model.name", request.model},
                          {"model.version", outcome.response.version},
                          {"request.id", request.id},
                          {"http.request.header.x-request-id", id}});
    done(std::move(outcome), request);
  };
  if (tracer_ != nullptr)
    call->trace =
        tracer_->begin(credentials.traceparent, credentials.tracestate, "infer " + call->request.model, arrival_ns);
  call->may_run_here = options_.lend_threads && !thread_is_lent_.exchange(true);
  if (!call->may_run_here) {
    submit(call);
    return call;
  }
  try {
    submit(call);
  } catch (...) {
    thread_is_lent_.store(false);
    throw;
  }
  thread_is_lent_.store(false);
  return call;
}

std::shared_ptr<Call> Service::generate(const Credentials& credentials, GenerateRequest request,
                                        std::shared_ptr<AnswerSink> sink, std::shared_ptr<Call> call) {
  call->arrival_ns = Clock::steady().now_ns();
  const std::string model = request.request.model;
  const std::string caller = caller_for(credentials, Role::infer, model);
  check_id(request.request.id, "the request's id");
  check_id(request.request.sequence.id.text, "the sequence's id");
  Allowances::Ticket ticket = begin_inference(credentials, caller);
  const std::shared_ptr<Servable> servable = find(model, request.request.version);
  if (options_.audit_inference && audit_ != nullptr)
    audit_->note({caller, "generate", model, "accepted", credentials.address});
  if (credentials.record) call->times = std::make_shared<RequestTimes>();
  if (tracer_ != nullptr)
    call->trace =
        tracer_->begin(credentials.traceparent, credentials.tracestate, "generate " + model, call->arrival_ns);
  const auto before_end =
      [trace = call->trace, times = call->times, record = credentials.record, model,
       held = std::make_shared<Allowances::Ticket>(std::move(ticket))](const std::optional<Failure>& failure) {
        held->reset();
        if (record) {
          record->queue_ns += times->queue_ns;
          record->run_ns += times->run_ns;
        }
        if (trace) trace->finish(Clock::steady().now_ns(), failure ? failure->what() : "", {{"model.name", model}});
      };
  const auto generation = std::make_shared<Generation>(
      std::move(request), generation_rules(servable->info()), servable->info(), call, std::move(sink),
      Generation::Actions{[this](const std::shared_ptr<Call>& step) { repository_.submit(step); },
                          [this](const InferenceRequest& asked) { repository_.end_sequence(asked); }, before_end});
  call->on_cancel([weak = std::weak_ptr(generation)] {
    if (const auto self = weak.lock()) self->cancel();
  });
  generation->start();
  return call;
}

void Service::submit(const std::shared_ptr<Call>& call) {
  try {
    repository_.submit(call);
  } catch (...) {
    const Failure failure = current_failure();
    if (call->trace)
      call->trace->finish(Clock::steady().now_ns(), failure.what(), {{"model.name", call->request.model}});
    throw failure;
  }
}

std::shared_ptr<Servable> Service::model(const Credentials& credentials, const std::string& name,
                                         const std::string& version) {
  caller_for(credentials, Role::read, name);
  return repository_.find(name, version);
}

std::vector<std::string> Service::versions(const Credentials& credentials, const std::string& name) {
  caller_for(credentials, Role::read, name);
  std::vector<std::string> versions;
  for (const std::shared_ptr<Servable>& servable : repository_.versions(name))
    versions.push_back(servable->info().version);
  return versions;
}

std::vector<std::shared_ptr<Servable>> Service::statistics(const Credentials& credentials, const std::string& name,
                                                           const std::string& version) {
  caller_for(credentials, Role::read, name);
  if (name.empty()) return repository_.all();
  if (version.empty()) return repository_.versions(name);
  return {repository_.find(name, version)};
}

std::vector<ModelState> Service::index(const Credentials& credentials) {
  caller_for(credentials, Role::read, "");
  return repository_.index();
}

void Service::manage(const Credentials& credentials, const std::string& action, const std::string& name,
                     const std::function<void()>& change) {
  const std::string caller = caller_for(credentials, Role::manage, name);
  record(credentials, caller, action, name, "begun");
  try {
    change();
  } catch (const Failure& failure) {
    record(credentials, caller, action, name, failure.what());
    throw;
  }
  record(credentials, caller, action, name, "done");
}

void Service::load(const Credentials& credentials, const std::string& name, const std::optional<std::string>& config) {
  manage(credentials, config ? "load with configuration" : "load", name, [&] {
    repository_.check_takes_requests();
    repository_.load(name, config);
  });
}

void Service::unload(const Credentials& credentials, const std::string& name, bool with_steps) {
  const std::vector<std::string> steps = with_steps ? repository_.steps_of(name) : std::vector<std::string>();
  for (const std::string& step : steps) require_role(credentials, Role::manage, step);
  const auto unload_one = [&](const std::string& model) {
    manage(credentials, "unload", model, [&] {
      repository_.check_takes_requests();
      repository_.unload(model);
    });
  };
  unload_one(name);
  for (const std::string& step : steps) {
    try {
      unload_one(step);
    } catch (const Failure& failure) {
      if (failure.reason() != Reason::not_found) throw;  // it is not loaded
    }
  }
}

std::map<std::int64_t, double> Service::shares(const Credentials& credentials, const std::string& name) {
  caller_for(credentials, Role::read, name);
  return repository_.shares(name);
}

void Service::set_shares(const Credentials& credentials, const std::string& name,
                         const std::map<std::int64_t, double>& shares) {
  manage(credentials, "shares", name, [&] { repository_.set_shares(name, shares); });
}

Service::CallersRegions Service::shared_memory(const Credentials& credentials) {
  const std::string caller = caller_for(credentials, Role::infer, "");
  if (!options_.shared_memory) throw Failure(Reason::unsupported, "shared memory is off on this server");
  return {shared_memory_, caller};
}

std::string Service::metrics(const Credentials& credentials) {
  caller_for(credentials, Role::read, "");
  return metrics_text(repository_, counters());
}

ServerCounters Service::counters() const {
  return {connections.load(),
          http_requests.load(),
          grpc_requests.load(),
          refused_callers_.load(),
          static_cast<double>(Clock::steady().now_ns() - started_ns_) * 1e-9,
          tracer_ != nullptr ? tracer_->counters() : TraceCounters(),
          access_.limited(),
          peers_.refused(false).at("") + strangers_.refused(false).at(""),
          grpc_connections.load(),
          refused_grpc_connections.load()};
}

}  // namespace tessera::serve
