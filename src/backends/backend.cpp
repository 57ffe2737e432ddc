#include "backends/backend.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "backends/device_activity.h"
#include "backends/device_properties.h"
#include "base/assert.h"

namespace tessera::backends {
namespace {

class FunctionKernel final : public Kernel {
 public:
  explicit FunctionKernel(void (*function)(KernelContext&)) : function_(function) {}
  void run(KernelContext& context) const override { function_(context); }

 private:
  void (*function_)(KernelContext&);
};

}  // namespace

Tensor ExecutionResources::copy(const Tensor& tensor) const {
  Tensor result = allocate(tensor.dtype(), tensor.shape());
  if (tensor.dtype() != DType::string) {
    if (tensor.bytes() > 0) std::memcpy(result.mutable_raw(), tensor.raw(), static_cast<std::size_t>(tensor.bytes()));
    return result;
  }
  std::copy_n(tensor.data<std::string>(), tensor.elements(), result.mutable_data<std::string>());
  return with_characters(std::move(result));
}

Tensor& KernelContext::allocate_output(std::size_t i, Shape shape) {
  return allocate_output(i, output_types_[i].dtype, std::move(shape));
}

Tensor& KernelContext::allocate_output(std::size_t i, DType dtype, Shape shape) {
  // A caller that already knew the shape has given planned storage: keep it.
  if (outputs_[i].is_tensor() && outputs_[i].tensor().dtype() == dtype && outputs_[i].tensor().shape() == shape)
    return outputs_[i].tensor();
  outputs_[i] = resources_->allocate(dtype, std::move(shape));
  return outputs_[i].tensor();
}

void KernelContext::parallel_for(std::int64_t count, std::int64_t grain, base::RangeFunction body) const {
  const auto chunk = [&](std::int64_t begin, std::int64_t end) {
    check_stop();
    body(begin, end);
  };
  const HostResources& host = resources_->host;
  if (host.pool != nullptr && host.max_threads != 1 && count > grain) {
    host.pool->parallel_for(count, grain, host.max_threads, chunk);
    return;
  }
  if (count <= 0) return;
  // Use the same chunks as with threads, so that results are equal bit for bit.
  const base::Chunks chunks(count, grain);
  for (std::int64_t i = 0; i < chunks.size(); ++i) chunk(chunks.begin(i), chunks.begin(i + 1));
}

const DeviceProperties& Device::properties() const {
  static const DeviceProperties unknown;
  return unknown;
}

DeviceActivity Device::activity() const {
  return {};
}

KernelPointer Device::make_kernel(const KernelEntry& entry, const ops::NodeView& view, WeightStore& weights) const {
  return backends::make_kernel(entry, view, weights, properties());
}

std::unique_ptr<Stream> Device::make_stream() const {
  TESSERA_ASSERT(false, "a host device has no streams");
  return nullptr;
}

std::unique_ptr<Event> Device::make_event() const {
  TESSERA_ASSERT(false, "a host device has no events");
  return nullptr;
}

DeviceMemory& Device::memory() const {
  TESSERA_ASSERT(false, "a host device has no memory of its own");
  std::abort();
}

std::string reason_to_reject(const KernelEntry& entry, const ops::NodeView& view, const DeviceProperties& device) {
  std::string reason = entry.reject != nullptr ? entry.reject(view) : std::string();
  return reason.empty() && entry.reject_on != nullptr ? entry.reject_on(view, device) : reason;
}

std::string reason_to_avoid(const KernelEntry& entry, const ops::NodeView& view, const DeviceProperties& device) {
  std::string reason = entry.avoid != nullptr ? entry.avoid(view) : std::string();
  return reason.empty() && entry.avoid_on != nullptr ? entry.avoid_on(view, device) : reason;
}

bool may_write_over(const KernelEntry& entry, const ir::Node& node, std::size_t output, std::size_t input) {
  if (output == 0 && input < 32 && (entry.in_place_inputs >> input & 1) != 0) return true;
  return entry.in_place_pair != nullptr && entry.in_place_pair(node, output, input);
}

KernelIndex::KernelIndex(std::span<const KernelEntry> table) {
  add(table);
}

KernelIndex::KernelIndex(std::span<const std::span<const KernelEntry>> tables, std::span<const KernelEntry> stand_ins)
    : stand_ins_(stand_ins.begin(), stand_ins.end()) {
  for (std::span<const KernelEntry> table : tables) add(table);
  for (KernelEntry& entry : stand_ins_) entry.is_stand_in = true;
  add(stand_ins_);
}

void KernelIndex::add(std::span<const KernelEntry> table) {
  for (const KernelEntry& entry : table) {
    const int ways =
        (entry.function != nullptr ? 1 : 0) + (entry.create != nullptr ? 1 : 0) + (entry.create_on != nullptr ? 1 : 0);
    TESSERA_ASSERT(ways == 1, "a kernel entry needs either a function or a factory");
    by_op_[entry.op].push_back(&entry);
  }
}

std::span<const KernelEntry* const> KernelIndex::find(std::string_view op) const {
  const auto found = by_op_.find(op);
  return found == by_op_.end() ? std::span<const KernelEntry* const>{} : found->second;
}

std::unique_ptr<Kernel> make_kernel(const KernelEntry& entry, const ops::NodeView& view, WeightStore& weights,
                                    const DeviceProperties& device) {
  if (entry.function != nullptr) return std::make_unique<FunctionKernel>(entry.function);
  return entry.create_on != nullptr ? entry.create_on(view, weights, device) : entry.create(view, weights);
}

}  // namespace tessera::backends
