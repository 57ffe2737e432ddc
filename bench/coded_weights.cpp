// How fast coded weights (io/package/coded_weights.h) are decoded, beside how fast the disk gives as many bytes as they
// stand for: bench_coded_weights [FOLDER [MIB]]. The file that it writes and reads, 1 GiB by default, is in FOLDER.
#include "io/package/coded_weights.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/threads/thread_pool.h"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::vector<float> pruned_weights(std::size_t elements, double density) {
  std::mt19937 generator(1);
  std::vector<float> weights(elements);
  const auto most = static_cast<std::uint32_t>(density * 4294967296.0);
  for (float& weight : weights) {
    if (generator() < most) weight = static_cast<float>(static_cast<int>(generator() % 16) * 2 - 15) * 0.01f;
  }
  return weights;
}

// Bytes a second of a file that is in no cache of the system.
double disk_speed(const std::filesystem::path& folder, std::size_t bytes) {
  const std::filesystem::path path = folder / "bench_coded_weights.tmp";
  std::vector<char> buffer(std::size_t{8} << 20, 'x');
  {
    std::ofstream out(path, std::ios::binary);
    for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = static_cast<char>(i * 2654435761u >> 13);
    for (std::size_t written = 0; written < bytes; written += buffer.size())
      out.write(buffer.data(), static_cast<std::streamsize>(buffer.size()));
  }
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  fdatasync(file);
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  const Clock::time_point begin = Clock::now();
  std::size_t total = 0;
  for (ssize_t got = 1; (got = read(file, buffer.data(), buffer.size())) > 0;) total += static_cast<std::size_t>(got);
  const double speed = static_cast<double>(total) / seconds_since(begin);
  close(file);
  std::filesystem::remove(path);
  return speed;
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : ".";
  const std::size_t bytes = (argc > 2 ? std::stoul(argv[2]) : 1024) << 20;
  constexpr int kTimes = 5;
  fmt::print("disk: {:.0f} MB/s\n", disk_speed(folder, bytes) / 1e6);
  fmt::print(
      "| density | file of float32, MiB | coded, MiB | decoded, MB/s of float32 ({} cores) |\n|---|---|---|---|\n",
      tessera::base::ThreadPool::process().cores());
  for (const double density : {0.02, 0.08, 0.2, 0.5}) {
    const std::vector<float> weights = pruned_weights(bytes / 4 / 4, density);
    const auto raw = std::as_bytes(std::span(weights));
    const std::vector<std::byte> coded = tessera::io::encode_weights({{0, raw, 4}});
    double best = 1e30;
    for (int i = 0; i < kTimes; ++i) {
      const Clock::time_point begin = Clock::now();
      const tessera::Tensor decoded = tessera::io::decode_weights(coded, raw.size());
      best = std::min(best, seconds_since(begin));
      if (std::memcmp(decoded.raw(), raw.data(), raw.size()) != 0) fmt::print("decoding gave other bits\n");
    }
    fmt::print("| {}% | {} | {:.1f} | {:.0f} |\n", 100 * density, raw.size() >> 20,
               static_cast<double>(coded.size()) / 1048576, static_cast<double>(raw.size()) / best / 1e6);
  }
}
