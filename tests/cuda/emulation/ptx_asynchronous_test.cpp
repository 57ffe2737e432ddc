// Copies that land later, and the barrier objects that await them. Rules are those of the PTX manual (PTX ISA 9.0).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "backends/cuda/kernels/device_code.h"
#include "emulation/faults.h"

namespace tessera::emulation {
namespace {

using namespace cuda::ptx;
using cuda::static_shared;
using testing::HasSubstr;

std::vector<float> ramp(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

struct alignas(16) Line {
  float values[4];
};

// cp.async: three groups, waited for one by one; each landing shows only then.
void land_by_groups(const float* in, float* out) {
  auto& line = static_shared<Line>();
  for (int i = 0; i < 3; ++i) {
    copy_async<4>(&line.values[i], in + i);
    commit_copies();
  }
  const auto record = [&](int row) {
    for (int i = 0; i < 3; ++i) out[row * 3 + i] = line.values[i];
  };
  record(0);
  wait_copies<2>();
  record(1);
  wait_copies<1>();
  record(2);
  wait_copies<0>();
  record(3);
}

TEST(PtxCopyAsync, LandsAsLateAsTheGroupsAllow) {
  const DeviceBuffer<float> in(ramp(3)), out(12);
  launch(one_block(1), land_by_groups, in.data(), out.data());
  for (std::size_t row = 0; row < 4; ++row) {
    for (std::size_t i = 0; i < 3; ++i) {
      const float value = out.values()[row * 3 + i];
      EXPECT_TRUE(i < row ? value == static_cast<float>(i) : std::isnan(value)) << row << ", " << i;
    }
  }
  launch(one_block(1, 0, Landing::early), land_by_groups, in.data(), out.data());
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(out.values()[i], static_cast<float>(i % 3));
}

void copy_part(const float* in, float* out, unsigned bytes) {
  auto& line = static_shared<Line>();
  copy_async<16>(line.values, in, bytes);
  commit_copies();
  wait_copies<0>();
  for (int i = 0; i < 4; ++i) out[i] = line.values[i];
}

TEST(PtxCopyAsync, FillsWithZerosAndReadsNothingBeyondTheSource) {
  const DeviceBuffer<float> in(ramp(4)), out(4);
  launch(one_block(1), copy_part, in.data(), out.data(), 12u);
  EXPECT_THAT(out.values(), testing::ElementsAre(0, 1, 2, 0));
  launch(one_block(1), copy_part, in.data(), out.data(), 0u);
  EXPECT_THAT(out.values(), testing::ElementsAre(0, 0, 0, 0));
  launch(one_block(1), copy_part, static_cast<const float*>(nullptr), out.data(), 0u);
  EXPECT_THAT(fault_of(one_block(1), copy_part, in.data(), out.data(), 20u),
              HasSubstr("cp.async of 20 bytes into 16 bytes"));
  EXPECT_THAT(fault_of(one_block(1), copy_part, in.data() + 1, out.data(), 4u), HasSubstr("no multiple of 16 bytes"));
  if (!sanitizers::kAddresses && !sanitizers::kRaces) {
    EXPECT_THAT(fault_of(one_block(1), copy_part, in.data() + 4, out.data(), 16u), HasSubstr("outside every buffer"));
  }
}

// A phase ends with its last arrival; waiting for the parity of the phase before returns at once.
void phases(int* out) {
  auto& barrier = static_shared<std::uint64_t>();
  auto& value = static_shared<int>();
  if (threadIdx.x == 0) {
    phase_barrier_init(&barrier, 33);
    fence_phase_barrier_init();
  }
  __syncthreads();
  phase_barrier_wait(&barrier, 1);
  __syncthreads();
  for (int round = 0; round < 4; ++round) {
    if (threadIdx.x == 40) {
      value = round * 7;
      phase_barrier_arrive(&barrier);
    }
    if (threadIdx.x < 32) {
      phase_barrier_arrive(&barrier);
      phase_barrier_wait(&barrier, static_cast<unsigned>(round) & 1);
      out[round * 32 + static_cast<int>(threadIdx.x)] = value;
    }
    __syncthreads();
  }
}

TEST(PtxPhaseBarrier, EndsPhasesByArrivals) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const DeviceBuffer<int> out(128);
    launch(one_block(64, seed), phases, out.data());
    for (std::size_t i = 0; i < 128; ++i) ASSERT_EQ(out.values()[i], static_cast<int>(i / 32 * 7)) << "seed " << seed;
  }
}

struct alignas(1024) Tile {
  std::byte bytes[2048];
};

// One thread asks for a copy, all wait for its bytes.
template <unsigned kExpected, bool kWait>
void copy_bulk(const float* in, float* out) {
  auto& barrier = static_shared<std::uint64_t>();
  auto& tile = static_shared<Tile>();
  if (threadIdx.x == 0) {
    phase_barrier_init(&barrier, 1);
    fence_phase_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    phase_barrier_expect(&barrier, kExpected);
    copy_bulk_async(tile.bytes, in, 128, &barrier);
  }
  if constexpr (kWait) {
    phase_barrier_wait(&barrier, 0);
  } else {
    __syncthreads();
  }
  out[threadIdx.x] = reinterpret_cast<const float*>(tile.bytes)[threadIdx.x];
}

TEST(PtxCopyBulk, CountsBytesOnItsBarrier) {
  const DeviceBuffer<float> in(ramp(32)), out(32);
  for (const Landing landing : {Landing::late, Landing::early, Landing::random}) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      launch(one_block(32, seed, landing), copy_bulk<128, true>, in.data(), out.data());
      EXPECT_TRUE(std::ranges::equal(out.values(), ramp(32)));
    }
  }
  launch(one_block(32), copy_bulk<128, false>, in.data(), out.data());
  EXPECT_TRUE(std::isnan(out.values()[5]));  // nobody waited
  EXPECT_THAT(fault_of(one_block(32), copy_bulk<256, true>, in.data(), out.data()),
              HasSubstr("deadlock: 32 threads, the first of number 0, wait at mbarrier.try_wait for parity 0"));
}

void barrier_that_nothing_made() {
  phase_barrier_arrive(&static_shared<std::uint64_t>());
}
void barrier_in_registers() {
  std::uint64_t barrier = 0;
  phase_barrier_arrive(&barrier);
}
void barrier_made_twice() {
  phase_barrier_init(&static_shared<std::uint64_t>(), 1);
  phase_barrier_init(&static_shared<std::uint64_t>(), 1);
}
void poll_for_ever(int* out) {
  auto& barrier = static_shared<std::uint64_t>();
  if (threadIdx.x == 0) phase_barrier_init(&barrier, 1);
  __syncthreads();
  if (threadIdx.x == 1) {
    phase_barrier_arrive(&barrier);
  } else {
    while (!phase_barrier_test(&barrier, 0)) ++*out;
  }
}

TEST(PtxPhaseBarrier, ChecksItsUse) {
  EXPECT_THAT(fault_of(one_block(1), barrier_that_nothing_made), HasSubstr("that nothing has initialised"));
  EXPECT_THAT(fault_of(one_block(1), barrier_in_registers), HasSubstr("outside shared memory"));
  EXPECT_THAT(fault_of(one_block(1), barrier_made_twice), HasSubstr("that exists"));
  const DeviceBuffer<int> out(std::vector<int>{0});
  for (std::uint64_t seed = 0; seed < 4; ++seed) launch(one_block(2, seed), poll_for_ever, out.data());
}

void copy_tile(cuda::TensorMap map, int x, int y, unsigned bytes, std::byte* out) {
  auto& barrier = static_shared<std::uint64_t>();
  auto& tile = static_shared<Tile>();
  if (threadIdx.x == 0) {
    phase_barrier_init(&barrier, 1);
    fence_phase_barrier_init();
    phase_barrier_expect(&barrier, bytes);
    copy_tile_async(tile.bytes, &map, x, y, &barrier);
  }
  __syncthreads();
  phase_barrier_wait(&barrier, 0);
  for (unsigned i = threadIdx.x; i < bytes; i += 32) out[i] = tile.bytes[i];
}

TEST(PtxCopyTile, TakesBoxesAndFillsWithZerosOutside) {
  const unsigned width = 20, height = 9;
  std::vector<float> values = ramp(width * height);
  const DeviceBuffer<float> in(values);
  const auto map =
      encode_tensor_map({reinterpret_cast<std::uint64_t>(in.data()), width, height, width * 4, 4, 8, 4, 0});
  const DeviceBuffer<std::byte> out(8 * 4 * 4);
  const auto at = [&](int x, int y) {
    const bool inside = x >= 0 && y >= 0 && x < static_cast<int>(width) && y < static_cast<int>(height);
    return inside ? static_cast<float>(y * static_cast<int>(width) + x) : 0.0f;
  };
  for (const auto& [x, y] : std::vector<std::pair<int, int>>{{0, 0}, {5, 3}, {16, 7}, {-3, -2}, {100, 100}}) {
    launch(one_block(32, 7), copy_tile, map, x, y, 128u, out.data());
    const auto* box = reinterpret_cast<const float*>(out.data());
    for (int row = 0; row < 4; ++row) {
      for (int column = 0; column < 8; ++column)
        EXPECT_EQ(box[row * 8 + column], at(x + column, y + row)) << x << ", " << y;
    }
  }
}

// The manual's pattern for 128 bytes: unit u of 16 bytes of row r stands at unit u ^ (r % 8); for 64 bytes, units of
// two rows share 128 bytes and are exchanged by (r / 2) % 4; for 32 bytes, those of four rows by (r / 4) % 2.
TEST(PtxCopyTile, Swizzles) {
  for (const unsigned span : {128u, 64u, 32u}) {
    const unsigned units = span / 16, rows = 16;
    std::vector<std::uint32_t> values(rows * span / 4);
    for (unsigned i = 0; i < values.size(); ++i) values[i] = i / 4;  // the number of the 16-byte unit
    const DeviceBuffer<std::uint32_t> in(values);
    const auto map =
        encode_tensor_map({reinterpret_cast<std::uint64_t>(in.data()), span / 4, rows, span, 4, span / 4, rows, span});
    const DeviceBuffer<std::byte> out(rows * span);
    launch(one_block(32), copy_tile, map, 0, 0, rows * span, out.data());
    const auto* box = reinterpret_cast<const std::uint32_t*>(out.data());
    for (unsigned row = 0; row < rows; ++row) {
      const unsigned exchange = span == 128 ? row % 8 : span == 64 ? row / 2 % 4 : row / 4 % 2;
      for (unsigned unit = 0; unit < units; ++unit) {
        EXPECT_EQ(box[row * span / 4 + (unit ^ exchange) * 4], row * units + unit)
            << "span " << span << ", row " << row;
      }
    }
  }
}

TEST(PtxCopyTile, MapsKeepTheDriversRules) {
  const TiledMatrix good{1024, 64, 8, 128, 2, 64, 8, 128};
  EXPECT_NO_THROW(encode_tensor_map(good));
  const auto rule_of = [&](auto change) -> std::string {
    TiledMatrix matrix = good;
    change(matrix);
    try {
      encode_tensor_map(matrix);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(rule_of([](TiledMatrix& m) { m.base = 1032; }), HasSubstr("base address"));
  EXPECT_THAT(rule_of([](TiledMatrix& m) { m.stride_bytes = 136; }), HasSubstr("row stride"));
  EXPECT_THAT(rule_of([](TiledMatrix& m) { m.box_height = 257; }), HasSubstr("1 to 256"));
  EXPECT_THAT(rule_of([](TiledMatrix& m) { m.box_width = 60; }), HasSubstr("multiple of 16 bytes"));
  EXPECT_THAT(rule_of([](TiledMatrix& m) { m.swizzle_bytes = 64; }), HasSubstr("within the span"));
  EXPECT_THAT(rule_of([](TiledMatrix& m) { m.height = 0; }), HasSubstr("not empty"));
}

}  // namespace
}  // namespace tessera::emulation
