#include "dist/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/cpu_info.h"
#include "base/error.h"
#include "dist/rendezvous.h"

extern char** environ;

namespace tessera::dist {
namespace {

using Clock = std::chrono::steady_clock;

// How long ranks may take to end by themselves after one of them has failed, and then after SIGTERM.
constexpr std::chrono::seconds kGrace{10}, kLastGrace{3};
constexpr std::size_t kMostShown = 4096;

struct RankProcess {
  pid_t process = -1;
  int errors = -1;    // what it writes to stderr; -1 for rank 0
  std::string shown;  // the end of that
  std::optional<int> status;
  bool failed() const { return status && *status != 0; }
};

// Made before fork(), because a child may not allocate.
struct ChildImage {
  std::vector<std::string> variables, arguments;
  std::vector<char*> environment, argument_pointers;

  ChildImage(int rank, int ranks, const std::string& folder, const std::vector<std::string>& given) : arguments(given) {
    for (char** each = environ; *each != nullptr; ++each) variables.emplace_back(*each);
    variables.push_back(fmt::format("{}={}", kRankVariable, rank));
    variables.push_back(fmt::format("{}={}", kRanksVariable, ranks));
    variables.push_back(fmt::format("{}={}", kRendezvousVariable, folder));
    if (std::getenv("TESSERA_NUM_THREADS") == nullptr)
      variables.push_back(fmt::format("TESSERA_NUM_THREADS={}", std::max(1, base::cpu_info().usable_cores / ranks)));
    for (std::string& each : variables) environment.push_back(each.data());
    for (std::string& each : arguments) argument_pointers.push_back(each.data());
    environment.push_back(nullptr);
    argument_pointers.push_back(nullptr);
  }
};

RankProcess start_rank(int rank, ChildImage& image) {
  int pipe[2] = {-1, -1};
  require(rank == 0 || ::pipe2(pipe, O_CLOEXEC | O_NONBLOCK) == 0, ErrorKind::over_budget,
          "the system gives no pipe for rank {}: {}", rank, std::strerror(errno));
  const pid_t parent = ::getpid(), child = ::fork();
  require(child >= 0, ErrorKind::over_budget, "the system gives no process for rank {}: {}", rank,
          std::strerror(errno));
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);
    if (rank > 0) {
      const int nowhere = ::open("/dev/null", O_RDWR);
      ::dup2(nowhere, STDIN_FILENO);
      ::dup2(nowhere, STDOUT_FILENO);
      ::dup2(pipe[1], STDERR_FILENO);
      ::signal(SIGINT, SIG_IGN);  // rank 0 decides
    } else {
      ::signal(SIGINT, SIG_DFL);
    }
    ::execve("/proc/self/exe", image.argument_pointers.data(), image.environment.data());
    ::_exit(127);
  }
  if (rank > 0) ::close(pipe[1]);
  RankProcess started;
  started.process = child;
  started.errors = pipe[0];
  return started;
}

class Ranks {
 public:
  Ranks(int ranks, const std::vector<std::string>& arguments) {
    std::string folder = (std::filesystem::temp_directory_path() / "tessera-ranks-XXXXXX").string();
    require(::mkdtemp(folder.data()) != nullptr, ErrorKind::io,
            "no folder can be made for the sockets of the ranks, '{}': {}", folder, std::strerror(errno));
    folder_ = folder;
    for (int rank = 0; rank < ranks; ++rank) {
      ChildImage image(rank, ranks, folder_, arguments);
      processes_.push_back(start_rank(rank, image));
    }
  }

  ~Ranks() {
    for (RankProcess& each : processes_) {
      if (!each.status) {
        ::kill(each.process, SIGKILL);
        ::waitpid(each.process, nullptr, 0);
      }
      if (each.errors >= 0) ::close(each.errors);
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int wait() {
    while (running() > 0) {
      std::vector<pollfd> polled;
      for (const RankProcess& each : processes_) {
        if (each.errors >= 0) polled.push_back({each.errors, POLLIN, 0});
      }
      ::poll(polled.data(), polled.size(), 50);
      collect();
      end_stragglers();
    }
    collect();
    return report();
  }

 private:
  std::ptrdiff_t running() const {
    return std::ranges::count_if(processes_, [](const RankProcess& each) { return !each.status; });
  }

  void collect() {
    for (RankProcess& each : processes_) {
      char buffer[4096];
      ssize_t got = 0;
      while (each.errors >= 0 && (got = ::read(each.errors, buffer, sizeof buffer)) > 0) {
        each.shown.append(buffer, static_cast<std::size_t>(got));
        if (each.shown.size() > kMostShown) each.shown.erase(0, each.shown.size() - kMostShown);
      }
      if (each.errors >= 0 && got == 0) ::close(std::exchange(each.errors, -1));
      int status = 0;
      if (each.status || ::waitpid(each.process, &status, WNOHANG) != each.process) continue;
      each.status = status;
      if (status == 0) continue;
      if (!first_failure_) first_failure_ = static_cast<std::size_t>(&each - processes_.data());
      if (!deadline_) deadline_ = Clock::now() + kGrace;
    }
  }

  void end_stragglers() {
    if (!deadline_ || Clock::now() < *deadline_) return;
    const int signal = terminated_ ? SIGKILL : SIGTERM;
    for (const RankProcess& each : processes_) {
      if (each.status) continue;
      ::kill(each.process, SIGCONT);
      ::kill(each.process, signal);
    }
    terminated_ = true;
    deadline_ = Clock::now() + kLastGrace;
  }

  // Says what happened if rank 0 cannot have done so, and returns the exit code.
  int report() const {
    const auto code = [](int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); };
    if (!first_failure_) return 0;
    const RankProcess &rank0 = processes_.front(), &first = processes_[*first_failure_];
    const bool rank0_spoke = WIFEXITED(*rank0.status) && *rank0.status != 0;
    if (!rank0_spoke) {
      if (WIFSIGNALED(*first.status))
        std::fprintf(stderr,
                     "tessera: failed: rank %zu (process %d) was killed by signal %d (%s); all ranks have ended\n",
                     *first_failure_, static_cast<int>(first.process), WTERMSIG(*first.status),
                     ::strsignal(WTERMSIG(*first.status)));
      else
        std::fprintf(stderr, "%s",
                     first.shown.empty() ? "tessera: failed: a rank ended without saying why\n" : first.shown.c_str());
    }
    return rank0_spoke ? code(*rank0.status) : code(*first.status);
  }

  std::string folder_;
  std::vector<RankProcess> processes_;
  std::optional<std::size_t> first_failure_;
  std::optional<Clock::time_point> deadline_;
  bool terminated_ = false;
};

}  // namespace

int launch_ranks(int ranks, const std::vector<std::string>& arguments) {
  require(ranks >= 1 && ranks <= kMostRanks, ErrorKind::invalid_argument, "the number of ranks is {}, expected 1 to {}",
          ranks, kMostRanks);
  // The terminal sends an interrupt to all processes: rank 0 acts on it, and this one waits. A signal to terminate
  // that this process gets ends it, and by that (PR_SET_PDEATHSIG) the ranks.
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGTERM, SIG_DFL);
  return Ranks(ranks, arguments).wait();
}

}  // namespace tessera::dist
