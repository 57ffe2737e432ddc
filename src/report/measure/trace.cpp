#include "report/measure/trace.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/threads/thread_pool.h"
#include "report/values/json_text.h"
#include "runtime/session/session_access.h"

namespace tessera::report {
namespace {

using nlohmann::json;

double microseconds(std::int64_t ns) {
  return static_cast<double>(ns) / 1000.0;
}

json named(const char* what, int thread, json arguments) {
  return {{"name", what}, {"ph", "M"}, {"pid", 1}, {"tid", thread}, {"args", std::move(arguments)}};
}

json slice(std::string name, const std::string& category, int thread, std::int64_t start_ns, std::int64_t duration_ns,
           json arguments) {
  return {{"name", std::move(name)},
          {"cat", category},
          {"ph", "X"},
          {"pid", 1},
          {"tid", thread},
          {"ts", microseconds(start_ns)},
          {"dur", microseconds(duration_ns)},
          {"args", std::move(arguments)}};
}

json counter(const char* name, std::int64_t at_ns, std::int64_t bytes) {
  return {{"name", name}, {"ph", "C"}, {"pid", 1}, {"ts", microseconds(at_ns)}, {"args", {{"bytes", bytes}}}};
}

std::string step_name(const StepTiming& step) {
  return step.name.empty() ? step.op : step.op + " " + step.name;
}

json step_slice(const StepTiming& step) {
  json arguments{
      {"kernel", step.kernel}, {"shapes", step.shapes}, {"operations", step.operations}, {"bytes", step.bytes}};
  if (step.duration_ns > 0) {
    arguments["GFLOP/s"] = step.operations / static_cast<double>(step.duration_ns);
    arguments["GB/s"] = step.bytes / static_cast<double>(step.duration_ns);
  }
  return slice(step_name(step), step.op, 0, step.start_ns, step.duration_ns, std::move(arguments));
}

// The innermost step that ran at this time; null between steps. The steps are sorted by start time.
const StepTiming* step_at(const std::vector<const StepTiming*>& steps, std::int64_t at_ns) {
  for (auto it = std::ranges::upper_bound(steps, at_ns, {}, &StepTiming::start_ns); it != steps.begin();) {
    const StepTiming* step = *--it;
    if (at_ns < step->start_ns + step->duration_ns) return step;
    if (step->depth == 0) break;  // earlier steps ended before this one began
  }
  return nullptr;
}

void add_names(const RunTrace& trace, const std::string& model_name, json& events) {
  events.push_back(named("process_name", 0, {{"name", "tessera: " + model_name}}));
  std::set<int> threads{0};
  for (const base::ThreadSpan& span : trace.spans) threads.insert(span.thread);
  for (const int thread : threads) {
    const std::string name = thread == 0 ? "calling thread" : "pool thread " + std::to_string(thread);
    events.push_back(named("thread_name", thread, {{"name", name}}));
    events.push_back(named("thread_sort_index", thread, {{"sort_index", thread}}));
  }
}

// The steps of the model's own graph are those of the plan, in order.
void add_memory(const RunTrace& trace, json& events) {
  std::size_t index = 0;
  std::int64_t end = 0;
  for (const StepTiming& step : trace.steps) {
    if (step.depth > 0 || index >= trace.memory.live_bytes.size()) continue;
    events.push_back(counter("arena in use", step.start_ns, trace.memory.live_bytes[index++]));
    end = step.start_ns + step.duration_ns;
  }
  if (index == 0) return;
  events.push_back(counter("arena in use", end, 0));
  for (const std::int64_t at : {std::int64_t{0}, end}) events.push_back(counter("arena", at, trace.memory.arena_bytes));
}

void add_loops(const RunTrace& trace, json& events) {
  std::vector<const StepTiming*> steps;
  for (const StepTiming& step : trace.steps) steps.push_back(&step);
  std::ranges::stable_sort(steps, {}, [](const StepTiming* step) { return std::pair(step->start_ns, step->depth); });
  for (const base::ThreadSpan& span : trace.spans) {
    const std::int64_t start = span.start_ns - trace.origin_ns;
    const StepTiming* step = step_at(steps, start);
    const std::string name = span.thread == 0 || step == nullptr ? "parallel loop" : step_name(*step);
    json arguments{{"chunks", span.chunks}};
    if (step != nullptr) arguments["step"] = step_name(*step);
    events.push_back(
        slice(name, "parallel loop", span.thread, start, span.end_ns - span.start_ns, std::move(arguments)));
  }
}

}  // namespace

NamedValues traced_run(Session& session, const NamedValues& inputs, const RunOptions& options, RunTrace& trace) {
  trace.memory = memory_timeline(*runtime::SessionAccess::plan(session, inputs));
  trace.steps.clear();
  base::ThreadSpans spans(base::ThreadPool::process().cores());
  RunOptions how = options;
  how.timings = &trace.steps;
  const base::RecordedLoops recorded(spans);
  NamedValues outputs = session.run(inputs, how);
  trace.spans = spans.all();
  trace.origin_ns = spans.origin_ns;
  return outputs;
}

std::string trace_json(const RunTrace& trace, const std::string& model_name) {
  json events = json::array();
  add_names(trace, model_name, events);
  for (const StepTiming& step : trace.steps) events.push_back(step_slice(step));
  add_loops(trace, events);
  add_memory(trace, events);
  const json about{
      {"model", model_name}, {"arena_bytes", trace.memory.arena_bytes}, {"weight_bytes", trace.memory.weight_bytes}};
  return json_text({{"traceEvents", events}, {"displayTimeUnit", "ns"}, {"otherData", about}}, 1);
}

}  // namespace tessera::report
