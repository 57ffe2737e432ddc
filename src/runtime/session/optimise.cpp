#include "tessera/optimise.h"

#include <algorithm>
#include <new>
#include <set>

#include "base/cpu_info.h"
#include "base/error.h"
#include "base/no_memory.h"
#include "io/onnx/file_form.h"
#include "io/onnx/mapped_file.h"
#include "io/onnx/writer.h"
#include "io/output_file.h"
#include "io/package.h"
#include "ops/values/random_streams.h"
#include "passes/patterns/branches.h"
#include "passes/precision/unlowered_operators.h"
#include "runtime/session/environment.h"
#include "runtime/session/random_inputs.h"
#include "tessera/version.h"

namespace tessera {
namespace {

using namespace runtime;

constexpr std::string_view kOwnDomain = "tessera::";
// One ONNX file holds less than 2 GiB.
constexpr std::int64_t kMostBytesInside = std::int64_t{3} << 29, kLeastBytesOutside = 1024;

bool is_own(const ir::Node& node) {
  return node.op.starts_with(kOwnDomain);
}

class Optimiser {
 public:
  Optimiser(const Model& model, const OptimiseOptions& options)
      : model_(model), options_(options.session), graph_(model.graph()) {
    options_.precision = precision_for(model, options_);
    report_.nodes_before = static_cast<std::int64_t>(graph_.node_count());
    measure_ = options.measure;
    opset_ = options.opset;
    progress_ = options.progress;
    encoder_ = options.encoder;
    rewrite_ = options.rewrite;
    if (encoder_ == nullptr && model.package() != nullptr && model.package()->decoder != nullptr)
      encoder_ = model.package()->decoder->encoder();
    if (measure_) report_.cost_before = measure_(graph_);
    leave_out_all_but(options.only_passes);
  }

  OptimiseReport write_onnx(const std::filesystem::path& path) {
    if (opset_) io::check_opset(*opset_);
    require(encoder_ == nullptr, ErrorKind::invalid_argument,
            "'{}' would give a protected model away: only a .tsr can be protected", path.string());
    report_.opset_before = io::own_version(graph_, "");
    for (const passes::Pass& pass : passes::all_passes()) {
      if (pass.device_form) options_.without_passes.emplace_back(pass.name);
    }
    require(options_.precision == DType::f32, ErrorKind::invalid_argument,
            "ONNX has no form for layers that round to {}; write a .tsr, or ask for the precision when the model runs",
            name_of(options_.precision));
    environment_ = make_environment(model_, options_);
    // Other programs have kernels for ONNX's composites; ours they do not know.
    environment_.pass_context.keeps_composite = [](const ir::Graph&, const ir::Node& node) { return !is_own(node); };
    // Weights that the file keeps in 8 or 16 bits would take two to four times their size in the new one.
    environment_.pass_context.keeps_narrow_weights = true;
    run_passes();
    graph_ = decomposed(std::move(graph_));
    ops::remove_random_streams(graph_);
    std::set<std::string> own;
    add_own_operators(graph_, own);
    report_.own_operators.assign(own.begin(), own.end());
    const bool large = bytes_of_constants(graph_, nullptr, true) > kMostBytesInside;
    say("writing the file", 0.9);
    const io::WrittenModel written = io::write_model(
        graph_, path,
        {.external_data_threshold = large ? std::optional(kLeastBytesOutside) : std::nullopt, .opset = opset_});
    report_.opset = written.opset;
    report_.opset_raised_by = written.raised_by;
    return finish(written.bytes);
  }

  OptimiseReport write_package(const std::filesystem::path& path) {
    require(!opset_, ErrorKind::invalid_argument,
            "an operator set version can be chosen for .onnx files only, not for '{}'", path.string());
    environment_ = make_environment(model_, options_);
    const bool ready = has_concrete_inputs();
    run_passes();
    report_.not_lowered = passes::unlowered_operators(graph_);
    if (rewrite_) graph_ = rewrite_(std::move(graph_));
    say("packing weights", 0.5);
    Program program(graph_, environment_, ready);
    const std::shared_ptr<PreparedPlan> prepared = plan_ahead(program, ready);
    std::vector<io::Packing> packings;
    const std::vector<SharedWeightStore::Held> held = environment_.weights->packings();
    const std::shared_ptr<io::WeightStream> stream = model_.package() != nullptr ? model_.package()->stream : nullptr;
    for (const SharedWeightStore::Held& each : held) {
      // Packings of the package that the model came from may not have been read yet.
      if (stream != nullptr) stream->need(each.packed->data.get(), each.packed->bytes);
      packings.push_back(
          {each.weights, each.name, {each.packed->data.get(), static_cast<std::size_t>(each.packed->bytes)}});
    }
    say("writing the file", 0.9);
    const std::vector<io::FirstUse> uses =
        prepared != nullptr ? first_uses(*prepared->plan, graph_) : std::vector<io::FirstUse>();
    const io::WrittenPackage written =
        io::write_package(path, graph_, info(ready), packings, false, uses, encoder_.get());
    report_.packings = written.packings;
    report_.packed_bytes = written.packed_bytes;
    return finish(written.file_bytes);
  }

 private:
  void leave_out_all_but(const std::vector<std::string>& only) {
    if (only.empty()) return;
    for (const std::string& name : only) {
      const bool known =
          std::ranges::any_of(passes::all_passes(), [&](const passes::Pass& pass) { return pass.name == name; });
      require(known, ErrorKind::invalid_argument, "there is no pass '{}'", name);
    }
    for (const passes::Pass& pass : passes::all_passes()) {
      if (std::ranges::find(only, pass.name) == only.end()) options_.without_passes.emplace_back(pass.name);
    }
  }

  bool has_concrete_inputs() const {
    return std::ranges::all_of(graph_.inputs(), [&](ir::ValueId id) {
      return graph_.value(id).type.is_tensor() && graph_.value(id).type.shape().has_value();
    });
  }

  ir::Graph decomposed(ir::Graph graph) const {
    graph = passes::remove_no_ops(passes::decompose_composites(std::move(graph), environment_.pass_context),
                                  environment_.pass_context);
    return passes::rewrite_branches(std::move(graph),
                                    [this](ir::Graph branch) { return decomposed(std::move(branch)); });
  }

  static void add_own_operators(const ir::Graph& graph, std::set<std::string>& found) {
    for (const ir::NodeId id : graph.order()) {
      if (is_own(graph.node(id))) found.insert(graph.node(id).op);
      for (const auto& [name, subgraph] : ir::subgraphs_of(graph.node(id))) add_own_operators(*subgraph, found);
    }
  }

  // As a session runs them: once on the model as it is, and once more for the shapes of a run if they are known.
  void run_passes() {
    const int times = has_concrete_inputs() ? 2 : 1;
    passes::PipelineOptions pipeline = environment_.pipeline;
    pipeline.measure = measure_;
    pipeline.branches = true;
    int round = 0;
    if (progress_)
      pipeline.progress = [&](std::string_view pass, double done) {
        say(fmt::format("pass {}", pass), (round + done) / times * 0.5);
      };
    for (; round < times; ++round)
      graph_ = passes::run_pipeline(std::move(graph_), environment_.pass_context, pipeline, &report_.passes);
  }

  // Kernels pack while a plan is made. Symbolic dimensions count as 1 in it: most packings do not depend on them. Not
  // every model can run with that. Windows keep their taps, of which a map of one pixel would meet the centre alone.
  std::shared_ptr<PreparedPlan> plan_ahead(Program& program, bool ready) {
    const std::vector<std::string> without = environment_.pipeline.without;
    if (!ready) environment_.pipeline.without.emplace_back("drop_padding_taps");
    std::shared_ptr<PreparedPlan> prepared = planned(program, ready);
    environment_.pipeline.without = without;
    return prepared;
  }
  std::shared_ptr<PreparedPlan> planned(Program& program, bool ready) {
    try {
      return program.plan_for(made_up_inputs());
    } catch (const Error& error) {
      if (ready || error.kind() == ErrorKind::over_budget) throw;
      report_.why_not_packed = error.what();
      return nullptr;
    }
  }

  std::vector<Value> made_up_inputs() const {
    const NamedValues named = random_inputs(model_, 1, environment_.account->limit());
    std::vector<Value> values;
    for (const ValueDescription& input : model_.inputs()) values.push_back(named.find(input.name)->second);
    return values;
  }

  io::PackageInfo info(bool ready) const {
    io::PackageInfo info{TESSERA_VERSION,
                         options_.device,
                         base::isa_name(base::cpu_info()),
                         std::string(name_of(options_.precision)),
                         {},
                         environment_.pipeline.without,
                         ready};
    for (const PassChange& change : report_.passes) {
      if (std::ranges::find(info.passes, change.pass) == info.passes.end()) info.passes.push_back(change.pass);
    }
    return info;
  }

  void say(std::string_view what, double done) const {
    if (progress_) progress_(what, done);
  }

  OptimiseReport finish(std::int64_t file_bytes) {
    say("", 1);
    report_.nodes_after = static_cast<std::int64_t>(graph_.node_count());
    if (measure_) report_.cost_after = measure_(graph_);
    report_.file_bytes = file_bytes;
    return std::move(report_);
  }

  const Model& model_;
  SessionOptions options_;
  GraphMeasure measure_;
  std::optional<std::int64_t> opset_;
  std::shared_ptr<const io::SectionEncoder> encoder_;
  std::function<void(std::string_view, double)> progress_;
  std::function<ir::Graph(ir::Graph)> rewrite_;
  ir::Graph graph_;
  ProgramEnvironment environment_;
  OptimiseReport report_;
};

}  // namespace

void check_output_name(const std::filesystem::path& path) {
  require(path.extension() == ".onnx" || path.extension() == ".tsr", ErrorKind::invalid_argument,
          "cannot tell what to write to '{}': give it a name that ends in .onnx for an ONNX model, or in .tsr for a "
          "package",
          path.string());
}

OptimiseReport optimise(const Model& model, const std::filesystem::path& path, const OptimiseOptions& options) {
  io::check_output(path);  // before the work
  check_output_name(path);
  return base::with_memory_errors([&] {
    Optimiser optimiser(model, options);
    return path.extension() == ".onnx" ? optimiser.write_onnx(path) : optimiser.write_package(path);
  });
}

void verify_package(const std::filesystem::path& path) {
  io::verify_package(path);
}

bool is_package(const std::filesystem::path& path) {
  return io::is_container(io::MappedFile::map(io::InputFile::open(path))->bytes());
}

}  // namespace tessera
