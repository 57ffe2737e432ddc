#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "base/error.h"
#include "io/output_file.h"
#include "protect/obfuscate/similarity.h"
#include "runtime/session/random_inputs.h"
#include "tessera/obfuscation_measure.h"
#include "tessera/session.h"

namespace tessera {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr int kDegrees = 4;

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

// A folder that goes with its contents.
class MeasureFolder {
 public:
  MeasureFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tessera-measure-XXXXXX").string();
    require(::mkdtemp(name.data()) != nullptr, ErrorKind::io, "cannot make a temporary folder '{}'", name);
    path = name;
  }
  ~MeasureFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  MeasureFolder(const MeasureFolder&) = delete;
  MeasureFolder& operator=(const MeasureFolder&) = delete;

  std::filesystem::path path;
};

// Lets every step pass, and notes the most memory that the session has in use.
class MemoryWatch final : public StepGate {
 public:
  explicit MemoryWatch(const Session& session) : session_(session) {}
  bool may_pass(const StepInfo&) override {
    most = std::max(most, session_.memory().total_bytes());
    return true;
  }
  void wait(const StepInfo&) override {}

  std::int64_t most = 0;

 private:
  const Session& session_;
};

struct Contender {
  Model model;
  std::unique_ptr<Session> session;
  std::vector<double> seconds;
};

}  // namespace

std::vector<ObfuscationFigures> measure_obfuscation(const Model& model, std::optional<std::uint64_t> seed,
                                                    const OptimiseOptions& optimise_options, int rounds,
                                                    const std::function<void(std::string_view, double)>& progress) {
  const MeasureFolder folder;
  const auto say = [&](std::string_view what, double done) {
    if (progress) progress(what, done);
  };
  const NamedValues inputs = runtime::random_inputs(model, 1);
  std::vector<ObfuscationFigures> figures(kDegrees);
  std::vector<Contender> contenders;
  for (int degree = 0; degree < kDegrees; ++degree) {
    say(fmt::format("degree {}", degree), 0.6 * degree / kDegrees);
    ObfuscationFigures& each = figures[static_cast<std::size_t>(degree)];
    each.degree = degree;
    const std::filesystem::path file = folder.path / fmt::format("{}.tsr", degree),
                                symbols = folder.path / fmt::format("{}.symbols", degree);
    each.file_bytes = degree == 0
                          ? optimise(model, file, optimise_options).file_bytes
                          : obfuscate_model(model, file, {degree, seed, {}, symbols}, {}, optimise_options).file_bytes;
    if (degree > 0) each.symbols_bytes = static_cast<std::int64_t>(std::filesystem::file_size(symbols));
    const SteadyClock::time_point start = SteadyClock::now();
    Model loaded = Model::load(file);
    auto session = std::make_unique<Session>(loaded, optimise_options.session);
    session->run(inputs);
    each.load_seconds = seconds_since(start);
    MemoryWatch watch(*session);
    session->run(inputs, {.gate = &watch});
    each.memory_bytes = watch.most;
    contenders.push_back({std::move(loaded), std::move(session), {}});
    each.similarity = protect::compare_graphs(contenders[0].model.graph(), contenders.back().model.graph(), 1);
  }
  // In turn, so that whatever else the machine does meets all of them.
  for (int round = 0; round < rounds; ++round) {
    say("runs", 0.6 + 0.4 * round / rounds);
    for (Contender& each : contenders) {
      const SteadyClock::time_point start = SteadyClock::now();
      each.session->run(inputs);
      each.seconds.push_back(seconds_since(start));
    }
  }
  for (int degree = 0; degree < kDegrees; ++degree) {
    const auto place = static_cast<std::size_t>(degree);
    std::vector<double>& seconds = contenders[place].seconds;
    std::ranges::sort(seconds);
    figures[place].run_seconds = seconds.empty() ? 0 : seconds[seconds.size() / 2];
  }
  say("", 1);
  return figures;
}

}  // namespace tessera
