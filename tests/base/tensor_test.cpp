#include "tessera/tensor.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "support/expect_error.h"

namespace tessera::test::tensor_test {
namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

TEST(Tensor, CountsElementsAndBytes) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({kLargest, 0, kLargest}), 0);
  EXPECT_EQ(byte_count(DType::u4, {3, 3}), 5);
  EXPECT_EQ(byte_count(DType::i2, {5}), 2);
  EXPECT_EQ(byte_count(DType::c128, {2}), 32);
  expect_error_containing(ErrorKind::over_budget, "shape [4294967296, 4294967296] has too many elements",
                          [] { element_count({1LL << 32, 1LL << 32}); });
  expect_error_containing(ErrorKind::invalid_argument, "negative dimension -1 in shape [0, -1]",
                          [] { element_count({0, -1}); });
  expect_error_containing(ErrorKind::over_budget, "size overflow", [] { byte_count(DType::f64, {kLargest / 4}); });
}

TEST(Tensor, HoldsValues) {
  const Tensor tensor = Tensor::from<float>({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(tensor.dtype(), DType::f32);
  EXPECT_EQ(tensor.bytes(), 16);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.raw()) % 64, 0U);
  EXPECT_EQ(tensor.values<float>()[3], 4.0f);
  expect_error_containing(ErrorKind::invalid_argument, "tensor holds f32, not i32",
                          [&] { tensor.data<std::int32_t>(); });
  expect_error_containing(ErrorKind::invalid_argument, "3 values given for shape [2]",
                          [] { Tensor::from<float>({2}, {1, 2, 3}); });
}

// Sanitizers need allocator_may_return_null=1 for it.
TEST(Tensor, RefusesWhatCannotBeHad) {
  expect_error_containing(ErrorKind::over_budget, "cannot allocate", [] { Tensor(DType::u8, {kLargest}); });
  expect_error_containing(ErrorKind::over_budget, "cannot allocate",
                          [] { Tensor(DType::u8, {std::int64_t{1} << 61}); });
  expect_error_containing(ErrorKind::over_budget, "cannot allocate",
                          [] { Tensor(DType::string, {std::int64_t{1} << 56}); });
}

TEST(Tensor, SharesClonesAndReshapes) {
  const Tensor a = Tensor::from<std::string>({2}, {"a", "b"});
  const Tensor view = a.reshaped({2, 1});
  EXPECT_TRUE(view.shares_storage_with(a));
  Tensor copy = a.clone();
  EXPECT_FALSE(copy.shares_storage_with(a));
  EXPECT_TRUE(identical(copy, a));
  copy.mutable_data<std::string>()[1] = "c";
  EXPECT_FALSE(identical(copy, a));
  EXPECT_FALSE(identical(view, a));
  expect_error_containing(ErrorKind::invalid_argument, "cannot view shape [2] as [3]", [&] { a.reshaped({3}); });
  EXPECT_FALSE(Tensor().clone().has_value());
}

TEST(Tensor, ViewsKeepTheirOwnerAlive) {
  auto bytes = std::make_shared<std::vector<float>>(3, 2.0f);
  std::weak_ptr<std::vector<float>> watched = bytes;
  Tensor view(DType::f32, {3}, bytes->data(), bytes);
  bytes.reset();
  Tensor copy = view;
  view = {};
  EXPECT_FALSE(watched.expired());
  EXPECT_EQ(copy.data<float>()[2], 2.0f);
  copy = {};
  EXPECT_TRUE(watched.expired());
}

TEST(Tensor, DeferredElementsAreComputedWhenTheyAreRead) {
  int fills = 0;
  const Tensor a = Tensor::deferred(DType::f32, {2, 3}, [&](void* to) {
    ++fills;
    std::iota(static_cast<float*>(to), static_cast<float*>(to) + 6, 0.0f);
  });
  const Tensor view = a.reshaped({6});
  EXPECT_TRUE(a.has_data() && a.is_deferred());
  EXPECT_EQ(a.bytes(), 24);
  EXPECT_TRUE(view.shares_storage_with(a));
  EXPECT_FALSE(a.shares_storage_with(a.clone().reshaped({6})));
  EXPECT_EQ(fills, 1);
  EXPECT_FALSE(view.is_deferred());  // clone() read it
  EXPECT_EQ(view.values<float>()[5], 5.0f);
  EXPECT_EQ(view.contents().raw(), a.raw());
  EXPECT_EQ(view.contents().shape(), Shape{6});
  EXPECT_EQ(fills, 1);
  expect_error_containing(ErrorKind::invalid_argument, "strings",
                          [] { Tensor::deferred(DType::string, {1}, [](void*) {}); });
  EXPECT_FALSE(Tensor(DType::f32, {1}, nullptr, nullptr).has_data());
}

TEST(Tensor, ContentsOfADeferredTensorGoWithWhoAskedForThem) {
  int fills = 0;
  const Tensor a =
      Tensor::deferred(DType::i32, {}, [&](void* to) { *static_cast<std::int32_t*>(to) = 7 + 0 * ++fills; });
  const void* storage = a.storage();
  EXPECT_EQ(a.contents().values<std::int32_t>()[0], 7);
  EXPECT_EQ(a.contents().values<std::int32_t>()[0], 7);
  EXPECT_EQ(fills, 2);
  EXPECT_TRUE(a.is_deferred());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([a] { EXPECT_EQ(a.values<std::int32_t>()[0], 7); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fills, 3);
  EXPECT_EQ(a.storage(), storage);
}

TEST(Tensor, IdenticalComparesBits) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(identical(Tensor::scalar(nan), Tensor::scalar(nan)));
  EXPECT_FALSE(identical(Tensor::scalar(0.0f), Tensor::scalar(-0.0f)));
  EXPECT_FALSE(identical(Tensor::scalar(std::int32_t{0}), Tensor::scalar(0.0f)));
}

TEST(Tensor, IdenticalIgnoresWhatALastByteLeavesOver) {
  std::uint8_t a[] = {0x21, 0x03}, b[] = {0x21, 0x53}, c[] = {0x21, 0x04};
  const Tensor first(DType::u4, {3}, a, nullptr);
  EXPECT_TRUE(identical(first, Tensor(DType::u4, {3}, b, nullptr)));
  EXPECT_FALSE(identical(first, Tensor(DType::u4, {3}, c, nullptr)));
  EXPECT_FALSE(identical(Tensor(DType::u4, {4}, a, nullptr), Tensor(DType::u4, {4}, b, nullptr)));
}

TEST(Value, HasOneKind) {
  const Value map = Value::map(Tensor::from<std::int64_t>({2}, {1, 2}), {Tensor::scalar(1.0f), Tensor::scalar(2.0f)});
  EXPECT_EQ(map.elements().size(), 2U);
  EXPECT_EQ(map.keys().elements(), 2);
  EXPECT_FALSE(Value().has_value());
  EXPECT_TRUE(Value::sequence({}).elements().empty());
  expect_error_containing(ErrorKind::invalid_argument, "the value is not a tensor", [&] { map.tensor(); });
  expect_error_containing(ErrorKind::invalid_argument, "the value is not a map",
                          [&] { Value(Tensor::scalar(1.0f)).keys(); });
  expect_error_containing(ErrorKind::invalid_argument, "one key a value is needed",
                          [] { Value::map(Tensor::scalar(std::int64_t{1}), {}); });
}

TEST(Value, MapsFindTheirKeys) {
  const std::vector<Value> values{Tensor::scalar(1.0f), Tensor::scalar(2.0f)};
  const Value numbered = Value::map(Tensor::from<std::int64_t>({2}, {7, -1}), values);
  EXPECT_EQ(*numbered.find(-1)->tensor().data<float>(), 2.0f);
  EXPECT_EQ(numbered.find(3), nullptr);
  const Value named = Value::map(Tensor::from<std::string>({2}, {"b", "a"}), values);
  EXPECT_EQ(*named.find("b")->tensor().data<float>(), 1.0f);
  expect_error_containing(ErrorKind::invalid_argument, "tensor holds string, not i64", [&] { named.find(1); });
  expect_error_containing(ErrorKind::invalid_argument, "a map holds key 'a' twice",
                          [&] { Value::map(Tensor::from<std::string>({2}, {"a", "a"}), values); });
  expect_error_containing(ErrorKind::invalid_argument, "the keys of a map are f32, expected i64 or string",
                          [&] { Value::map(Tensor::from<float>({2}, {1, 2}), values); });
}

}  // namespace
}  // namespace tessera::test::tensor_test
