#include "backends/simulated/capture.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "base/error.h"

namespace tessera::backends::simulated {
namespace {

// The captures of all threads that have not ended. A capture may go on another thread than that which began it.
class OngoingCaptures {
 public:
  static OngoingCaptures& all() {
    static OngoingCaptures& captures = *new OngoingCaptures;
    return captures;
  }
  void add(Capture* capture) {
    const std::lock_guard lock(mutex_);
    captures_.emplace_back(std::this_thread::get_id(), capture);
    count_ = captures_.size();
  }
  void remove(const Capture* capture) {
    const std::lock_guard lock(mutex_);
    std::erase_if(captures_, [&](const auto& each) { return each.second == capture; });
    count_ = captures_.size();
  }
  // Calls visit(capture) for those of the calling thread.
  template <typename Visit>
  void for_this_thread(const Visit& visit) {
    if (count_ == 0) return;  // as nearly always
    const std::lock_guard lock(mutex_);
    for (const auto& [thread, capture] : captures_) {
      if (thread == std::this_thread::get_id()) visit(*capture);
    }
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::thread::id, Capture*>> captures_;
  std::atomic<std::size_t> count_{0};
};

std::string refusal(std::string_view what) {
  return fmt::format("{} is not permitted while the thread records work; the recording is lost", what);
}

}  // namespace

Capture::Capture() : points_(1) {
  OngoingCaptures::all().add(this);
}

Capture::~Capture() {
  OngoingCaptures::all().remove(this);
}

std::size_t Capture::join(const Point& point) {
  points_.push_back(point);
  return points_.size() - 1;
}

void Capture::add(std::size_t branch, Operation operation) {
  RecordedOperation& recorded = operations_.emplace_back();
  recorded.operation = std::move(operation);
  recorded.branch = branch;
  for (const std::size_t earlier : points_[branch]) {
    if (operations_[earlier].branch != branch) recorded.after.push_back(earlier);
  }
  points_[branch] = {operations_.size() - 1};
}

Capture::Point Capture::point_of(std::size_t branch) const {
  return points_[branch];
}

void Capture::wait(std::size_t branch, const Point& point) {
  Point& own = points_[branch];
  for (const std::size_t operation : point) {
    if (std::ranges::find(own, operation) == own.end()) own.push_back(operation);
  }
}

void Capture::invalidate(const std::string& why) {
  invalidate_without_throwing(why);
  fail(ErrorKind::failed, "{}", why);
}

void Capture::invalidate_without_throwing(const std::string& why) {
  if (invalid_.empty()) invalid_ = why;
}

void Capture::check() const {
  require(invalid_.empty(), ErrorKind::failed, "the recording was invalidated before: {}", invalid_);
}

// Which operations come before the end of branch 0.
std::vector<bool> Capture::reached_from_origin() const {
  std::vector<bool> reached(operations_.size(), false);
  for (const std::size_t last : points_[0]) reached[last] = true;
  // Operations wait for earlier ones only, so one pass from the last to the first finds all.
  std::vector<std::size_t> reached_in_branch(points_.size(), 0);  // 1 + the latest reached operation
  for (std::size_t i = operations_.size(); i-- > 0;) {
    const RecordedOperation& each = operations_[i];
    if (reached[i]) reached_in_branch[each.branch] = std::max(reached_in_branch[each.branch], i + 1);
    reached[i] = reached[i] || reached_in_branch[each.branch] > i;
    if (!reached[i]) continue;
    for (const std::size_t earlier : each.after) reached[earlier] = true;
  }
  return reached;
}

RecordedWork Capture::end() {
  ended_ = true;
  OngoingCaptures::all().remove(this);
  require(thread_ == std::this_thread::get_id(), ErrorKind::failed,
          "a recording must be ended by the thread that began it");
  check();
  // "The capture sequence contains a fork that was not joined to the primary stream."
  const std::vector<bool> reached = reached_from_origin();
  const auto lost = std::ranges::find(reached, false);
  if (lost != reached.end()) {
    const RecordedOperation& operation = operations_[static_cast<std::size_t>(lost - reached.begin())];
    fail(ErrorKind::failed,
         "a stream that joined a recording was not joined back: the stream on which the recording began waits for no "
         "event after '{}'",
         operation.operation.name);
  }
  RecordedWork work{std::move(operations_), points_.size(), {}};
  for (const std::size_t last : points_[0]) {
    if (work.operations[last].branch != 0) work.last.push_back(last);
  }
  return work;
}

void Capture::refuse_to_thread(std::string_view what) {
  bool captures = false;
  OngoingCaptures::all().for_this_thread([&](Capture&) { captures = true; });
  if (!captures) return;
  invalidate_of_thread(what);
  fail(ErrorKind::failed, "{}", refusal(what));
}

void Capture::invalidate_of_thread(std::string_view what) {
  OngoingCaptures::all().for_this_thread([&](Capture& capture) { capture.invalidate_without_throwing(refusal(what)); });
}

}  // namespace tessera::backends::simulated
