// What this machine can do at most: arithmetic by instruction set, memory bandwidth by cache, and the cost of the first touch of memory.
//
//   build/release/bench/bench_roof [--json]
//
// For one core and for all cores that this process may use; the best of several short runs, so it wants a quiet machine.
// Operations count a multiply-add as two. Bandwidth counts the bytes that the loop names; sizes are of all arrays together.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/simd.h"
#include "base/cpu_info.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "bench/roof_kernels.h"
#include "report/json_text.h"

namespace {

using namespace tessera;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kPage = 4096, kHugePage = std::int64_t{2} << 20;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Seconds of body(thread) on so many threads at once.
double timed(int threads, const auto& body) {
  const auto start = Clock::now();
  base::ThreadPool::process().parallel_for(threads, 1, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(i);
  });
  return seconds_since(start);
}

// The least time of body(thread, repeats) per repeat: repeats grow until a run takes 50 ms, then five runs.
double best_seconds(int threads, const auto& body) {
  std::int64_t repeats = 1;
  double seconds = timed(threads, [&](std::int64_t thread) { body(thread, repeats); });
  while (seconds < 0.05) {
    repeats = seconds < 0.005 ? repeats * 8 : static_cast<std::int64_t>(static_cast<double>(repeats) * 0.06 / seconds) + 1;
    seconds = timed(threads, [&](std::int64_t thread) { body(thread, repeats); });
  }
  for (int run = 0; run < 5; ++run) seconds = std::min(seconds, timed(threads, [&](std::int64_t thread) { body(thread, repeats); }));
  return seconds / static_cast<double>(repeats);
}

// Memory of our own that nobody has touched.
class Pages {
 public:
  Pages(std::int64_t bytes, bool huge) : bytes_(bytes + kHugePage) {
    base_ = mmap(nullptr, static_cast<std::size_t>(bytes_), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(base_ != MAP_FAILED, ErrorKind::over_budget, "cannot map {} bytes", bytes_);
    begin_ = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(base_) + kHugePage - 1) / kHugePage * kHugePage);
    advised_ = madvise(begin_, static_cast<std::size_t>(bytes), huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0;
  }
  ~Pages() { munmap(base_, static_cast<std::size_t>(bytes_)); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::byte* data() const { return begin_; }
  bool advised() const { return advised_; }

 private:
  std::int64_t bytes_;
  void* base_;
  std::byte* begin_;
  bool advised_;
};

// Bytes in huge pages, of this process.
std::int64_t huge_bytes() {
  std::ifstream maps("/proc/self/smaps_rollup");
  for (std::string line; std::getline(maps, line);) {
    if (line.starts_with("AnonHugePages:")) return std::stoll(line.substr(14)) * 1024;
  }
  return 0;
}

nlohmann::json measure_compute(int threads) {
  nlohmann::json rows = nlohmann::json::array();
  for (const bench::ComputeLoop& loop : bench::compute_loops()) {
    const backends::cpu::ScopedIsa with(loop.isa);
    constexpr std::int64_t steps = 10'000;
    const double seconds = best_seconds(threads, [&](std::int64_t, std::int64_t repeats) { loop.run(repeats * steps); });
    rows.push_back({{"what", loop.what}, {"instructions", loop.instructions}, {"threads", threads},
                    {"giga_operations_per_second", loop.operations * steps * threads / seconds * 1e-9}});
  }
  return rows;
}

struct Level {
  const char* name;
  std::int64_t bytes;  // of all arrays of one thread
};

// Of the first core; sysconf names the whole processor's third level, also where a virtual machine has a part of it.
std::int64_t cache_bytes(int level, std::int64_t otherwise) {
  for (int i = 0; i < 8; ++i) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
    int found = 0;
    std::int64_t kilobytes = 0;
    std::string type;
    std::ifstream(folder + "level") >> found;
    std::ifstream(folder + "type") >> type;
    std::ifstream(folder + "size") >> kilobytes;
    if (found == level && type != "Instruction" && kilobytes > 0) return kilobytes << 10;
  }
  return otherwise;
}

std::vector<Level> memory_levels(int threads) {
  const std::int64_t l1 = cache_bytes(1, 32 << 10), l2 = cache_bytes(2, 1 << 20), l3 = cache_bytes(3, 32 << 20);
  return {{"L1", l1 / 2}, {"L2", l2 / 2}, {"L3", l3 / 2 / threads}, {"DRAM", std::max<std::int64_t>(8 * l3, 512 << 20) / threads}};
}

nlohmann::json measure_bandwidth(int threads) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Level& level : memory_levels(threads)) {
    for (const bench::StreamLoop& loop : bench::stream_loops()) {
      const std::int64_t count = level.bytes / loop.arrays / 4 / 128 * 128, array_bytes = count * 4;
      const std::int64_t stride = (array_bytes + kPage - 1) / kPage * kPage + 256;  // arrays that do not share their sets of a cache
      const Pages pages(stride * 3 * threads, true);
      const auto array = [&](std::int64_t thread, int i) { return reinterpret_cast<float*>(pages.data() + (thread * 3 + i) * stride); };
      timed(threads, [&](std::int64_t thread) {
        for (int i = 0; i < 3; ++i) std::memset(array(thread, i), 0, static_cast<std::size_t>(array_bytes));
      });
      const double seconds = best_seconds(threads, [&](std::int64_t thread, std::int64_t repeats) {
        float sum[16];
        float* to = loop.arrays == 1 ? sum : array(thread, 0);
        for (std::int64_t i = 0; i < repeats; ++i) loop.run(to, array(thread, 1), array(thread, 2), count);
      });
      const double bytes = static_cast<double>(array_bytes * loop.arrays * threads);
      rows.push_back({{"what", loop.what}, {"level", level.name}, {"threads", threads}, {"bytes", bytes}, {"gigabytes_per_second", bytes / seconds * 1e-9}});
    }
  }
  return rows;
}

nlohmann::json measure_first_touch(int threads) {
  nlohmann::json rows = nlohmann::json::array();
  constexpr std::int64_t bytes = std::int64_t{128} << 20;
  const std::int64_t part = bytes / threads / kHugePage * kHugePage;
  const double touched = static_cast<double>(part * threads);
  for (bool huge : {false, true}) {
    double first = 1e9, again = 1e9;
    std::int64_t most_huge = 0;
    bool advised = true;
    for (int run = 0; run < 3; ++run) {
      const std::int64_t before = huge_bytes();
      const Pages pages(bytes, huge);
      const auto fill = [&](std::int64_t thread) { std::memset(pages.data() + thread * part, 1, static_cast<std::size_t>(part)); };
      first = std::min(first, timed(threads, fill));
      again = std::min(again, timed(threads, fill));
      most_huge = std::max(most_huge, huge_bytes() - before);
      advised = advised && pages.advised();
    }
    rows.push_back({{"pages", huge ? "huge pages by madvise" : "4 KB pages"}, {"threads", threads}, {"advice_taken", advised},
                    {"share_in_huge_pages", static_cast<double>(most_huge) / touched},
                    {"first_touch_us_per_4_kb", first * 1e6 / (touched / kPage)},
                    {"first_gigabytes_per_second", touched / first * 1e-9},
                    {"again_gigabytes_per_second", touched / again * 1e-9}});
  }
  return rows;
}

void print(const nlohmann::json& roof) {
  fmt::print("{}, {}, {} cores\n", roof["cpu"].get<std::string>(), roof["isa"].get<std::string>(), roof["cores"].get<int>());
  fmt::print("\n{:24} {:14} {:>8} {:>14}\n", "arithmetic", "instructions", "threads", "Gop/s");
  for (const auto& row : roof["compute"]) {
    fmt::print("{:24} {:14} {:>8} {:>14.1f}\n", row["what"].get<std::string>(), row["instructions"].get<std::string>(), row["threads"].get<int>(),
               row["giga_operations_per_second"].get<double>());
  }
  fmt::print("\n{:24} {:14} {:>8} {:>14}\n", "memory", "size", "threads", "GB/s");
  for (const auto& row : roof["bandwidth"]) {
    const std::string size = fmt::format("{} {:.0f} KB", row["level"].get<std::string>(), row["bytes"].get<double>() / 1024);
    fmt::print("{:24} {:14} {:>8} {:>14.1f}\n", row["what"].get<std::string>(), size, row["threads"].get<int>(), row["gigabytes_per_second"].get<double>());
  }
  fmt::print("\n{:24} {:>14} {:>8} {:>14} {:>12} {:>14}\n", "first touch", "us per 4 KB", "threads", "first GB/s", "again GB/s", "in huge pages");
  for (const auto& row : roof["first_touch"]) {
    fmt::print("{:24} {:>14.2f} {:>8} {:>14.1f} {:>12.1f} {:>13.0f}%\n", row["pages"].get<std::string>(), row["first_touch_us_per_4_kb"].get<double>(),
               row["threads"].get<int>(), row["first_gigabytes_per_second"].get<double>(), row["again_gigabytes_per_second"].get<double>(),
               100 * row["share_in_huge_pages"].get<double>());
  }
}

int measure(bool as_json) {
  backends::cpu::initialise_simd();
  const base::CpuInfo& cpu = base::cpu_info();
  const int cores = base::ThreadPool::process().cores();
  const base::ThreadPool::CoreLease lease(base::ThreadPool::process());
  nlohmann::json roof{{"cpu", cpu.model_name}, {"isa", base::isa_name(cpu)}, {"cores", cores}};
  const auto append = [&](const char* part, const nlohmann::json& rows) {
    for (const auto& row : rows) roof[part].push_back(row);
  };
  std::vector<int> counts{1};
  if (cores > 1) counts.push_back(cores);
  for (int threads : counts) {
    append("compute", measure_compute(threads));
    append("bandwidth", measure_bandwidth(threads));
    append("first_touch", measure_first_touch(threads));
  }
  if (as_json) fmt::print("{}\n", report::json_text(roof, 2));
  else print(roof);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool as_json = argc == 2 && std::string_view(argv[1]) == "--json";
  if (argc > 1 && !as_json) {
    fmt::print(stderr, "usage: bench_roof [--json]\n");
    return 2;
  }
  try {
    return measure(as_json);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
