// Rules of memory, each with the sentence of the CUDA Driver API manual (13.0) that states it.
#include <cstring>

#include "driver/fixture.h"

namespace tessera::cuda::driver {
namespace {

class SimulatedMemory : public SimulatedDriver {};

// cuMemCreate: "The size of this allocation must be a multiple of the the value given via
// cuMemGetAllocationGranularity".
TEST_F(SimulatedMemory, AllocationsHaveAGranularity) {
  const AllocationProperties device = properties();
  std::size_t step = 0;
  ASSERT_EQ(api().cuMemGetAllocationGranularity(&step, &device, kMinimumGranularity), kSuccess);
  EXPECT_EQ(step, kStep);
  AllocationHandle handle = 0;
  EXPECT_EQ(api().cuMemCreate(&handle, step + 4096, &device, 0), kInvalidValue);
  EXPECT_EQ(api().cuMemCreate(&handle, 3 * step, &device, 0), kSuccess);
  EXPECT_EQ(api().cuMemRelease(handle), kSuccess);
}

// CUDA_ERROR_OUT_OF_MEMORY: "The API call failed because it was unable to allocate enough memory".
TEST_F(SimulatedMemory, TheCapacityIsThatOfTheProfile) {
  const AllocationProperties device = properties();
  std::size_t free = 0, total = 0;
  const AllocationHandle first = allocation(40 << 20);
  ASSERT_EQ(api().cuMemGetInfo(&free, &total), kSuccess);
  EXPECT_EQ(total, std::size_t{64} << 20);
  EXPECT_EQ(free, std::size_t{24} << 20);
  AllocationHandle second = 0;
  EXPECT_EQ(api().cuMemCreate(&second, 26 << 20, &device, 0), kOutOfMemory);
  EXPECT_EQ(api().cuMemRelease(first), kSuccess);
  EXPECT_EQ(api().cuMemCreate(&second, 26 << 20, &device, 0), kSuccess);
  EXPECT_EQ(api().cuMemRelease(second), kSuccess);
  EXPECT_EQ(control().counters().allocations, 0u);
}

// cuMemMap: "Please note calling cuMemMap does not make the address accessible, the caller needs to update
// accessibility of a contiguous mapped VA range by calling cuMemSetAccess."
TEST_F(SimulatedMemory, MappedMemoryIsNotAccessibleAtFirst) {
  const DeviceAddress address = reservation(kStep);
  ASSERT_EQ(api().cuMemMap(address, kStep, 0, allocation(kStep), 0), kSuccess);
  const StreamHandle queue = stream();
  ASSERT_EQ(api().cuMemsetD8Async(address, 1, 16, queue), kSuccess);
  EXPECT_EQ(api().cuStreamSynchronize(queue), kIllegalAddress);
  // CUDA_ERROR_ILLEGAL_ADDRESS: "This leaves the process in an inconsistent state and any further CUDA work will return
  // the same error."
  EXPECT_EQ(api().cuMemsetD8Async(address, 1, 16, queue), kIllegalAddress);
  EventHandle event = nullptr;
  EXPECT_EQ(api().cuEventCreate(&event, 0), kIllegalAddress);
}

// cuMemMap: "cuMemMap can only create mappings on VA range reservations that are not currently mapped."
TEST_F(SimulatedMemory, MapsOnlyFreeReservations) {
  const DeviceAddress address = reservation(2 * kStep);
  const AllocationHandle handle = allocation(2 * kStep);
  EXPECT_EQ(api().cuMemMap(address + kStep, kStep, 0, handle, 0), kSuccess);
  EXPECT_EQ(api().cuMemMap(address, 2 * kStep, 0, handle, 0), kInvalidValue);
  EXPECT_EQ(api().cuMemMap(address + kStep, kStep, 0, handle, 0), kInvalidValue);
  EXPECT_EQ(api().cuMemMap(address + 2 * kStep, kStep, 0, handle, 0), kInvalidValue);
  // "Note: currently [offset] must be zero."
  EXPECT_EQ(api().cuMemMap(address, kStep, kStep, handle, 0), kInvalidValue);
  EXPECT_EQ(api().cuMemMap(address, kStep, 0, handle, 0), kSuccess);
  // cuMemUnmap: "cuMemUnmap cannot unmap a sub-range of an address range mapped by cuMemCreate / cuMemMap."
  EXPECT_EQ(api().cuMemUnmap(address, kStep / 2), kInvalidValue);
  // cuMemAddressFree: "The size must match what was given to memAddressReserve".
  EXPECT_EQ(api().cuMemAddressFree(address, 2 * kStep), kInvalidValue);  // mapped
  EXPECT_EQ(api().cuMemUnmap(address, kStep), kSuccess);
  EXPECT_EQ(api().cuMemUnmap(address + kStep, kStep), kSuccess);
  EXPECT_EQ(api().cuMemAddressFree(address, kStep), kInvalidValue);
  EXPECT_EQ(api().cuMemAddressFree(address, 2 * kStep), kSuccess);
  EXPECT_EQ(api().cuMemRelease(handle), kSuccess);
}

// cuMemRelease: "The generic memory handle can be freed when there are still outstanding mappings made with this
// handle." "The memory allocation will be freed when all outstanding mappings to the memory are unmapped and when all
// outstanding references to the handle [...] are also released."
TEST_F(SimulatedMemory, MappingsKeepAnAllocation) {
  const DeviceAddress address = memory();
  std::size_t free = 0, total = 0;
  ASSERT_EQ(api().cuMemGetInfo(&free, &total), kSuccess);
  EXPECT_EQ(free, total - kStep);
  EXPECT_EQ(api().cuMemUnmap(address, kStep), kSuccess);
  ASSERT_EQ(api().cuMemGetInfo(&free, &total), kSuccess);
  EXPECT_EQ(free, total);
  EXPECT_EQ(api().cuMemAddressFree(address, kStep), kSuccess);
}

// cuMemUnmap: "Any new mapping to this virtual address will need to have access granted through cuMemSetAccess, as all
// mappings start with no accessibility setup." One allocation may be mapped at two addresses.
TEST_F(SimulatedMemory, AllocationsKeepTheirBytesOverMappings) {
  const AllocationHandle handle = allocation(kStep);
  const DeviceAddress a = reservation(kStep), b = reservation(kStep);
  ASSERT_EQ(api().cuMemMap(a, kStep, 0, handle, 0), kSuccess);
  ASSERT_EQ(api().cuMemMap(b, kStep, 0, handle, 0), kSuccess);
  ASSERT_EQ(set_access(a, kStep), kSuccess);
  ASSERT_EQ(set_access(b, kStep, 1), kSuccess);  // reads
  const StreamHandle queue = stream();
  ASSERT_EQ(api().cuMemsetD8Async(a, 1, kStep, queue), kSuccess);
  EXPECT_EQ(value_at(b, queue), 0x01010101);
  ASSERT_EQ(api().cuMemsetD8Async(b, 2, kStep, queue), kSuccess);
  EXPECT_EQ(api().cuStreamSynchronize(queue), kIllegalAddress);
}

// A host cannot dereference device addresses.
TEST_F(SimulatedMemory, DeviceAddressesAreNotTheHosts) {
  const DeviceAddress address = memory();
  const StreamHandle queue = stream();
  ASSERT_EQ(api().cuMemsetD8Async(address, 1, kStep, queue), kSuccess);
  ASSERT_EQ(api().cuStreamSynchronize(queue), kSuccess);
  EXPECT_DEATH(std::memset(reinterpret_cast<void*>(address), 0, 4), "");
}

// The planted mistake: memory is unmapped while a copy from it waits.
TEST_F(SimulatedMemory, ACopyFromUnmappedMemoryIsFound) {
  const DeviceAddress from = memory(), to = memory();
  const StreamHandle queue = stream();
  ASSERT_EQ(api().cuMemcpyDtoDAsync(to, from, kStep, queue), kSuccess);
  ASSERT_EQ(api().cuMemUnmap(from, kStep), kSuccess);
  EXPECT_EQ(api().cuStreamSynchronize(queue), kIllegalAddress);
  EXPECT_THAT(control().last_fault(), testing::HasSubstr("not mapped"));
}

// The planted mistake: pinned memory is freed while a copy from it waits.
TEST_F(SimulatedMemory, ACopyFromFreedPinnedMemoryIsFound) {
  const DeviceAddress to = memory();
  int* const from = pinned<int>(4);
  const StreamHandle queue = stream();
  ASSERT_EQ(api().cuMemcpyHtoDAsync(to, from, 16, queue), kSuccess);
  ASSERT_EQ(api().cuMemFreeHost(from), kSuccess);
  pinned<int>(4);  // perhaps at the same address
  EXPECT_EQ(api().cuStreamSynchronize(queue), kIllegalAddress);
  EXPECT_THAT(control().last_fault(), testing::HasSubstr("pinned memory that was freed"));
}

// What cuMemCreate gives is undefined: it holds not-a-number.
TEST_F(SimulatedMemory, FreshMemoryIsPoisoned) {
  EXPECT_EQ(value_at(memory(), stream()), -1);
}

}  // namespace
}  // namespace tessera::cuda::driver
