#include "backends/simulated/memory_checker.h"

#include <gtest/gtest.h>

#include <functional>

#include "backends/backend_table.h"
#include "backends/simulated/simulated_device.h"
#include "support/device_call.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"

namespace tessera::test::memory_checker_test {
namespace {

const backends::Device& new_device(const std::string& options = "") {
  static int number = 1900;
  return backends::find_device("simulated:h100-sxm,number=" + std::to_string(number++) + options);
}

// A device with a block of a kilobyte, two streams and an event.
struct Fixture {
  explicit Fixture(const std::string& options = "") : device(new_device(options)) {}
  const backends::Device& device;
  backends::DeviceMemory& memory = device.memory();
  std::byte* block = static_cast<std::byte*>(memory.allocate(1024));
  std::unique_ptr<backends::Stream> first = device.make_stream(), second = device.make_stream();
  std::unique_ptr<backends::Event> event = device.make_event();
};

void expect_fault(const std::string& message, const std::function<void()>& call) {
  expect_error_containing(ErrorKind::failed, message, call);
}

TEST(MemoryChecker, FindsWritesThatNothingOrders) {
  Fixture f;
  f.first->fill(f.block, std::byte{1}, 1024);
  expect_fault("'fill' writes memory that 'fill' of another stream writes, and no event orders the two",
               [&] { f.second->fill(f.block + 1000, std::byte{2}, 24); });
  expect_fault("'copy within' reads memory that 'fill' of another stream writes",
               [&] { f.second->copy_within(f.memory.allocate(16), f.block, 16); });
}

TEST(MemoryChecker, FindsWritesOverWhatIsRead) {
  Fixture f;
  std::byte* const target = static_cast<std::byte*>(f.memory.allocate(1024));
  f.first->copy_within(target, f.block, 512);
  f.second->fill(f.block + 512, std::byte{2}, 512);   // beside what is read
  f.second->copy_within(target + 512, f.block, 512);  // two may read
  expect_fault("'fill' writes memory that 'copy within' of another stream reads",
               [&] { f.second->fill(f.block + 511, std::byte{2}, 1); });
}

TEST(MemoryChecker, EventsOrderWorkOfTwoStreams) {
  Fixture f;
  f.first->fill(f.block, std::byte{1}, 1024);
  f.first->record(*f.event);
  f.second->wait(*f.event);
  f.second->fill(f.block, std::byte{2}, 1024);
  expect_fault("no event orders the two", [&] { f.first->fill(f.block, std::byte{3}, 1); });
  f.second->record(*f.event);
  f.first->wait(*f.event);
  f.first->fill(f.block, std::byte{3}, 1);
}

TEST(MemoryChecker, EventsOrderByWayOfAThirdStream) {
  Fixture f;
  const auto third = f.device.make_stream();
  const auto passed_on = f.device.make_event();
  f.first->fill(f.block, std::byte{1}, 1024);
  f.first->record(*f.event);
  third->wait(*f.event);
  third->record(*passed_on);
  f.first->fill(f.block + 512, std::byte{1}, 512);  // after the event
  f.second->wait(*passed_on);
  f.second->fill(f.block, std::byte{2}, 512);
  expect_fault("no event orders the two", [&] { f.second->fill(f.block + 512, std::byte{2}, 1); });
}

TEST(MemoryChecker, WaitsOfTheHostOrderWork) {
  for (const bool by_event : {false, true}) {
    Fixture f;
    f.first->fill(f.block, std::byte{1}, 1024);
    f.first->record(*f.event);
    if (by_event) f.event->wait();
    else f.first->synchronise();
    f.second->fill(f.block, std::byte{2}, 1024);
    f.second->synchronise();
  }
}

TEST(MemoryChecker, StreamsThatAreGoneAreInNobodysWay) {
  Fixture f;
  f.first->fill(f.block, std::byte{1}, 1024);
  f.first.reset();
  f.second->fill(f.block, std::byte{2}, 1024);
}

TEST(MemoryChecker, ReplaysAreOrderedLikeTheirWork) {
  Fixture f;
  f.first->begin_capture();
  f.first->fill(f.block, std::byte{1}, 512);
  f.first->record(*f.event);
  f.second->wait(*f.event);
  f.second->fill(f.block + 512, std::byte{1}, 512);
  f.second->record(*f.event);
  f.first->wait(*f.event);
  const auto recording = f.first->end_capture();
  recording->replay(*f.first);
  f.first->fill(f.block, std::byte{2}, 1024);
  expect_fault("'fill' writes memory that 'fill' of another stream writes", [&] { recording->replay(*f.second); });
}

TEST(MemoryChecker, ForkThatDoesNotWaitIsARace) {
  Fixture f;
  const auto forked = f.device.make_event();
  f.first->begin_capture();
  f.first->record(*forked);
  f.second->wait(*forked);
  f.first->fill(f.block, std::byte{1}, 1024);
  f.second->fill(f.block, std::byte{2}, 1024);
  f.second->record(*f.event);
  f.first->wait(*f.event);
  const auto recording = f.first->end_capture();
  expect_fault("no event orders the two", [&] { recording->replay(*f.first); });
}

TEST(MemoryChecker, KernelsAreOrderedLikeCopies) {
  const backends::Device& device = new_device();
  const DeviceCall call(device, {"Neg", {random_tensor(DType::f32, {16}, 1)}, {}, 1});
  const auto first = device.make_stream(), second = device.make_stream();
  call.copy_inputs(*first);
  expect_fault("'Neg' reads memory that 'copy to device' of another stream writes", [&] { call.enqueue(*second); });
  call.enqueue(*first);
  expect_fault("'copy to host' reads memory that 'Neg' of another stream writes", [&] { call.copy_outputs(*second); });
  first->synchronise();
}

TEST(MemoryChecker, FindsMemoryThatIsNotAllocated) {
  Fixture f;
  expect_fault("'fill' writes 1025 bytes of device memory that are not allocated, or not any more",
               [&] { f.first->fill(f.block, std::byte{1}, 1025); });
  f.memory.free(f.block);
  expect_fault("'fill' writes 1 bytes of device memory", [&] { f.first->fill(f.block, std::byte{1}, 1); });
  float number = 0;
  expect_fault("'copy to host' reads 4 bytes of device memory", [&] { f.first->copy_to_host(&number, f.block, 4); });
}

TEST(MemoryChecker, FindsUseAfterAFreeInStreamOrder) {
  Fixture f;
  f.first->fill(f.block, std::byte{1}, 1024);
  f.memory.free(f.block, f.first.get());
  expect_fault("not allocated, or not any more", [&] { f.first->fill(f.block, std::byte{1}, 1); });
}

TEST(MemoryChecker, MemoryOfAStreamIsNotForOthers) {
  Fixture f;
  void* const own = f.memory.allocate(64, f.first.get());
  f.first->fill(own, std::byte{1}, 64);
  Fixture g;
  void* const other = g.memory.allocate(64, g.first.get());
  expect_fault("'fill' writes memory that 'allocation' of another stream writes",
               [&] { g.second->fill(other, std::byte{1}, 64); });
}

// A free cannot throw: whoever waits next learns of the fault.
TEST(MemoryChecker, FindsFreesOfMemoryInUse) {
  Fixture f;
  f.first->fill(f.block, std::byte{1}, 1024);
  f.memory.free(f.block);
  expect_fault("device memory was freed that 'fill' may still use: the host has not waited for it",
               [&] { f.first->synchronise(); });
  f.first->synchronise();
  Fixture g;
  g.first->fill(g.block, std::byte{1}, 1024);
  g.memory.free(g.block, g.second.get());
  expect_fault("device memory was freed that 'fill' may still use: no event orders it before the free",
               [&] { g.first->fill(g.memory.allocate(16), std::byte{1}, 16); });
}

TEST(MemoryChecker, FindsOperandsThatAreNotAligned) {
  const backends::Device& device = new_device();
  const OpCall call{"Neg", {random_tensor(DType::f32, {16}, 1)}, {}, 1};
  const DeviceCall prepared(device, call, {}, 2);
  const auto stream = device.make_stream();
  expect_fault("input 0 of 'Neg' does not begin at a multiple of the size of its elements, f32",
               [&] { prepared.enqueue(*stream); });
}

TEST(MemoryChecker, IsLeftOutOnDemand) {
  Fixture f(",check=none");
  f.first->fill(f.block, std::byte{1}, 1024);
  f.second->fill(f.block, std::byte{2}, 1024);
  f.second->synchronise();
}

}  // namespace
}  // namespace tessera::test::memory_checker_test
