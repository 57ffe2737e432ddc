#include "backends/device_weights.h"

#include <gtest/gtest.h>

#include <cstring>

#include "runtime/memory/weight_store.h"
#include "support/expect_error.h"
#include "support/queued_device.h"
#include "support/random_tensor.h"

namespace tessera::test::device_weights_test {
namespace {

using backends::DeviceWeights;

// Counts how often it packs.
class CountingStore final : public backends::WeightStore {
 public:
  std::shared_ptr<const backends::PackedWeights> find_or_pack(const Tensor& weights, std::string_view packing,
                                                              std::int64_t bytes,
                                                              const backends::PackFunction& pack) override {
    ++packed;
    std::shared_ptr<const backends::PackedWeights> result = store_.find_or_pack(weights, packing, bytes, pack);
    last = result;
    return result;
  }
  int packed = 0;
  std::weak_ptr<const backends::PackedWeights> last;

 private:
  runtime::PackAtOnce store_;
};

void copy_elements(const Tensor& from, std::byte* to) {
  std::memcpy(to, from.raw(), static_cast<std::size_t>(from.bytes()));
}

TEST(DeviceWeights, KeepsOnePackingOnTheDeviceAndNoneOnTheHost) {
  const QueuedDevice device;
  CountingStore host;
  DeviceWeights weights(device, host);
  const Tensor constant = random_tensor(DType::f32, {100}, 1), other = random_tensor(DType::f32, {100}, 2);
  const auto packed = weights.find_or_pack(constant, "as_it_is", 400, copy_elements);
  EXPECT_TRUE(device.memory().contains(packed->data.get()));
  EXPECT_EQ(packed->bytes, 400);
  EXPECT_EQ(std::memcmp(packed->data.get(), constant.raw(), 400), 0);  // the queued device's memory is readable
  EXPECT_TRUE(host.last.expired());
  EXPECT_EQ(weights.find_or_pack(constant, "as_it_is", 400, copy_elements), packed);
  EXPECT_EQ(host.packed, 1);
  const auto another = weights.find_or_pack(other, "as_it_is", 400, copy_elements);
  EXPECT_NE(another->data, packed->data);
  EXPECT_EQ(weights.size(), 2);
  EXPECT_EQ(device.memory().in_use_bytes(), 800);
}

TEST(DeviceWeights, FreesAndReleasesWhatNobodyUses) {
  const QueuedDevice device;
  runtime::PackAtOnce host;
  std::int64_t charged = 0;
  DeviceWeights weights(device, host, [&charged](std::int64_t bytes) {
    require(charged + bytes <= 500, ErrorKind::over_budget, "no more than 500 bytes");
    charged += bytes;
    return std::shared_ptr<void>(&charged, [bytes](void* all) { *static_cast<std::int64_t*>(all) -= bytes; });
  });
  const Tensor constant = random_tensor(DType::f32, {100}, 1), other = random_tensor(DType::f32, {100}, 2);
  auto packed = weights.find_or_pack(constant, "as_it_is", 400, copy_elements);
  EXPECT_EQ(charged, 400);
  expect_error(ErrorKind::over_budget, "no more than 500 bytes",
               [&] { weights.find_or_pack(other, "as_it_is", 400, copy_elements); });
  packed.reset();
  EXPECT_EQ(charged, 0);
  EXPECT_EQ(device.memory().in_use_bytes(), 0);
  packed = weights.find_or_pack(other, "as_it_is", 400, copy_elements);
  EXPECT_EQ(charged, 400);
  EXPECT_EQ(weights.size(), 1);
}

}  // namespace
}  // namespace tessera::test::device_weights_test
