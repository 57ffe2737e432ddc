// tessera share simulate: policies compared in virtual time.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/numbers/units.h"
#include "base/text.h"
#include "common.h"
#include "cost/profile.h"
#include "io/file.h"
#include "io/toml_table.h"
#include "option_values.h"
#include "report/html/share_page.h"
#include "report/values/json_text.h"
#include "share.h"
#include "share/capacity.h"
#include "share/cluster.h"
#include "share/trace.h"
#include "tessera/share.h"

namespace tessera::apps {
namespace {

struct SimulateOptions {
  std::string trace, device = "a100-80-sxm", policies, html;
  std::optional<double> devices_for_p99_s;
  bool json = false;
};

double ms(double ns) {
  return ns * 1e-6;
}
double ms(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-6;
}

std::vector<std::string> listed(const std::string& policies) {
  if (policies.empty()) return policy_names();
  std::vector<std::string> names;
  std::size_t begin = 0;
  while (begin <= policies.size()) {
    const std::size_t end = std::min(policies.find(',', begin), policies.size());
    names.push_back(policies.substr(begin, end - begin));
    share::make_policy(names.back());  // unknown names are told before anything is simulated
    begin = end + 1;
  }
  return names;
}

nlohmann::json as_json(const share::SimulationOutcome& outcome) {
  nlohmann::json jobs = nlohmann::json::array();
  for (const share::JobOutcome& job : outcome.jobs)
    jobs.push_back({{"name", job.name},
                    {"class", share::name_of(job.priority)},
                    {"runs", job.runs},
                    {"unserved", job.unserved},
                    {"completion_ms", ms(job.completion_ns())},
                    {"alone_ms", ms(job.alone_ns)},
                    {"device_ms", ms(job.device_ns)},
                    {"queueing_ms", ms(job.mean_queueing_ns)},
                    {"p50_ms", ms(job.p50_ns)},
                    {"p99_ms", ms(job.p99_ns)},
                    {"max_ms", ms(job.most_ns)},
                    {"goal_misses", job.goal_misses}});
  return {
      {"policy", outcome.policy},     {"makespan_ms", ms(outcome.makespan_ns)},         {"busy_share", outcome.use()},
      {"fairness", outcome.fairness}, {"peak_memory_bytes", outcome.peak_memory_bytes}, {"jobs", jobs}};
}

void print_outcome(const share::SimulationOutcome& outcome) {
  fmt::print("{}: all done after {:.3f} ms, device busy {:.1f}%, fairness {:.3f}, {} at most in memory\n",
             outcome.policy, ms(outcome.makespan_ns), 100 * outcome.use(), outcome.fairness,
             base::format_bytes(outcome.peak_memory_bytes));
  fmt::print("  {:<20} {:<10} {:>8} {:>12} {:>12} {:>11} {:>11} {:>12} {:>7}\n", "job", "class", "runs", "done ms",
             "queued ms", "p50 ms", "p99 ms", "device ms", "missed");
  for (const share::JobOutcome& job : outcome.jobs) {
    fmt::print("  {:<20} {:<10} {:>8} {:>12.3f} {:>12.3f} {:>11.3f} {:>11.3f} {:>12.3f} {:>7}\n",
               base::printable(base::shown(job.name)), share::name_of(job.priority), job.runs, ms(job.completion_ns()),
               ms(job.mean_queueing_ns), ms(job.p50_ns), ms(job.p99_ns), ms(job.device_ns), job.goal_misses);
    if (job.unserved > 0) fmt::print("    {} runs of it never had a place\n", job.unserved);
  }
}

report::SharePage::Policy as_page(const share::SimulationOutcome& outcome) {
  report::SharePage::Policy policy{.name = outcome.policy,
                                   .makespan_ms = ms(outcome.makespan_ns),
                                   .use = outcome.use(),
                                   .fairness = outcome.fairness,
                                   .peak_memory_bytes = outcome.peak_memory_bytes};
  for (const share::PolicyEntry& entry : share::all_policies()) {
    if (entry.name == outcome.policy) policy.summary = entry.summary;
  }
  for (const share::JobOutcome& job : outcome.jobs)
    policy.jobs.push_back({job.name, std::string(share::name_of(job.priority)), job.runs, job.unserved, job.goal_misses,
                           ms(job.completion_ns()), ms(job.mean_queueing_ns), ms(job.p50_ns), ms(job.p99_ns),
                           ms(job.device_ns)});
  for (const share::Segment& segment : outcome.timeline)
    policy.timeline.push_back({segment.job, ms(segment.begin_ns), ms(segment.end_ns)});
  return policy;
}

nlohmann::json as_json(const share::ClusterOutcome& outcome) {
  return {{"jobs", outcome.jobs},
          {"hours", outcome.hours},
          {"mean_wait_s", outcome.mean_wait_s},
          {"p50_wait_s", outcome.p50_wait_s},
          {"p99_wait_s", outcome.p99_wait_s},
          {"waiting_share", outcome.waiting_share},
          {"most_waiting", outcome.most_waiting},
          {"arrival_hours", outcome.arrival_hours},
          {"busy_share", outcome.use},
          {"busy_share_to_the_end", outcome.use_to_the_end},
          {"mean_slowdown", outcome.mean_slowdown},
          {"offered_load", outcome.offered_load},
          {"overloaded", outcome.is_overloaded()}};
}

nlohmann::json as_json(const share::DevicesNeeded& needed) {
  nlohmann::json json = {{"p99_ms", 1e3 * needed.p99_s}, {"most_devices_tried", needed.tried}};
  json["devices"] = needed.devices > 0 ? nlohmann::json(needed.devices) : nlohmann::json(nullptr);
  if (needed.devices > 1) json["p99_ms_with_one_fewer"] = 1e3 * needed.p99_fewer_s;
  return json;
}

void print_needed(const std::string& who, const char* what, const share::DevicesNeeded& needed, double most_p99_s) {
  if (needed.devices == 0)
    fmt::print("{}: no number of devices up to {} gives a p99 {} of {:g} ms: with that many it is {:.3f} ms\n", who,
               needed.tried, what, 1e3 * most_p99_s, 1e3 * needed.p99_s);
  else
    fmt::print("{}: {} device{} for a p99 {} of at most {:g} ms: it is {:.3f} ms{}\n", who, needed.devices,
               needed.devices == 1 ? "" : "s", what, 1e3 * most_p99_s, 1e3 * needed.p99_s,
               needed.devices == 1 ? "" : fmt::format(", and {:.3f} ms with one fewer", 1e3 * needed.p99_fewer_s));
}

nlohmann::json simulate_cluster(const std::string& text, const SimulateOptions& options) {
  const share::ClusterOptions cluster = share::parse_cluster(text, options.trace);
  if (options.devices_for_p99_s) {
    const share::DevicesNeeded needed = share::devices_for_wait(cluster, *options.devices_for_p99_s);
    if (!options.json) print_needed("cluster", "wait for a place", needed, *options.devices_for_p99_s);
    return as_json(needed);
  }
  const share::ClusterOutcome outcome = share::simulate_cluster(cluster);
  if (outcome.is_overloaded())
    warn(
        "the jobs of the cluster bring {:.2f} times the work that its devices can do: the queue grows as long as jobs "
        "come, and the waits below are those of {} jobs, not of a cluster that goes on",
        outcome.offered_load, outcome.jobs);
  if (!options.json)
    fmt::print(
        "cluster of {} devices: {} jobs, slices in use {:.1f}% over the {:.1f} hours in which jobs came ({:.1f}% over "
        "the {:.1f} hours until the last one ended), wait mean {:.1f} s, p50 {:.1f} s, p99 {:.1f} s, {:.1f}% of jobs "
        "wait, {} at most at once, service {:.3f} times as long as alone\n",
        share::device_count(cluster), outcome.jobs, 100 * outcome.use, outcome.arrival_hours,
        100 * outcome.use_to_the_end, outcome.hours, outcome.mean_wait_s, outcome.p50_wait_s, outcome.p99_wait_s,
        100 * outcome.waiting_share, outcome.most_waiting, outcome.mean_slowdown);
  return as_json(outcome);
}

void find_devices(const share::Trace& trace, const share::SharedDevice& device, const std::string& policy,
                  const SimulateOptions& options, nlohmann::json& json) {
  const share::DevicesNeeded needed = share::devices_for_latency(trace, device, policy, *options.devices_for_p99_s);
  if (options.json) {
    nlohmann::json answer = as_json(needed);
    answer["policy"] = policy;
    json["policies"].push_back(std::move(answer));
  } else print_needed(policy, "latency", needed, *options.devices_for_p99_s);
}

void simulate(const SimulateOptions& options) {
  check_outputs({options.html});
  const std::vector<std::string> policies = listed(options.policies);
  const cost::DeviceProfile profile = cost::load_profile(options.device);
  const std::vector<std::byte> bytes = io::read_file(options.trace, std::int64_t{64} << 20);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  nlohmann::json json = {{"device", profile.name}, {"policies", nlohmann::json::array()}};
  io::TomlTable tables = io::TomlTable::parse(text, options.trace);
  if (tables.has("cluster")) json["cluster"] = simulate_cluster(text, options);
  if (tables.has("cluster") && !tables.has("job") && options.html.empty()) {
    if (options.json) fmt::print("{}\n", report::json_text(json, 2));
    return;
  }
  const share::Trace trace = share::parse_trace(text, options.trace, profile);
  const share::SharedDevice device{profile.name, profile.memory_bytes, profile.kind == cost::DeviceKind::cpu};
  report::SharePage page{"Sharing of " + std::filesystem::path(options.trace).stem().string(), profile.title, {}};
  for (const std::string& policy : policies) {
    if (options.devices_for_p99_s) {
      find_devices(trace, device, policy, options, json);
      continue;
    }
    const share::SimulationOutcome outcome = share::simulate(trace, device, policy);
    if (options.json) json["policies"].push_back(as_json(outcome));
    else print_outcome(outcome);
    page.policies.push_back(as_page(outcome));
  }
  if (options.json) fmt::print("{}\n", report::json_text(json, 2));
  if (!options.html.empty()) write_text(options.html, report::share_page(page));
}

}  // namespace

void add_share_simulate(CLI::App& verb) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* sub = verb.add_subcommand("simulate", "Compare policies on a trace of jobs, in virtual time");
  sub->add_option("trace", options->trace, "TOML file: the jobs and when their requests come; see docs/sharing.md")
      ->type_name("TRACE.toml")
      ->required();
  sub->add_option("--device", options->device, "Profile of the device, as of tessera explain; a100-80-sxm unless given")
      ->type_name("NAME");
  sub->add_option("--policy", options->policies,
                  "Policies to compare, of fifo, fair, iteration, headroom, fill and predictive, with commas between; "
                  "all unless given")
      ->type_name("LIST");
  CLI::Option* const devices =
      sub->add_option("--devices-for-p99", options->devices_for_p99_s,
                      "Say how many devices it takes for a 99th percentile of at most so long (20ms, 5m): of the "
                      "latency of the most important jobs whose requests come by themselves, or of the wait of a "
                      "cluster's jobs")
          ->transform(duration());
  sub->add_flag("--json", options->json, "Print the result as JSON");
  sub->add_option("--html", options->html, "Write a page with tables and timelines")
      ->type_name("FILE")
      ->excludes(devices);
  sub->footer(
      "Examples:\n"
      "  tessera share simulate trace.toml --device a100-80-sxm\n"
      "  tessera share simulate trace.toml --policy fifo,fill --html sharing.html\n"
      "  tessera share simulate trace.toml --policy fill --devices-for-p99 20ms");
  sub->callback([options] { simulate(*options); });
}

}  // namespace tessera::apps
