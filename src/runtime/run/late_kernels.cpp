#include "runtime/run/late_kernels.h"

#include <algorithm>

#include "plan/choose_kernel.h"

namespace tessera::runtime {
namespace {

constexpr std::size_t kMostKernels = 16;  // of a step
// Operands of so many elements may say what an operator does; of floats, which are more likely to be data, fewer.
constexpr std::int64_t kFewIntegers = 64, kFewFloats = 16;

void append(std::string& key, const void* bytes, std::size_t count) {
  key.append(static_cast<const char*>(bytes), count);
}

void append(std::string& key, std::int64_t number) {
  append(key, &number, sizeof number);
}

void append(std::string& key, DType dtype, const Shape& shape) {
  append(key, static_cast<std::int64_t>(dtype));
  append(key, static_cast<std::int64_t>(shape.size()));
  for (const std::int64_t dim : shape) append(key, dim);
}

}  // namespace

bool LateKernels::is_relied_on(std::size_t input, const Tensor& tensor) const {
  if (input < constant_.size() && constant_[input]) return true;
  if (is_float(tensor.dtype())) return input > 0 && tensor.elements() <= kFewFloats;
  return tensor.dtype() != DType::string && tensor.elements() <= kFewIntegers;
}

void LateKernels::append_operand(std::string& key, std::size_t input, DType dtype, const Shape& shape,
                                 const Tensor* contents) const {
  append(key, 1);
  append(key, dtype, shape);
  const bool is_constant = input < constant_.size() && constant_[input];
  if (contents != nullptr && !is_constant && is_relied_on(input, *contents))
    append(key, contents->raw(), static_cast<std::size_t>(contents->bytes()));
}

std::string LateKernels::key_of(const ops::NodeView& view, bool by_inputs) const {
  std::string key;
  for (std::size_t i = 0; i < view.input_count(); ++i) {
    if (view.has_input(i)) append_operand(key, i, view.input(i).dtype, view.input(i).shape, view.constant(i));
    else append(key, 0);
  }
  if (by_inputs) return key;
  append(key, -1);  // so that it is no other's key by the inputs
  for (std::size_t i = 0; i < view.output_count(); ++i) append(key, view.output(i).dtype, view.output(i).shape);
  return key;
}

std::shared_ptr<const LateKernel> LateKernels::make(const backends::Device& device, const ops::NodeView& view,
                                                    std::string key, std::span<const ir::ValueType> types) {
  auto entry = std::make_shared<LateKernel>();
  entry->key = std::move(key);
  entry->node = view.node();
  entry->types.assign(types.begin(), types.end());
  entry->constants.resize(view.input_count());
  std::vector<const Tensor*> constants;
  for (std::size_t i = 0; i < view.input_count(); ++i) {
    entry->inputs.push_back(view.input(i));
    const Tensor* tensor = view.constant(i);
    if (tensor != nullptr && is_relied_on(i, *tensor))
      entry->constants[i] = i < constant_.size() && constant_[i] ? *tensor : tensor->clone();
    constants.push_back(entry->constants[i].has_value() ? &entry->constants[i] : nullptr);
  }
  for (std::size_t i = 0; i < view.output_count(); ++i) entry->outputs.push_back(view.output(i));
  const ops::NodeView kept(entry->node, view.op(), entry->inputs, entry->outputs, constants);
  const backends::KernelEntry& wanted = *plan::choose_kernel(device, view).entry;
  if (backends::reason_to_reject(wanted, kept, device.properties()).empty())
    entry->kernel = device.make_kernel(wanted, kept, weights_);
  return entry;
}

std::shared_ptr<const LateKernel> LateKernels::find(const std::string& key) {
  const auto found = std::ranges::find_if(entries_, [&](const auto& entry) { return entry->key == key; });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return *found;
}

std::shared_ptr<const LateKernel> LateKernels::find(const ir::Node& node, std::span<const Value> inputs) {
  thread_local std::string key;
  key.clear();
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].valid() || i >= inputs.size()) {
      append(key, 0);
      continue;
    }
    if (!inputs[i].is_tensor()) return nullptr;
    const Tensor& tensor = inputs[i].tensor();
    append_operand(key, i, tensor.dtype(), tensor.shape(), &tensor);
  }
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const LateKernel> found = find(key);
  return found != nullptr && found->kernel != nullptr ? found : nullptr;
}

std::shared_ptr<const backends::Kernel> LateKernels::find_or_make(const backends::Device& device,
                                                                  const ops::NodeView& view,
                                                                  std::span<const ir::ValueType> types) {
  const std::string key = key_of(view, !types.empty());
  // The entry lives as long as its kernel is used.
  const auto kernel_of = [](const std::shared_ptr<const LateKernel>& entry) {
    return entry->kernel != nullptr ? std::shared_ptr<const backends::Kernel>(entry, entry->kernel.get()) : nullptr;
  };
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = find(key)) return kernel_of(found);
  }
  // Made without the lock, so that other runs of the step go on. Two of them may make the same.
  const std::shared_ptr<const LateKernel> made = make(device, view, key, types);
  const std::lock_guard lock(mutex_);
  ++made_;
  if (const auto found = find(key)) return kernel_of(found);
  entries_.push_front(made);
  if (entries_.size() > kMostKernels) entries_.pop_back();
  return kernel_of(made);
}

std::int64_t LateKernels::made() const {
  const std::lock_guard lock(mutex_);
  return made_;
}

}  // namespace tessera::runtime
