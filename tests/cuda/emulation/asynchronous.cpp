// Copies that land later: cp.async by thread, bulk and tile copies by barrier objects in shared memory.
#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>

#include "emulation/ptx.h"

namespace tessera::emulation {
namespace {

std::string bytes_text(unsigned bytes) {
  return std::to_string(bytes) + " bytes";
}

void check_aligned(const char* name, const void* address, unsigned alignment, Site site) {
  if (reinterpret_cast<std::uintptr_t>(address) % alignment != 0) {
    Block::current().fault(std::string(name) + " of an address that is no multiple of " + bytes_text(alignment), site);
  }
}

void check_shared(const char* name, const void* address, unsigned bytes, Site site) {
  Block& block = Block::current();
  if (block.shared().holds(address, bytes)) return;
  block.fault(std::string(name) + " of " + bytes_text(bytes) + " outside every object of shared memory", site);
}

// Reads the first and last byte, so that a guard page is hit where the copy was asked for.
void probe(const void* global, unsigned bytes) {
  if (bytes == 0) return;
  const auto* data = static_cast<const volatile std::uint8_t*>(global);
  (void)data[0];
  (void)data[bytes - 1];
}

// The barrier moves to its next phase when nothing is missing from this one.
void advance(PhaseBarrier& barrier) {
  if (barrier.pending != 0 || barrier.transactions != 0) return;
  barrier.pending = barrier.expected;
  barrier.phase ^= 1;
}

void complete_bytes(std::uint32_t offset, unsigned bytes) {
  for (PhaseBarrier& barrier : Block::current().phase_barriers()) {
    if (barrier.offset != offset) continue;
    barrier.transactions -= bytes;
    advance(barrier);
  }
}

}  // namespace

void issue_copy(void* shared, const void* global, unsigned bytes, unsigned source_bytes, Site site) {
  const sanitizers::Unwatched unwatched;
  Block& block = Block::current();
  check_shared("cp.async", shared, bytes, site);
  check_aligned("cp.async", shared, bytes, site);
  check_aligned("cp.async", global, bytes, site);
  if (source_bytes > bytes) block.fault("cp.async of " + bytes_text(source_bytes) + " into " + bytes_text(bytes), site);
  probe(global, source_bytes);
  const auto land = [=] {
    const sanitizers::Watched watched;
    if (source_bytes > 0) std::memcpy(shared, global, source_bytes);
    std::memset(static_cast<std::byte*>(shared) + source_bytes, 0, bytes - source_bytes);
  };
  if (block.lands_now()) {
    land();
  } else {
    Block::thread().copies.open.push_back(land);
  }
}

void await_copies(unsigned groups, Site) {
  const sanitizers::Unwatched unwatched;
  Block::thread().copies.wait(groups);
}

cuda::TensorMap encode_tensor_map(const TiledMatrix& matrix) {
  const auto demand = [](bool holds, const char* rule) {
    if (!holds) throw std::invalid_argument(std::string("a tensor map needs ") + rule);
  };
  const std::uint32_t row_bytes = matrix.box_width * matrix.element_bytes;
  demand(matrix.base != 0 && matrix.base % 16 == 0, "a base address that is a multiple of 16");
  demand(matrix.stride_bytes % 16 == 0 && matrix.stride_bytes >= matrix.width * matrix.element_bytes,
         "a row stride that is a multiple of 16 bytes and holds a row");
  demand(matrix.width > 0 && matrix.height > 0, "a matrix that is not empty");
  demand(matrix.box_width >= 1 && matrix.box_width <= 256 && matrix.box_height >= 1 && matrix.box_height <= 256,
         "a box of 1 to 256 elements each way");
  demand(row_bytes % 16 == 0, "box rows of a multiple of 16 bytes");
  demand(matrix.swizzle_bytes == 0 || matrix.swizzle_bytes == 32 || matrix.swizzle_bytes == 64 ||
             matrix.swizzle_bytes == 128,
         "a swizzle of 0, 32, 64 or 128 bytes");
  demand(matrix.swizzle_bytes == 0 || row_bytes <= matrix.swizzle_bytes, "box rows within the span of the swizzle");
  cuda::TensorMap map{};
  static_assert(sizeof(TiledMatrix) <= sizeof map.opaque);
  std::memcpy(map.opaque, &matrix, sizeof matrix);
  return map;
}

TiledMatrix decode_tensor_map(const cuda::TensorMap& map) {
  TiledMatrix matrix;
  std::memcpy(&matrix, map.opaque, sizeof matrix);
  return matrix;
}

std::uint32_t swizzled(std::uint32_t offset, unsigned swizzle_bytes) {
  const std::uint32_t rows = swizzle_bytes / 16;  // 0 where nothing is exchanged
  return rows == 0 ? offset : offset ^ ((offset >> 7 & (rows - 1)) << 4);
}

}  // namespace tessera::emulation

namespace tessera::cuda::ptx {

using namespace emulation;

std::uint32_t to_tf32(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  // To nearest, ties away from zero (PTX: cvt.rna).
  return (bits & 0x7F800000) == 0x7F800000 ? bits : (bits + 0x1000) & 0xFFFFE000u;
}

int dp4a(std::uint32_t a, std::uint32_t b, int c) {
  for (int i = 0; i < 4; ++i) c += static_cast<std::int8_t>(a >> 8 * i) * static_cast<std::int8_t>(b >> 8 * i);
  return c;
}

std::uint32_t shared_address(const void* shared, Site site) {
  Block& block = Block::current();
  if (!block.shared().contains(shared)) block.fault("the address of something outside shared memory", site);
  return block.shared().offset_of(shared);
}

void commit_copies() {
  const sanitizers::Unwatched unwatched;
  Block::thread().copies.commit();
}

void phase_barrier_init(std::uint64_t* address, unsigned arrivals, Site site) {
  const sanitizers::Unwatched unwatched;
  Block& block = Block::current();
  check_aligned("mbarrier.init", address, 8, site);
  check_shared("mbarrier.init", address, 8, site);
  if (arrivals == 0 || arrivals >= 1u << 20)
    block.fault("mbarrier.init for " + std::to_string(arrivals) + " arrivals; 1 to 2^20 - 1 are possible", site);
  const std::uint32_t offset = block.shared().offset_of(address);
  for (const PhaseBarrier& barrier : block.phase_barriers()) {
    if (barrier.offset == offset) block.fault("mbarrier.init of a barrier object that exists", site);
  }
  block.phase_barriers().push_back({offset, arrivals, arrivals, 0, 0});
}

void phase_barrier_arrive(std::uint64_t* address, Site site) {
  const sanitizers::Unwatched unwatched;
  PhaseBarrier& barrier = Block::current().phase_barrier(address, "mbarrier.arrive", site);
  if (barrier.pending == 0) Block::current().fault("mbarrier.arrive, though all arrivals of the phase have come", site);
  sanitizers::release(address);
  --barrier.pending;
  advance(barrier);
}

void phase_barrier_expect(std::uint64_t* address, unsigned bytes, Site site) {
  {
    const sanitizers::Unwatched unwatched;
    Block::current().phase_barrier(address, "mbarrier.arrive.expect_tx", site).transactions += bytes;
  }
  phase_barrier_arrive(address, site);
}

bool phase_barrier_test(std::uint64_t* address, unsigned parity, Site site) {
  const sanitizers::Unwatched unwatched;
  Block& block = Block::current();
  block.phase_barrier(address, "mbarrier.test_wait", site);
  block.yield();
  const bool passed = block.phase_barrier(address, "mbarrier.test_wait", site).phase != (parity & 1);
  if (passed) sanitizers::acquire(address);
  return passed;
}

void phase_barrier_wait(std::uint64_t* address, unsigned parity, Site site) {
  Block& block = Block::current();
  block.phase_barrier(address, "mbarrier.try_wait", site);
  block.wait_until([&block, address, parity,
                    site] { return block.phase_barrier(address, "mbarrier.try_wait", site).phase != (parity & 1); },
                   "mbarrier.try_wait for parity " + std::to_string(parity & 1), site);
  sanitizers::acquire(address);
}

void copy_bulk_async(void* shared, const void* global, unsigned bytes, std::uint64_t* barrier, Site site) {
  const sanitizers::Unwatched unwatched;
  Block& block = Block::current();
  check_aligned("cp.async.bulk", shared, 16, site);
  check_aligned("cp.async.bulk", global, 16, site);
  if (bytes % 16 != 0) block.fault("cp.async.bulk of " + bytes_text(bytes) + ", which is no multiple of 16", site);
  check_shared("cp.async.bulk", shared, bytes, site);
  probe(global, bytes);
  const std::uint32_t offset = block.phase_barrier(barrier, "cp.async.bulk", site).offset;
  block.land_later([=] {
    std::memcpy(shared, global, bytes);
    sanitizers::release(barrier);
    complete_bytes(offset, bytes);
  });
}

void copy_tile_async(void* shared, const TensorMap* map, int x, int y, std::uint64_t* barrier, Site site) {
  const sanitizers::Unwatched unwatched;
  Block& block = Block::current();
  const TiledMatrix matrix = decode_tensor_map(*map);
  const unsigned row_bytes = matrix.box_width * matrix.element_bytes, bytes = row_bytes * matrix.box_height;
  // With a swizzle, 8, 4 or 2 rows of 128 bytes are one pattern, which begins at a multiple of its size.
  check_aligned("cp.async.bulk.tensor", shared, matrix.swizzle_bytes == 0 ? 128 : matrix.swizzle_bytes * 8, site);
  check_shared("cp.async.bulk.tensor", shared, bytes, site);
  const std::uint32_t offset = block.phase_barrier(barrier, "cp.async.bulk.tensor", site).offset;
  const std::uint32_t to = block.shared().offset_of(shared);
  block.land_later([=, &block] {
    for (unsigned row = 0; row < matrix.box_height; ++row) {
      for (unsigned column = 0; column < matrix.box_width; ++column) {
        const std::int64_t from_row = std::int64_t{y} + row, from_column = std::int64_t{x} + column;
        const bool inside = from_row >= 0 && from_column >= 0 && from_row < static_cast<std::int64_t>(matrix.height) &&
                            from_column < static_cast<std::int64_t>(matrix.width);
        std::byte* place =
            block.shared().at(swizzled(to + row * row_bytes + column * matrix.element_bytes, matrix.swizzle_bytes));
        if (inside) {
          const auto from = matrix.base + static_cast<std::uint64_t>(from_row) * matrix.stride_bytes +
                            static_cast<std::uint64_t>(from_column) * matrix.element_bytes;
          std::memcpy(place, reinterpret_cast<const void*>(from), matrix.element_bytes);
        } else {
          std::memset(place, 0, matrix.element_bytes);
        }
      }
    }
    sanitizers::release(barrier);
    complete_bytes(offset, bytes);
  });
}

}  // namespace tessera::cuda::ptx
