#include "report/html/share_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/numbers/units.h"
#include "report/html/html.h"
#include "report/html/html_table.h"
#include "report/html/plot_axes.h"
#include "report/html/svg.h"

namespace tessera::report {
namespace {

std::string duration(double ms) {
  return base::format_duration_ns(static_cast<std::int64_t>(ms * 1e6));
}

HtmlCell duration_cell(double ms) {
  return number_cell(duration(ms), ms);
}

HtmlCell count_cell(std::int64_t count) {
  return number_cell(std::to_string(count), static_cast<double>(count));
}

std::string policies_section(const SharePage& page) {
  HtmlTable table{"Policies",
                  {{"policy", ColumnKind::name},
                   {"all done after", ColumnKind::number},
                   {"device busy", ColumnKind::number},
                   {"fairness", ColumnKind::number},
                   {"memory at most", ColumnKind::number},
                   {"goals missed", ColumnKind::number},
                   {"rule", ColumnKind::sentence}},
                  {}};
  for (const SharePage::Policy& policy : page.policies) {
    std::int64_t misses = 0;
    for (const SharePage::Job& job : policy.jobs) misses += job.goal_misses;
    table.rows.push_back(
        {name_cell(policy.name), duration_cell(policy.makespan_ms),
         number_cell(fmt::format("{:.1f}%", 100 * policy.use), policy.use),
         number_cell(fmt::format("{:.3f}", policy.fairness), policy.fairness),
         number_cell(base::format_bytes(policy.peak_memory_bytes), static_cast<double>(policy.peak_memory_bytes)),
         count_cell(misses), text_cell(policy.summary)});
  }
  return html_section("Policies side by side",
                      "Fairness is Jain's index of device time over weight when the first job ended: 1 is even.",
                      html_table(table));
}

std::string jobs_section(const SharePage::Policy& policy) {
  HtmlTable table{"Jobs under " + policy.name,
                  {{"job", ColumnKind::name},
                   {"class", ColumnKind::text},
                   {"runs", ColumnKind::number},
                   {"done after", ColumnKind::number},
                   {"queueing, mean", ColumnKind::number},
                   {"p50", ColumnKind::number},
                   {"p99", ColumnKind::number},
                   {"device time", ColumnKind::number},
                   {"goals missed", ColumnKind::number}},
                  {}};
  for (const SharePage::Job& job : policy.jobs) {
    table.rows.push_back({name_cell(job.name), text_cell(job.job_class), count_cell(job.runs),
                          duration_cell(job.completion_ms), duration_cell(job.queueing_ms), duration_cell(job.p50_ms),
                          duration_cell(job.p99_ms), duration_cell(job.device_ms), count_cell(job.goal_misses)});
  }
  return html_table(table);
}

constexpr std::array<std::string_view, 3> kClassNames{"realtime", "standard", "background"};
constexpr std::array<std::string_view, 3> kClassColours{"memory", "arithmetic", "overhead"};  // of page_style.h

// Explains the colours of the timelines.
std::string legend() {
  std::string html = "<div class=\"legend\">";
  for (std::size_t i = 0; i < kClassNames.size(); ++i)
    html += fmt::format(
        "<span><svg viewBox=\"0 0 16 16\" aria-hidden=\"true\"><path class=\"{}\" d=\"{}\"/></svg>{}</span>",
        kClassColours[i], square_path(8, 8, 6), kClassNames[i]);
  return html + "</div>\n";
}

// One row per job, which shows when it had the device, from the first segment on.
std::string timeline_plot(const SharePage::Policy& policy, const Frame& base_frame, double begin_ms, double end_ms) {
  constexpr double kRow = 22;
  Frame frame = base_frame;
  frame.height = frame.top + frame.bottom + kRow * static_cast<double>(policy.jobs.size());
  frame.left = 130;
  Drawing drawing(frame.width, frame.height, std::string("plot ") + std::string(frame.css_class),
                  "timeline under " + policy.name);
  const Scale x(begin_ms, end_ms, frame.left, frame.width - frame.right, false);
  for (const double tick : x.ticks(frame.ticks)) {
    if (tick < begin_ms || tick > end_ms) continue;
    drawing.line(x(tick), frame.top, x(tick), frame.height - frame.bottom, "grid");
    drawing.text(x(tick), frame.height - frame.bottom + 16, tick_text(tick) + " ms", "tick", "middle");
  }
  for (std::size_t job = 0; job < policy.jobs.size(); ++job)
    drawing.text(frame.left - 8, frame.top + kRow * (static_cast<double>(job) + 0.7),
                 policy.jobs[job].name.substr(0, 18), "tick", "end");
  std::size_t drawn = 0;
  for (const SharePage::Segment& segment : policy.timeline) {
    if (segment.begin_ms >= end_ms || ++drawn > kTimelineSegments) continue;
    const double left = x(segment.begin_ms), right = std::max(left + 0.3, x(std::min(segment.end_ms, end_ms)));
    const double top = frame.top + kRow * segment.job + 3;
    const SharePage::Job& job = policy.jobs[static_cast<std::size_t>(segment.job)];
    const auto kind = static_cast<std::size_t>(std::ranges::find(kClassNames, job.job_class) - kClassNames.begin());
    drawing.mark(fmt::format("M{:.1f} {:.1f}H{:.1f}V{:.1f}H{:.1f}Z", left, top, right, top + kRow - 6, left),
                 fmt::format("mark {}", kClassColours.at(kind)),
                 fmt::format("{}: {:.3f} to {:.3f} ms", job.name, segment.begin_ms, segment.end_ms));
  }
  return drawing.finish();
}

std::string timeline(const SharePage::Policy& policy, double begin_ms, double end_ms) {
  if (policy.timeline.empty()) return "";
  return legend() + "<div>" + timeline_plot(policy, kWide, begin_ms, end_ms) +
         timeline_plot(policy, kNarrow, begin_ms, end_ms) + std::string(kReadout);
}

}  // namespace

std::string share_page(const SharePage& page) {
  double begin_ms = std::numeric_limits<double>::max(), end_ms = begin_ms;
  for (const SharePage::Policy& policy : page.policies) {
    if (policy.timeline.empty()) continue;
    begin_ms = std::min(begin_ms, policy.timeline.front().begin_ms);
    end_ms = std::min(end_ms, policy.timeline[std::min(policy.timeline.size(), kTimelineSegments) - 1].end_ms);
  }
  std::string body = fmt::format("<h1>{}</h1>\n", html_text(page.title)) +
                     html_facts({{"device", page.device, "in virtual time"},
                                 {"policies", std::to_string(page.policies.size()), "on the same arrivals"}}) +
                     policies_section(page);
  for (const SharePage::Policy& policy : page.policies)
    body += html_section(policy.name, policy.summary, jobs_section(policy) + timeline(policy, begin_ms, end_ms), true);
  return html_page(page.title, body);
}

}  // namespace tessera::report
