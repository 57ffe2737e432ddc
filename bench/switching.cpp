// Times one cold start of a package: from loading the file to the first answer, and what bounds it. Run by
// bench/share/switching.py, which drops the file's pages from the page cache before.
//
//   build/release/bench/bench_switching FILE.tsr [--rate BYTES_PER_SECOND] [--threads N] [--since NANOSECONDS]
//   build/release/bench/bench_switching --read FILE.tsr [--rate BYTES_PER_SECOND]
//
//   build/release/bench/bench_switching --switch FIRST.tsr SECOND.tsr
//
// Prints a JSON object, in milliseconds. --switch: two models that are both resident: how long acquiring one takes, and
// runs of it after a run of the other one against runs in a row. --since: the monotonic clock when the process was
// started. --read: how long reading the same bytes by pread takes.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/package.h"
#include "io/package/read_throttle.h"
#include "runtime/session/random_inputs.h"
#include "tessera/clock.h"
#include "tessera/error.h"
#include "tessera/model.h"
#include "tessera/resident_models.h"
#include "tessera/session.h"

namespace {

using tessera::Clock;

struct Options {
  std::string file;
  std::string other_file;
  bool only_reads = false, switches = false;
  double rate = 0;
  int threads = 0;
  std::int64_t since_ns = 0;
};

double ms_since(std::int64_t begin_ns) {
  return static_cast<double>(Clock::steady().now_ns() - begin_ns) * 1e-6;
}

// This counts all threads of the process, which a busy machine changes little.
double cpu_ms() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

// Everything but the pieces that the first run does not use, in the file's order.
nlohmann::json read(const Options& options) {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  {
    const tessera::Model model = tessera::Model::load(options.file);
    const tessera::io::PackageOrigin& package = *model.package();
    const std::byte* base = nullptr;
    for (const tessera::io::Section& section : package.sections) {
      if (section.name != "constants" && section.name != "packed")
        ranges.emplace_back(section.offset, section.stored_bytes);
      if (section.name != "packed") continue;
      for (const tessera::io::StreamedPiece& piece : package.stream->pieces()) {
        if (piece.is_packing && (base == nullptr || piece.bytes.data() - section.offset < base))
          base = piece.bytes.data() - section.offset;
      }
    }
    for (const tessera::io::StreamedPiece& piece : package.stream->pieces()) {
      if (piece.use != tessera::io::PieceUse::none && base != nullptr)
        ranges.emplace_back(piece.bytes.data() - base, piece.bytes.size());
    }
  }
  const int file = ::open(options.file.c_str(), O_RDONLY | O_CLOEXEC);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  std::vector<char> buffer(std::size_t{1} << 20, 1);
  tessera::io::ReadThrottle throttle;
  throttle.set_rate(options.rate);
  std::int64_t bytes = 0;
  const std::int64_t begin = Clock::steady().now_ns();
  for (auto [offset, left] : ranges) {
    while (left > 0) {
      const auto size =
          static_cast<std::size_t>(std::min<std::int64_t>(left, static_cast<std::int64_t>(buffer.size())));
      throttle.take(static_cast<std::int64_t>(size));
      const ssize_t got = ::pread(file, buffer.data(), size, offset);
      if (got <= 0) throw tessera::Error(tessera::ErrorKind::io, "cannot read the file");
      offset += got;
      left -= got;
      bytes += got;
    }
  }
  const double ms = ms_since(begin);
  ::close(file);
  return {{"read_ms", ms}, {"bytes", bytes}};
}

nlohmann::json start(const Options& options) {
  const std::int64_t begin = Clock::steady().now_ns();
  const double process_ms = options.since_ns > 0 ? static_cast<double>(begin - options.since_ns) * 1e-6 : 0;
  const tessera::Model model = tessera::Model::load(options.file);
  const double loaded_ms = ms_since(begin);
  if (model.package() == nullptr || model.package()->stream == nullptr)
    throw tessera::Error(tessera::ErrorKind::invalid_argument, "not a package whose weights can be streamed");
  model.package()->stream->set_rate(options.rate);
  tessera::Session session(model, {.threads = options.threads});
  const double session_ms = ms_since(begin);
  const tessera::NamedValues inputs = tessera::runtime::random_inputs(model, 1);
  const double inputs_ms = ms_since(begin);
  session.plan_memory(inputs);
  const double planned_cpu_ms = cpu_ms();
  session.run(inputs);
  const double first_ms = ms_since(begin), first_cpu_ms = cpu_ms();
  const tessera::io::WeightStream::Report streamed = model.package()->stream->report();
  std::vector<double> runs;
  for (int run = 0; run < 15; ++run) {
    const std::int64_t run_begin = Clock::steady().now_ns();
    session.run(inputs);
    runs.push_back(ms_since(run_begin));
  }
  const double compute_cpu_ms = (cpu_ms() - first_cpu_ms) / static_cast<double>(runs.size());
  std::sort(runs.begin(), runs.end());
  return {{"process_ms", process_ms},
          {"load_ms", loaded_ms},
          {"session_ms", session_ms - loaded_ms},
          {"inputs_ms", inputs_ms - session_ms},
          {"first_ms", first_ms - (inputs_ms - session_ms)},
          {"compute_ms", runs[runs.size() / 2]},
          {"first_cpu_ms", first_cpu_ms},
          {"planned_cpu_ms", planned_cpu_ms},
          {"compute_cpu_ms", compute_cpu_ms},
          {"streamed_ms", streamed.seconds * 1e3},
          {"bytes", streamed.bytes},
          {"groups", streamed.groups}};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

nlohmann::json switch_between(const Options& options) {
  tessera::ResidentModels models(
      {[](const std::string& file) { return static_cast<std::int64_t>(std::filesystem::file_size(file)); },
       [&](const std::string& file) {
         return std::make_unique<tessera::Session>(tessera::Model::load(file),
                                                   tessera::SessionOptions{.threads = options.threads});
       }},
      {.budget_bytes = std::int64_t{1} << 40});
  const std::string files[] = {options.file, options.other_file};
  const tessera::NamedValues inputs[] = {tessera::runtime::random_inputs(tessera::Model::load(files[0]), 1),
                                         tessera::runtime::random_inputs(tessera::Model::load(files[1]), 1)};
  std::vector<double> acquired, switched, again;
  for (int round = 0; round < 31; ++round) {
    for (const int which : {0, 1}) {
      for (const bool first : {true, false}) {
        const std::int64_t begin = Clock::steady().now_ns();
        const tessera::ResidentModel model = models.acquire(files[which]);
        const double acquire_ms = ms_since(begin);
        model.session().run(inputs[which]);
        if (round == 0 || which == 1) continue;  // the first file's runs are timed
        acquired.push_back(acquire_ms);
        (first ? switched : again).push_back(ms_since(begin));
      }
    }
  }
  return {{"acquire_ms", median(acquired)}, {"switched_ms", median(switched)}, {"again_ms", median(again)}};
}

Options parse(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    const bool has_value = i + 1 < arguments.size();
    if (name == "--read") options.only_reads = true;
    else if (name == "--switch") options.switches = true;
    else if (name == "--rate" && has_value) options.rate = std::atof(arguments[++i].c_str());
    else if (name == "--threads" && has_value) options.threads = std::atoi(arguments[++i].c_str());
    else if (name == "--since" && has_value) options.since_ns = std::atoll(arguments[++i].c_str());
    else (options.file.empty() ? options.file : options.other_file) = name;
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse({argv + 1, argv + argc});
    const auto figures = options.only_reads ? read(options)
                         : options.switches ? switch_between(options)
                                            : start(options);
    fmt::print("{}\n", figures.dump());
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_switching: {}\n", error.what());
    return 1;
  }
}
