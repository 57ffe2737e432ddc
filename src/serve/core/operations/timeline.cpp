#include "serve/core/operations/timeline.h"

#include <algorithm>
#include <map>

#include "tessera/clock.h"

namespace tessera::serve {

// Models that are exchanged keep their place.
std::size_t RunTimeline::number_of(const std::string& model) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(models_, model, &Model::name);
  if (found != models_.end()) return static_cast<std::size_t>(found - models_.begin());
  models_.push_back({model, {}});
  return models_.size() - 1;
}

int RunTimeline::begin(std::size_t model) {
  const std::lock_guard lock(mutex_);
  std::vector<bool>& used = models_[model].used;
  const auto free = std::ranges::find(used, false);
  const auto lane = free - used.begin();
  if (free == used.end()) used.push_back(true);
  else *free = true;
  return static_cast<int>(lane);
}

void RunTimeline::end(std::size_t model, int lane, std::int64_t start_ns, std::int64_t end_ns, std::int64_t rows) {
  const std::lock_guard lock(mutex_);
  models_[model].used[static_cast<std::size_t>(lane)] = false;
  const Run run{model, lane, start_ns, end_ns, rows};
  if (runs_.size() < kKept) runs_.push_back(run);
  else runs_[next_++ % kKept] = run;
}

TimelineRun::TimelineRun(RunTimeline& timeline, std::size_t model, std::int64_t rows)
    : timeline_(timeline),
      model_(model),
      rows_(rows),
      start_ns_(Clock::steady().now_ns()),
      lane_(timeline.begin(model_)) {}

TimelineRun::~TimelineRun() {
  timeline_.end(model_, lane_, start_ns_, Clock::steady().now_ns(), rows_);
}

std::vector<TimelineLane> RunTimeline::since(std::int64_t since_ns, std::int64_t resolution_ns) const {
  std::vector<Run> runs;
  std::vector<std::string> names;
  {
    const std::lock_guard lock(mutex_);
    std::ranges::copy_if(runs_, std::back_inserter(runs), [&](const Run& run) { return run.end_ns > since_ns; });
    for (const Model& model : models_) names.push_back(model.name);
  }
  std::ranges::sort(runs, {}, &Run::start_ns);
  std::map<std::pair<std::string, int>, TimelineLane> lanes;
  for (const Run& run : runs) {
    TimelineLane& lane = lanes[{names[run.model], run.lane}];
    lane.model = names[run.model];
    lane.lane = run.lane;
    const bool joins = !lane.bars.empty() && run.start_ns - lane.bars.back().end_ns < resolution_ns;
    if (!joins) lane.bars.push_back({run.start_ns, run.end_ns, 0, 0, 0});
    TimelineBar& bar = lane.bars.back();
    bar.end_ns = std::max(bar.end_ns, run.end_ns);
    bar.busy_ns += run.end_ns - run.start_ns;
    ++bar.runs;
    bar.rows += run.rows;
  }
  std::vector<TimelineLane> found;
  for (auto& [key, lane] : lanes) found.push_back(std::move(lane));
  return found;
}

}  // namespace tessera::serve
