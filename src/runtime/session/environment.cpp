#include "runtime/session/environment.h"

#include <algorithm>

#include "backends/backend_table.h"
#include "backends/device_copies.h"
#include "backends/device_properties.h"
#include "backends/device_weights.h"
#include "backends/reference/reference_device.h"
#include "base/cpu_info.h"
#include "base/numbers/checked.h"
#include "cost/machine.h"
#include "io/package.h"
#include "plan/choose_kernel.h"
#include "runtime/memory/device_blocks.h"
#include "runtime/run/evaluate.h"

namespace tessera::runtime {
namespace {

// What folding a node may take at once, with what its kernel takes for itself; a result whose size nobody knows
// beforehand ends there.
std::int64_t bytes_to_fold_in(const ir::Graph& graph, const passes::FoldingBudget& budget) {
  return base::checked_multiply(4, passes::folding_budget(graph, budget).bytes);
}

// Where all passes are through, weights are read while the session is made and first runs; else passes need them now.
// A device that does not compute gives no results that damage could reach. Without a graph in the package, weights are
// read when kernels take them.
void begin_reading(const Model& model, const SessionOptions& options, const backends::Device& device) {
  const io::PackageOrigin& package = *model.package();
  if (package.stream == nullptr || !device.computes() || !package.has_graph) return;
  if (is_optimised_for(model, options)) package.stream->start();
  else package.stream->need_constants();
}

// The machine that passes weigh by: the device where its rates are known, else this CPU.
cost::Machine machine_of(const backends::Device& device) {
  const cost::DeviceProfile* const profile = device.properties().profile;
  return profile != nullptr ? cost::Machine(*profile) : cost::Machine(base::cpu_info());
}

}  // namespace

DType precision_for(const Model& model, const SessionOptions& options) {
  const std::string made_with = model.package() != nullptr ? model.package()->info.precision : "f32";
  require(made_with == "f32" || made_with == "bf16", ErrorKind::unsupported,
          "the package was made with precision {}, expected f32 or bf16", base::shown(made_with));
  const DType recorded = made_with == "bf16" ? DType::bf16 : DType::f32;
  if (options.precision == DType::undefined) return recorded;
  require(options.precision == DType::f32 || options.precision == DType::bf16, ErrorKind::invalid_argument,
          "precision is {}, expected f32 or bf16", name_of(options.precision));
  require(recorded == DType::f32 || options.precision == recorded, ErrorKind::invalid_argument,
          "the package was made with precision {} and cannot run in {}: make another from its .onnx with `tessera "
          "optimize MODEL.onnx -o OUT.tsr --precision {}`",
          made_with, name_of(options.precision), name_of(options.precision));
  return options.precision;
}

void use_device(ProgramEnvironment& environment, const backends::Device& device, std::int64_t memory_limit_bytes) {
  environment.device = &device;
  environment.host = &device.host_fallback();
  if (device.is_host()) return;
  const std::int64_t capacity = device.memory().capacity_bytes();
  const std::int64_t limit = memory_limit_bytes > 0 ? std::min(memory_limit_bytes, capacity) : capacity;
  environment.device_account = std::make_shared<MemoryAccount>(limit, std::string(device.name()));
  const auto charge = [account = environment.device_account](Purpose purpose) -> backends::DeviceCharge {
    return [account, purpose](std::int64_t bytes) -> std::shared_ptr<void> {
      return std::make_shared<MemoryCharge>(account, purpose, bytes);
    };
  };
  environment.staging = [&device, account = environment.account](std::int64_t bytes) {
    return take_staging(device, account, bytes);
  };
  environment.device_copies =
      std::make_shared<backends::DeviceCopies>(device, charge(Purpose::weights), environment.staging);
  environment.device_weights = std::make_shared<backends::DeviceWeights>(
      device, *environment.weights, charge(Purpose::packed_weights), environment.staging);
}

ProgramEnvironment make_environment(const Model& model, const SessionOptions& options) {
  ProgramEnvironment environment;
  environment.device = &backends::find_device(options.device);
  // A device that does not compute may plan for machines larger than this one.
  const std::int64_t default_limit = environment.device->computes() ? base::usable_memory_bytes() / 10 * 9 : 0;
  environment.account =
      std::make_shared<MemoryAccount>(options.memory_limit_bytes > 0 ? options.memory_limit_bytes : default_limit);
  if (const io::PackageOrigin* package = model.package()) {
    environment.package =
        std::shared_ptr<const io::PackageOrigin>(package, [keep = model](const io::PackageOrigin*) {});
    begin_reading(model, options, *environment.device);
    environment.weights = std::make_unique<SharedWeightStore>(environment.account, package->packings, package->stream,
                                                              !environment.device->is_host() || !package->has_graph);
  } else {
    environment.weights = std::make_unique<SharedWeightStore>(environment.account);
  }
  use_device(environment, *environment.device, options.device_memory_limit_bytes);
  environment.unpacked = std::make_unique<UnpackedConstants>(environment.account);
  environment.results = std::make_unique<ResultAllocator>(environment.account);
  environment.threads = options.threads;
  if (options.tune)
    environment.tuner =
        std::make_unique<StoredTuner>(environment.host->properties(), options.tuning_file, options.tuning_progress);
  environment.max_plans = static_cast<std::size_t>(std::max(1, options.max_cached_plans));
  environment.max_plan_bytes = std::max<std::int64_t>(0, options.max_plan_bytes);
  environment.pipeline.without = options.without_passes;
  if (model.package() != nullptr) {
    const std::vector<std::string>& left_out = model.package()->info.without;
    environment.pipeline.without.insert(environment.pipeline.without.end(), left_out.begin(), left_out.end());
  }
  const DType precision = precision_for(model, options);
  require(precision == DType::f32 || !environment.device->kernels_for("tessera::Linear").empty(),
          ErrorKind::invalid_argument, "device '{}' computes in the model's own types: precision {} is not for it",
          options.device, name_of(precision));
  environment.pass_context.machine = machine_of(*environment.device);
  environment.pass_context.computes_float16_in_float32 = !environment.device->supports_float16();
  environment.pass_context.precision = precision;
  environment.pass_context.folding = {options.max_folded_bytes, options.max_folded_operations};
  environment.pass_context.evaluate = [most = bytes_to_fold_in(model.graph(), environment.pass_context.folding)](
                                          const ir::Node& node, std::span<const Value> inputs) {
    ResultAllocator allocator(std::make_shared<MemoryAccount>(most));
    return evaluate_node(backends::reference_device(), node, inputs, {.allocator = &allocator});
  };
  environment.pass_context.keeps_composite = [device = environment.device](const ir::Graph& graph,
                                                                           const ir::Node& node) {
    return plan::may_accept(*device, graph, node);
  };
  environment.account->charge(Purpose::weights, bytes_of_constants(model.graph()));
  // The packings of other packages are pages of the file.
  if (model.package() != nullptr && model.package()->decoder != nullptr)
    environment.account->charge(Purpose::weights, model.package()->packings->bytes());
  environment.variables = options.variables != nullptr
                              ? options.variables
                              : std::make_shared<VariableStore>(std::make_shared<Variables>(environment.account));
  return environment;
}

bool is_optimised_for(const Model& model, const SessionOptions& options) {
  if (model.package() == nullptr || !model.package()->has_graph || !options.without_passes.empty()) return false;
  const io::PackageInfo& info = model.package()->info;
  return info.device == backends::find_device(options.device).name() &&
         info.instruction_set == base::isa_name(base::cpu_info()) &&
         info.precision == name_of(precision_for(model, options));
}

std::unique_ptr<Program> make_program(const Model& model, const SessionOptions& options,
                                      const ProgramEnvironment& environment) {
  if (is_optimised_for(model, options))
    return std::make_unique<Program>(model.graph(), environment, model.package()->info.ready);
  // Once for the model with its symbolic dimensions; each plan then starts from what is left.
  const std::int64_t before = bytes_of_constants(model.graph());
  ir::Graph optimised = passes::run_pipeline(model.graph(), environment.pass_context, environment.pipeline);
  // And what passes read of the model's deferred constants.
  environment.account->charge(
      Purpose::weights, bytes_of_constants(optimised, &model.graph()) + bytes_of_constants(model.graph()) - before);
  return std::make_unique<Program>(std::move(optimised), environment);
}

}  // namespace tessera::runtime
