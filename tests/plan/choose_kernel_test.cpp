#include "plan/choose_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/device_properties.h"
#include "ops/op_table.h"
#include "runtime/memory/weight_store.h"

namespace tessera::test::choose_kernel_test {
namespace {

using backends::DeviceProperties;
using backends::KernelEntry;
using testing::ElementsAre;

std::string reject_before_9_0(const ops::NodeView&, const DeviceProperties& device) {
  return device.compute_capability < backends::ComputeCapability{9, 0} ? "needs compute capability 9.0" : "";
}
std::string avoid_small_devices(const ops::NodeView& view, const DeviceProperties& device) {
  return view.input(0).elements() / 1024 < device.multiprocessors ? "too few blocks for the device" : "";
}

class Scaled final : public backends::Kernel {
 public:
  explicit Scaled(int blocks) : blocks_(blocks) {}
  std::int64_t scratch_bytes() const override { return blocks_; }
  void run(backends::KernelContext&) const override {}

 private:
  const int blocks_;
};
backends::KernelPointer make_scaled(const ops::NodeView&, backends::WeightStore&, const DeviceProperties& device) {
  return std::make_unique<Scaled>(device.multiprocessors);
}

class SizedDevice final : public backends::Device {
 public:
  explicit SizedDevice(DeviceProperties properties) : properties_(std::move(properties)) {}
  std::string_view name() const override { return "sized"; }
  const DeviceProperties& properties() const override { return properties_; }
  std::span<const KernelEntry* const> kernels_for(std::string_view) const override { return pointers_; }

 private:
  DeviceProperties properties_;
  KernelEntry entries_[3] = {{.op = "Neg", .name = "newest", .reject_on = reject_before_9_0, .create_on = make_scaled},
                             {.op = "Neg", .name = "large", .avoid_on = avoid_small_devices, .create_on = make_scaled},
                             {.op = "Neg", .name = "any", .create_on = make_scaled}};
  const KernelEntry* pointers_[3] = {&entries_[0], &entries_[1], &entries_[2]};
};

TEST(ChooseKernel, SeesTheDevicesProperties) {
  const SizedDevice newest({.compute_capability = {9, 0}, .multiprocessors = 132});
  const SizedDevice small({.compute_capability = {7, 5}, .multiprocessors = 40});
  const SizedDevice large({.compute_capability = {8, 0}, .multiprocessors = 108});
  ir::Node node{"Neg", "under_test", {ir::ValueId{0}}, {ir::ValueId{1}}, {}, 0};
  const std::vector<ops::TensorType> types{{DType::f32, {64 * 1024}}};
  const std::vector<const Tensor*> constants{nullptr};
  const ops::NodeView view(node, ops::op_of(node), types, types, constants);
  EXPECT_EQ(plan::choose_kernel(newest, view).entry->name, "newest");
  EXPECT_EQ(plan::choose_kernel(small, view).entry->name, "large");
  const plan::KernelChoice choice = plan::choose_kernel(large, view);
  EXPECT_EQ(choice.entry->name, "any");
  EXPECT_THAT(choice.rejected,
              ElementsAre("newest: needs compute capability 9.0", "large: too few blocks for the device"));
  runtime::PackAtOnce weights;
  EXPECT_EQ(large.make_kernel(*choice.entry, view, weights)->scratch_bytes(), 108);
}

}  // namespace
}  // namespace tessera::test::choose_kernel_test
