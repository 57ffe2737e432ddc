#include "backends/device_copies.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/queued_device.h"
#include "support/random_tensor.h"

namespace tessera::backends::device_copies_test {
namespace {

TEST(DeviceCopies, KeepsOneCopyForAsLongAsSomebodyHoldsIt) {
  const test::QueuedDevice device;
  DeviceCopies copies(device);
  const Tensor weights = test::random_tensor(DType::u8, {1000}, 1, 0, 255);
  std::shared_ptr<void> first = copies.find_or_copy(weights);
  std::shared_ptr<void> second = copies.find_or_copy(weights);
  EXPECT_EQ(first, second);
  EXPECT_EQ(device.counts().to_device, 1);
  EXPECT_EQ(device.memory().in_use_bytes(), 1000);
  EXPECT_EQ(std::memcmp(first.get(), weights.raw(), 1000), 0);
  EXPECT_EQ(copies.size(), 1);
  first.reset();
  second.reset();
  EXPECT_EQ(device.memory().in_use_bytes(), 0);
  EXPECT_EQ(copies.size(), 0);
}

// The start of a tensor is at the same address as the whole.
TEST(DeviceCopies, TellsPartsFromTheWhole) {
  const test::QueuedDevice device;
  DeviceCopies copies(device);
  const Tensor whole = Tensor::from<float>({4}, {1, 2, 3, 4});
  const Tensor part(DType::f32, {2}, const_cast<void*>(whole.raw()), whole.owner());
  const std::shared_ptr<void> first = copies.find_or_copy(part), second = copies.find_or_copy(whole);
  EXPECT_NE(first, second);
  EXPECT_EQ(std::memcmp(second.get(), whole.raw(), 16), 0);
}

TEST(DeviceCopies, KeepsNoElementsOfDeferredTensorsOnTheHost) {
  const test::QueuedDevice device;
  DeviceCopies copies(device);
  int fills = 0;
  const Tensor deferred = Tensor::deferred(DType::f32, {3}, [&](void* to) {
    ++fills;
    const float values[] = {1, 2, 3};
    std::memcpy(to, values, sizeof(values));
  });
  const std::shared_ptr<void> first = copies.find_or_copy(deferred), second = copies.find_or_copy(deferred);
  EXPECT_EQ(first, second);
  EXPECT_EQ(fills, 1);
  EXPECT_TRUE(deferred.is_deferred());
  EXPECT_EQ(static_cast<const float*>(first.get())[2], 3.0f);
}

TEST(DeviceCopies, BeginsCopiesByGroups) {
  const test::QueuedDevice device;
  std::vector<std::vector<DeviceCopy>> found;
  const Tensor a = Tensor::from<float>({2}, {1, 2}), b = Tensor::from<float>({3}, {3, 4, 5});
  {
    DeviceCopies copies(device);
    const std::shared_ptr<void> known = copies.find_or_copy(a);
    const std::vector<std::vector<Tensor>> groups{{a, b}, {b}};
    found = copies.find_or_begin(groups);
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0][0].address, known);
    EXPECT_EQ(found[0][0].arrived, nullptr);
    EXPECT_EQ(found[0][1].address, found[1][0].address);
    ASSERT_NE(found[0][1].arrived, nullptr);
    EXPECT_EQ(found[0][1].arrived, found[1][0].arrived);
    EXPECT_EQ(copies.find_or_copy(b), found[0][1].address);  // complete when it returns
    EXPECT_EQ(std::memcmp(found[0][1].address.get(), b.raw(), 12), 0);
    EXPECT_EQ(device.counts().to_device, 2);
  }
  found.clear();
  EXPECT_EQ(device.memory().in_use_bytes(), 0);
}

}  // namespace
}  // namespace tessera::backends::device_copies_test
