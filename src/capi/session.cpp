// The sessions of the C interface.
#include "capi/handles.h"

using namespace tessera;
using namespace tessera::capi;

namespace {

constexpr const char* kOptions = "tessera_session_options";
constexpr const char* kRunOptions = "tessera_run_options";

NamedValues named_inputs(const char* const* names, const tessera_value* const* inputs, std::size_t count) {
  if (count > 0) {
    required(names, "input_names");
    required(inputs, "inputs");
  }
  NamedValues result;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = required(names[i], "an input's name");
    const bool is_new =
        result.emplace(name, checked(inputs[i], fmt::format("inputs[{}]", i).c_str(), "tessera_value").value).second;
    require(is_new, ErrorKind::invalid_argument, "input '{}' is given twice", name);
  }
  return result;
}

std::vector<OutputRequest> requests(const tessera_session& session, const char* const* names,
                                    tessera_value* const* outputs, std::size_t count) {
  require(names != nullptr || count == session.output_names.size(), ErrorKind::invalid_argument,
          "output_count is {}, but the model has {} outputs", count, session.output_names.size());
  if (count > 0) required(outputs, "outputs");
  std::vector<OutputRequest> result;
  for (std::size_t i = 0; i < count; ++i) {
    OutputRequest& request = result.emplace_back(names != nullptr ? std::string(required(names[i], "an output's name"))
                                                                  : session.output_names[i]);
    if (outputs[i] == nullptr) continue;
    const tessera_value& bound = checked(outputs[i], fmt::format("outputs[{}]", i).c_str(), "tessera_value");
    require(bound.is_writable, ErrorKind::invalid_argument,
            "outputs[{}] is bound to a value that is not of tessera_value_wrap: nobody may write to it", i);
    request.into = bound.value.tensor();
  }
  return result;
}

}  // namespace

tessera_session_options* tessera_session_options_new(void) try { return new tessera_session_options; } catch (...) {
  return nullptr;
}
void tessera_session_options_free(tessera_session_options* options) {
  free_handle(options);
}

tessera_status tessera_session_options_set_device(tessera_session_options* options, const char* device,
                                                  tessera_error** error) {
  return guarded(error, [&] { checked(options, "options", kOptions).options.device = required(device, "device"); });
}

tessera_status tessera_session_options_set_threads(tessera_session_options* options, int32_t threads,
                                                   tessera_error** error) {
  return guarded(error, [&] {
    tessera_session_options& given = checked(options, "options", kOptions);
    require(threads >= 0, ErrorKind::invalid_argument, "threads is {}, expected 0 (all cores) or more", threads);
    given.options.threads = threads;
  });
}

tessera_status tessera_session_options_set_precision(tessera_session_options* options, tessera_dtype precision,
                                                     tessera_error** error) {
  return guarded(error, [&] {
    tessera_session_options& given = checked(options, "options", kOptions);
    require(precision == TESSERA_UNDEFINED || precision == TESSERA_F32 || precision == TESSERA_BF16,
            ErrorKind::invalid_argument, "precision is {}, expected TESSERA_F32, TESSERA_BF16 or TESSERA_UNDEFINED",
            precision);
    given.options.precision = static_cast<DType>(precision);
  });
}

tessera_status tessera_session_options_set_memory_limit(tessera_session_options* options, int64_t bytes,
                                                        tessera_error** error) {
  return guarded(error, [&] {
    tessera_session_options& given = checked(options, "options", kOptions);
    require(bytes >= 0, ErrorKind::invalid_argument, "the memory limit is {} bytes, expected 0 (the default) or more",
            bytes);
    given.options.memory_limit_bytes = bytes;
  });
}

tessera_status tessera_session_options_set_device_memory_limit(tessera_session_options* options, int64_t bytes,
                                                               tessera_error** error) {
  return guarded(error, [&] {
    tessera_session_options& given = checked(options, "options", kOptions);
    require(bytes >= 0, ErrorKind::invalid_argument,
            "the limit of device memory is {} bytes, expected 0 (the default) or more", bytes);
    given.options.device_memory_limit_bytes = bytes;
  });
}

tessera_status tessera_session_options_set_seed(tessera_session_options* options, uint64_t seed,
                                                tessera_error** error) {
  return guarded(error, [&] { checked(options, "options", kOptions).options.seed = seed; });
}

tessera_status tessera_session_new(const tessera_model* model, const tessera_session_options* options,
                                   tessera_session** session, tessera_error** error) {
  return guarded(error, [&] {
    tessera_session*& result = result_place(session, "session");
    const Model& given = checked(model, "model", "tessera_model").model;
    std::vector<std::string> names;
    for (const ValueDescription& output : given.outputs()) names.push_back(output.name);
    result = new tessera_session{
        tessera_session::kTag,
        Session(given, options != nullptr ? checked(options, "options", kOptions).options : SessionOptions()),
        std::move(names)};
  });
}

void tessera_session_free(tessera_session* session) {
  free_handle(session);
}

tessera_status tessera_session_run(tessera_session* session, const char* const* input_names,
                                   const tessera_value* const* inputs, size_t input_count,
                                   const char* const* output_names, tessera_value** outputs, size_t output_count,
                                   const tessera_run_options* options, tessera_error** error) {
  return guarded(error, [&] {
    tessera_session& given = checked(session, "session", "tessera_session");
    const RunOptions run_options = options != nullptr ? checked(options, "options", kRunOptions).options : RunOptions();
    std::vector<Value> results = given.session.run(named_inputs(input_names, inputs, input_count),
                                                   requests(given, output_names, outputs, output_count), run_options);
    // All handles are made before any is returned, so that a failure leaves none behind.
    std::vector<std::unique_ptr<tessera_value>> made;
    for (Value& result : results)
      made.push_back(std::make_unique<tessera_value>(tessera_value{tessera_value::kTag, std::move(result)}));
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (outputs[i] == nullptr) outputs[i] = made[i].release();
    }
  });
}

int64_t tessera_session_memory_bytes(const tessera_session* session) {
  if (!is_valid(session)) return 0;
  return session->session.memory().total_bytes();
}

tessera_status tessera_session_trim(tessera_session* session, tessera_error** error) {
  return guarded(error, [&] { checked(session, "session", "tessera_session").session.trim(); });
}

tessera_run_options* tessera_run_options_new(void) try { return new tessera_run_options; } catch (...) {
  return nullptr;
}
void tessera_run_options_free(tessera_run_options* options) {
  free_handle(options);
}

tessera_status tessera_run_options_set_seed(tessera_run_options* options, uint64_t seed, tessera_error** error) {
  return guarded(error, [&] { checked(options, "options", kRunOptions).options.seed = seed; });
}

tessera_status tessera_run_options_set_time_limit_ns(tessera_run_options* options, int64_t time_limit_ns,
                                                     tessera_error** error) {
  return guarded(error, [&] {
    tessera_run_options& given = checked(options, "options", kRunOptions);
    require(time_limit_ns >= 0, ErrorKind::invalid_argument, "the time limit is {} ns, expected 0 (none) or more",
            time_limit_ns);
    given.options.time_limit_ns = time_limit_ns;
  });
}

tessera_status tessera_run_options_set_priority(tessera_run_options* options, tessera_priority priority,
                                                tessera_error** error) {
  return guarded(error, [&] {
    tessera_run_options& given = checked(options, "options", kRunOptions);
    require(priority >= 0 && priority < kPriorities, ErrorKind::invalid_argument,
            "there is no priority {}; expected 0 (background), 1 (standard) or 2 (realtime)", priority);
    given.options.priority = static_cast<Priority>(priority);
  });
}

tessera_status tessera_run_options_set_cancellation(tessera_run_options* options,
                                                    const tessera_cancellation* cancellation, tessera_error** error) {
  return guarded(error, [&] {
    tessera_run_options& given = checked(options, "options", kRunOptions);
    given.options.cancellation =
        cancellation != nullptr ? &checked(cancellation, "cancellation", "tessera_cancellation").cancellation : nullptr;
  });
}

tessera_cancellation* tessera_cancellation_new(void) try { return new tessera_cancellation; } catch (...) {
  return nullptr;
}
void tessera_cancellation_free(tessera_cancellation* cancellation) {
  free_handle(cancellation);
}

void tessera_cancellation_cancel(tessera_cancellation* cancellation) {
  if (is_valid(cancellation)) cancellation->cancellation.cancel();
}
