// What this machine can do at most: arithmetic by instruction set, memory bandwidth by cache, and the cost of the first
// touch of memory.
//
//   build/release/bench/bench_roof [--compute] [--json]      --compute: arithmetic only
//
// For one core and for all cores that this process may use; the best of several short runs, so it wants a quiet
// machine. Operations count a multiply-add as two. Bandwidth counts the bytes that the loop names; sizes are of all
// arrays together.
#include "backends/cpu/machine/roof.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/machine/simd.h"
#include "base/cpu_info.h"
#include "base/error.h"
#include "base/threads/thread_pool.h"
#include "report/values/json_text.h"

namespace {

using namespace tessera;
namespace cpu = backends::cpu;

constexpr std::int64_t kPage = 4096, kHugePage = std::int64_t{2} << 20;

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
  for (const cpu::ComputeLoop& loop : cpu::compute_loops()) {
    rows.push_back({{"what", loop.what},
                    {"instructions", loop.instructions},
                    {"threads", threads},
                    {"giga_operations_per_second", cpu::measure_compute(loop, threads) * 1e-9}});
  }
  return rows;
}

nlohmann::json measure_bandwidth(int threads) {
  nlohmann::json rows = nlohmann::json::array();
  for (const cpu::MemoryLevel& level : cpu::memory_levels(threads)) {
    for (const cpu::StreamLoop& loop : cpu::stream_loops()) {
      const cpu::Bandwidth found = cpu::measure_bandwidth(level, loop, threads);
      rows.push_back({{"what", loop.what},
                      {"level", level.name},
                      {"threads", threads},
                      {"bytes", found.bytes},
                      {"gigabytes_per_second", found.bytes_per_second * 1e-9}});
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
      const cpu::Pages pages(bytes, huge);
      const auto fill = [&](std::int64_t begin, std::int64_t end) {
        std::memset(pages.data() + begin * part, 1, static_cast<std::size_t>((end - begin) * part));
      };
      first = std::min(first, cpu::timed_on(threads, fill));
      again = std::min(again, cpu::timed_on(threads, fill));
      most_huge = std::max(most_huge, huge_bytes() - before);
      advised = advised && pages.advised();
    }
    rows.push_back({{"pages", huge ? "huge pages by madvise" : "4 KB pages"},
                    {"threads", threads},
                    {"advice_taken", advised},
                    {"share_in_huge_pages", static_cast<double>(most_huge) / touched},
                    {"first_touch_us_per_4_kb", first * 1e6 / (touched / kPage)},
                    {"first_gigabytes_per_second", touched / first * 1e-9},
                    {"again_gigabytes_per_second", touched / again * 1e-9}});
  }
  return rows;
}

void print(const nlohmann::json& roof) {
  fmt::print("{}, {}, {} cores\n", roof["cpu"].get<std::string>(), roof["isa"].get<std::string>(),
             roof["cores"].get<int>());
  fmt::print("\n{:24} {:14} {:>8} {:>14}\n", "arithmetic", "instructions", "threads", "Gop/s");
  for (const auto& row : roof["compute"]) {
    fmt::print("{:24} {:14} {:>8} {:>14.1f}\n", row["what"].get<std::string>(), row["instructions"].get<std::string>(),
               row["threads"].get<int>(), row["giga_operations_per_second"].get<double>());
  }
  if (!roof.contains("bandwidth")) return;
  fmt::print("\n{:24} {:14} {:>8} {:>14}\n", "memory", "size", "threads", "GB/s");
  for (const auto& row : roof["bandwidth"]) {
    const std::string size =
        fmt::format("{} {:.0f} KB", row["level"].get<std::string>(), row["bytes"].get<double>() / 1024);
    fmt::print("{:24} {:14} {:>8} {:>14.1f}\n", row["what"].get<std::string>(), size, row["threads"].get<int>(),
               row["gigabytes_per_second"].get<double>());
  }
  fmt::print("\n{:24} {:>14} {:>8} {:>14} {:>12} {:>14}\n", "first touch", "us per 4 KB", "threads", "first GB/s",
             "again GB/s", "in huge pages");
  for (const auto& row : roof["first_touch"]) {
    fmt::print("{:24} {:>14.2f} {:>8} {:>14.1f} {:>12.1f} {:>13.0f}%\n", row["pages"].get<std::string>(),
               row["first_touch_us_per_4_kb"].get<double>(), row["threads"].get<int>(),
               row["first_gigabytes_per_second"].get<double>(), row["again_gigabytes_per_second"].get<double>(),
               100 * row["share_in_huge_pages"].get<double>());
  }
}

int measure(bool as_json, bool compute_only) {
  cpu::initialise_simd();
  const base::CpuInfo& info = base::cpu_info();
  const int cores = base::ThreadPool::process().cores();
  const base::ThreadPool::CoreLease lease(base::ThreadPool::process());
  nlohmann::json roof{{"cpu", info.model_name}, {"isa", base::isa_name(info)}, {"cores", cores}};
  const auto append = [&](const char* part, const nlohmann::json& rows) {
    for (const auto& row : rows) roof[part].push_back(row);
  };
  std::vector<int> counts{1};
  if (cores > 1) counts.push_back(cores);
  for (int threads : counts) {
    append("compute", measure_compute(threads));
    if (compute_only) continue;
    append("bandwidth", measure_bandwidth(threads));
    append("first_touch", measure_first_touch(threads));
  }
  if (as_json) fmt::print("{}\n", report::json_text(roof, 2));
  else print(roof);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  bool as_json = false, compute_only = false;
  for (const std::string_view word : std::span(argv, static_cast<std::size_t>(argc)).subspan(1)) {
    if (word == "--json") {
      as_json = true;
    } else if (word == "--compute") {
      compute_only = true;
    } else {
      fmt::print(stderr, "usage: bench_roof [--compute] [--json]\n");
      return 2;
    }
  }
  try {
    return measure(as_json, compute_only);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
