#include "dist/rendezvous.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/cpu_info.h"
#include "base/error.h"
#include "dist/mpi_ranks.h"
#include "dist/rank_message.h"

namespace tessera::dist {
namespace {

using Clock = std::chrono::steady_clock;

std::optional<int> number_of(const char* variable, int least, int most) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  int number = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, number);
  require(error == std::errc() && stop == end && number >= least && number <= most, ErrorKind::invalid_argument,
          "the environment variable {} is '{}', expected a whole number from {} to {}", variable, text, least, most);
  return number;
}

// A launcher's variables: rank, number of ranks, number of ranks on this machine, and one that only its ranks have.
struct Launcher {
  const char *rank, *ranks, *local, *needs;
};
constexpr Launcher kLaunchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "PMI_RANK"},
    // Slurm sets the rank in scripts, too, which are one process: a step's number tells that srun started it.
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", nullptr, "SLURM_STEP_ID"},
};

}  // namespace

std::optional<RankPlace> place_from_environment() {
  if (const std::optional<int> ranks = number_of(kRanksVariable, 1, kMostRanks)) {
    const std::optional<int> rank = number_of(kRankVariable, 0, *ranks - 1);
    const char* const folder = std::getenv(kRendezvousVariable);
    require(rank && folder != nullptr, ErrorKind::invalid_argument,
            "{} is set, but {} is not: `tessera train --ranks N` sets all three of {}, {} and {}", kRanksVariable,
            rank ? kRendezvousVariable : kRankVariable, kRankVariable, kRanksVariable, kRendezvousVariable);
    return RankPlace{*rank, *ranks, folder, kRankVariable, *ranks};
  }
  for (const Launcher& each : kLaunchers) {
    if (std::getenv(each.needs) == nullptr) continue;
    const std::optional<int> ranks = number_of(each.ranks, 1, kMostRanks);
    if (!ranks || *ranks == 1) return std::nullopt;
    const std::optional<int> rank = number_of(each.rank, 0, *ranks - 1);
    int local = each.local != nullptr ? number_of(each.local, 1, *ranks).value_or(0) : 0;
    if (const std::optional<int> machines = number_of("SLURM_STEP_NUM_NODES", 1, 1 << 20); local == 0 && machines)
      local = (*ranks + *machines - 1) / *machines;
    require(rank.has_value(), ErrorKind::invalid_argument, "the environment variable {} is set, but {} is not",
            each.needs, each.rank);
    return RankPlace{*rank, *ranks, "", each.rank, local};
  }
  require(std::getenv("TORCHELASTIC_RUN_ID") == nullptr, ErrorKind::unsupported,
          "this process was started by torchrun (TORCHELASTIC_RUN_ID is set), which starts programs that use PyTorch: "
          "start ranks by `tessera train --ranks N` on one machine, or by mpirun or srun on several");
  require(std::getenv("PMIX_RANK") == nullptr, ErrorKind::unsupported,
          "PMIX_RANK is set, but neither Open MPI's nor Slurm's variables are, which tell the number of ranks: start "
          "ranks by mpirun, by srun --mpi=pmix, or by `tessera train --ranks N` on one machine");
  return std::nullopt;
}

namespace {

// A file descriptor that the destructor closes.
class Descriptor {
 public:
  explicit Descriptor(int descriptor = -1) : descriptor_(descriptor) {}
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

sockaddr_un address_of(const RankPlace& place, int rank) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = fmt::format("{}/{}", place.folder, rank);
  require(path.size() < sizeof address.sun_path, ErrorKind::invalid_argument,
          "the path of a rank's socket is too long for the system: '{}' has {} bytes, expected at most {}; set TMPDIR "
          "to a shorter one",
          path, path.size(), sizeof address.sun_path - 1);
  path.copy(static_cast<char*>(address.sun_path), path.size());
  return address;
}

void make_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0)
    require(errno == EEXIST, ErrorKind::io, "the folder '{}' for the sockets of the ranks cannot be made: {}", folder,
            std::strerror(errno));
  struct stat found{};
  require(::lstat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == ::getuid() &&
              (found.st_mode & 077) == 0,
          ErrorKind::io, "'{}' is not a folder of this user alone: remove it", folder);
}

class Meeting {
 public:
  Meeting(const RankPlace& place, Clock::duration timeout)
      : place_(place), end_(Clock::now() + timeout), peers_(static_cast<std::size_t>(place.ranks)) {}
  // Also where ranks did not come: nothing of a meeting stays behind.
  ~Meeting() {
    if (!address_.empty()) ::unlink(address_.c_str());
    ::rmdir(place_.folder.c_str());  // the last rank succeeds
  }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  std::vector<SocketPeer> run() {
    make_folder(place_.folder);
    listen_here();
    for (int rank = 0; rank < place_.rank; ++rank) greet(connect_to(rank), rank);
    for (int missing = place_.ranks - place_.rank - 1; missing > 0; --missing) greet(accept_one(), -1);
    return std::move(peers_);
  }

 private:
  void listen_here() {
    const sockaddr_un address = address_of(place_, place_.rank);
    address_ = static_cast<const char*>(address.sun_path);
    ::unlink(address_.c_str());
    listening_ = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    require(listening_.get() >= 0 &&
                ::bind(listening_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                ::listen(listening_.get(), place_.ranks) == 0,
            ErrorKind::io, "rank {} cannot listen at '{}': {}", place_.rank, address_, std::strerror(errno));
  }

  Descriptor connect_to(int rank) const {
    const sockaddr_un address = address_of(place_, rank);
    while (true) {
      Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      require(socket.get() >= 0, ErrorKind::over_budget, "the system gives no socket for rank {}: {}", rank,
              std::strerror(errno));
      if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return socket;
      require(Clock::now() < end_, ErrorKind::failed, "rank {} has not come to the meeting of the {} ranks in '{}': {}",
              rank, place_.ranks, place_.folder, std::strerror(errno));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  Descriptor accept_one() const {
    while (true) {
      pollfd waits{listening_.get(), POLLIN, 0};
      if (::poll(&waits, 1, 100) > 0) {
        Descriptor socket(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (socket.get() >= 0) return socket;
      }
      if (Clock::now() < end_) continue;
      std::string missing;
      for (int rank = place_.rank + 1; rank < place_.ranks; ++rank) {
        if (peers_[static_cast<std::size_t>(rank)].descriptor < 0)
          missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
      }
      fail(ErrorKind::failed, "of {} ranks, these have not come to the meeting in '{}': {}", place_.ranks,
           place_.folder, missing);
    }
  }

  // Tells the other side who this is, and notes who it is. `expected` is -1 if it is not known.
  void greet(Descriptor socket, int expected) {
    RankHeader own;
    own.kind = RankMessageKind::greeting;
    own.rank = static_cast<std::uint32_t>(place_.rank);
    own.number = place_.ranks;
    own.step = ::getpid();
    std::array<char, 56> host{};
    ::gethostname(host.data(), host.size() - 1);
    own.set_name(host.data());
    require(::send(socket.get(), &own, sizeof own, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof own), ErrorKind::io,
            "a rank cannot be greeted: {}", std::strerror(errno));
    std::array<std::byte, sizeof(RankHeader)> bytes{};
    for (std::size_t got = 0; got < bytes.size();) {
      pollfd waits{socket.get(), POLLIN, 0};
      require(Clock::now() < end_, ErrorKind::failed, "a rank has connected to rank {}, but says nothing", place_.rank);
      if (::poll(&waits, 1, 100) <= 0) continue;
      const ssize_t read = ::recv(socket.get(), bytes.data() + got, bytes.size() - got, 0);
      require(read > 0, ErrorKind::failed, "a rank has ended before the training began");
      got += static_cast<std::size_t>(read);
    }
    std::uint32_t claimed = 0;
    std::memcpy(&claimed, bytes.data() + offsetof(RankHeader, rank), sizeof claimed);
    const RankHeader other = read_rank_header(bytes, expected >= 0 ? static_cast<std::uint32_t>(expected) : claimed);
    require(other.kind == RankMessageKind::greeting && other.number == place_.ranks &&
                other.rank < static_cast<std::uint32_t>(place_.ranks),
            ErrorKind::failed, "rank {} greets as one of {} ranks, expected {}", other.rank, other.number,
            place_.ranks);
    SocketPeer& peer = peers_[other.rank];
    require(peer.descriptor < 0 && static_cast<int>(other.rank) != place_.rank, ErrorKind::failed,
            "two processes say that they are rank {}", other.rank);
    peer = {socket.release(), std::string(other.name_text()), other.step};
  }

  const RankPlace& place_;
  const Clock::time_point end_;
  std::vector<SocketPeer> peers_;
  Descriptor listening_;
  std::string address_;  // of the socket of this rank, once it has one
};

}  // namespace

std::shared_ptr<base::Communicator> join_ranks(const RankPlace& place, const SocketRankOptions& options) {
  if (!place.folder.empty()) {
    std::vector<SocketPeer> peers = Meeting(place, std::chrono::duration_cast<Clock::duration>(options.timeout)).run();
    return make_socket_ranks(place.rank, std::move(peers), options);
  }
  MpiRankOptions of_mpi;
  of_mpi.timeout = options.timeout;
  std::shared_ptr<base::Communicator> ranks = make_mpi_ranks(of_mpi);
  // MPI that another launcher's protocol does not reach takes each process for one that is alone.
  require(
      ranks->rank() == place.rank && ranks->size() == place.ranks, ErrorKind::failed,
      "by {} this process is rank {} of {}, but by MPI it is rank {} of {}: start the ranks by the mpirun of the MPI "
      "that the plug-in is built for, or with Slurm by srun --mpi=pmix",
      place.launcher, place.rank, place.ranks, ranks->rank(), ranks->size());
  return ranks;
}

int threads_of_rank(const RankPlace& place) {
  const int cores = base::cpu_info().usable_cores;
  cpu_set_t bound;
  const bool is_bound = ::sched_getaffinity(0, sizeof bound, &bound) == 0 &&
                        CPU_COUNT(&bound) < static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  return is_bound || place.ranks_on_machine == 0 ? cores : std::max(1, cores / place.ranks_on_machine);
}

}  // namespace tessera::dist
