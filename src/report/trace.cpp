#include "report/trace.h"

#include "report/json_text.h"

namespace tessera::report {

std::string trace_json(const std::vector<StepTiming>& timings, const std::string& model_name) {
  nlohmann::json events = nlohmann::json::array();
  events.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", 1}, {"args", {{"name", "tessera: " + model_name}}}});
  for (const StepTiming& timing : timings) {
    const double seconds = static_cast<double>(timing.duration_ns) * 1e-9;
    events.push_back({{"name", timing.name.empty() ? timing.op : timing.op + " " + timing.name},
                      {"cat", timing.op},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", 1},
                      {"ts", static_cast<double>(timing.start_ns) / 1000.0},
                      {"dur", static_cast<double>(timing.duration_ns) / 1000.0},
                      {"args",
                       {{"kernel", timing.kernel},
                        {"shapes", timing.shapes},
                        {"operations", timing.operations},
                        {"bytes", timing.bytes},
                        {"gflops", seconds > 0 ? timing.operations / seconds * 1e-9 : 0.0},
                        {"gbytes_per_second", seconds > 0 ? timing.bytes / seconds * 1e-9 : 0.0}}}});
  }
  return json_text({{"traceEvents", events}, {"displayTimeUnit", "ns"}}, 1);
}

}  // namespace tessera::report
