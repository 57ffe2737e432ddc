// Products of fragments and the loading of their operands. The layouts are those that the PTX manual states (PTX
// ISA 9.0, sections on mma, ldmatrix, wmma and wgmma), written down here once more as functions of lane and element.
//
// Length: one table of lanes and elements for each kind of fragment.
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "backends/cuda/kernels/device_code.h"
#include "emulation/faults.h"

namespace tessera::emulation {
namespace {

using namespace cuda::ptx;
using testing::HasSubstr;
using Registers = std::uint32_t;

// Small integers, which every format holds exactly, so that results are exact too.
template <class T>
std::vector<T> small_numbers(std::size_t count, unsigned seed, Format format) {
  std::mt19937 random(seed);
  std::vector<T> values(count);
  for (T& value : values) {
    const float number = static_cast<float>(static_cast<int>(random() % 7) - 3);
    std::uint32_t bits = 0;
    switch (format) {
      case Format::f16:
        bits = encode_f16(number);
        break;
      case Format::bf16:
        bits = encode_bf16(number);
        break;
      case Format::e4m3:
        bits = encode_e4m3(number);
        break;
      case Format::e5m2:
        bits = encode_e5m2(number);
        break;
      case Format::s8:
        bits = static_cast<std::uint8_t>(static_cast<std::int8_t>(number));
        break;
      case Format::tf32:
        bits = std::bit_cast<std::uint32_t>(number);
        break;
    }
    std::memcpy(&value, &bits, sizeof(T));
  }
  return values;
}

// Row-major rows × depth times the transpose of columns × depth.
std::vector<float> plain_product(Format format, const void* a, const void* b, unsigned rows, unsigned columns,
                                 unsigned depth) {
  std::vector<float> d(std::size_t{rows} * columns);
  for (unsigned r = 0; r < rows; ++r) {
    for (unsigned c = 0; c < columns; ++c) {
      for (unsigned k = 0; k < depth; ++k)
        d[r * columns + c] += decode(format, a, r * depth + k) * decode(format, b, c * depth + k);
    }
  }
  return d;
}

struct Place {
  unsigned row, column;
};

// The manual, for 16-bit elements of m16n8k16: of A's elements a0 … a7, those of number 0, 1, 4 and 5 are in row
// groupID, the others in groupID + 8; the column is threadID_in_group * 2 + (i & 1), and 8 more from a4 on.
Place a_of_16_bit(unsigned lane, unsigned i) {
  return {lane / 4 + (i % 4 < 2 ? 0 : 8), lane % 4 * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
}
// B's elements b0 … b3: row threadID_in_group * 2 + (i & 1), and 8 more from b2 on; column groupID.
Place b_of_16_bit(unsigned lane, unsigned i) {
  return {lane % 4 * 2 + (i & 1) + (i >= 2 ? 8 : 0), lane / 4};
}
// 8-bit elements of m16n8k32: a0 … a15 in row groupID for 0 ≤ i < 4 and 8 ≤ i < 12, else groupID + 8; column
// threadID_in_group * 4 + (i & 3), and 16 more from a8 on.
Place a_of_8_bit(unsigned lane, unsigned i) {
  return {lane / 4 + (i / 4 % 2 == 0 ? 0 : 8), lane % 4 * 4 + (i & 3) + (i >= 8 ? 16 : 0)};
}
Place b_of_8_bit(unsigned lane, unsigned i) {
  return {lane % 4 * 4 + (i & 3) + (i >= 4 ? 16 : 0), lane / 4};
}
// tf32 of m16n8k8: a0 and a2 in row groupID, a1 and a3 in groupID + 8; columns threadID_in_group, and 4 more from a2
// on.
Place a_of_tf32(unsigned lane, unsigned i) {
  return {lane / 4 + (i % 2 == 0 ? 0 : 8), lane % 4 + (i >= 2 ? 4 : 0)};
}
Place b_of_tf32(unsigned lane, unsigned i) {
  return {lane % 4 + (i >= 1 ? 4 : 0), lane / 4};
}
// m8n8k16 of 8-bit elements: A in row groupID, column threadID_in_group * 4 + i.
Place a_of_8_rows(unsigned lane, unsigned i) {
  return {lane / 4, lane % 4 * 4 + i};
}
Place b_of_8_rows(unsigned lane, unsigned i) {
  return {lane % 4 * 4 + i, lane / 4};
}
// The sums c0 … c3: rows groupID (c0, c1) and groupID + 8 (c2, c3), columns threadID_in_group * 2 + (i & 1).
Place sum_at(unsigned lane, unsigned i) {
  return {lane / 4 + (i < 2 ? 0 : 8), lane % 4 * 2 + (i & 1)};
}

// One warp computes d = a × bᵀ + 1 with operands in memory, by the layout functions.
template <class Sum, std::size_t kSums, std::size_t kA, std::size_t kB, auto kProduct, auto kAPlace, auto kBPlace,
          unsigned kBytes>
void multiply_once(const std::byte* a, const std::byte* b, Sum* d, unsigned depth) {
  const unsigned lane = threadIdx.x;
  Registers a_registers[kA], b_registers[kB];
  for (unsigned i = 0; i < kA * 4 / kBytes; ++i) {
    const Place place = kAPlace(lane, i);
    std::memcpy(reinterpret_cast<std::byte*>(a_registers) + i * kBytes, a + (place.row * depth + place.column) * kBytes,
                kBytes);
  }
  for (unsigned i = 0; i < kB * 4 / kBytes; ++i) {
    const Place place = kBPlace(lane, i);
    std::memcpy(reinterpret_cast<std::byte*>(b_registers) + i * kBytes, b + (place.column * depth + place.row) * kBytes,
                kBytes);
  }
  Sum sums[kSums];
  for (Sum& sum : sums) sum = 1;
  kProduct(sums, a_registers, b_registers, Site::current());
  for (unsigned i = 0; i < kSums; ++i) d[sum_at(lane, i).row * 8 + sum_at(lane, i).column] = sums[i];
}

template <class T, class Sum, std::size_t kSums, std::size_t kA, std::size_t kB, auto kProduct, auto kAPlace,
          auto kBPlace>
void expect_product(Format format, unsigned rows, unsigned depth) {
  for (unsigned seed = 1; seed < 4; ++seed) {
    const auto a = small_numbers<T>(std::size_t{rows} * depth, seed, format),
               b = small_numbers<T>(std::size_t{8} * depth, seed + 10, format);
    const DeviceBuffer<T> a_buffer(a), b_buffer(b);
    const DeviceBuffer<Sum> d(std::size_t{rows} * 8);
    launch(one_block(32, seed), multiply_once<Sum, kSums, kA, kB, kProduct, kAPlace, kBPlace, sizeof(T)>,
           reinterpret_cast<const std::byte*>(a_buffer.data()), reinterpret_cast<const std::byte*>(b_buffer.data()),
           d.data(), depth);
    const std::vector<float> expected = plain_product(format, a.data(), b.data(), rows, 8, depth);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(static_cast<float>(d.values()[i]), expected[i] + 1)
          << "row " << i / 8 << ", column " << i % 8 << ", seed " << seed;
    }
  }
}

TEST(PtxMma, FragmentsAreThoseOfTheManual) {
  using Half = std::uint16_t;
  expect_product<Half, float, 4, 4, 2, &mma_m16n8k16_f16, &a_of_16_bit, &b_of_16_bit>(Format::f16, 16, 16);
  expect_product<Half, float, 4, 4, 2, &mma_m16n8k16_bf16, &a_of_16_bit, &b_of_16_bit>(Format::bf16, 16, 16);
  expect_product<Half, float, 4, 2, 1, &mma_m16n8k8_f16, &a_of_16_bit, &b_of_16_bit>(Format::f16, 16, 8);
  expect_product<std::uint32_t, float, 4, 4, 2, &mma_m16n8k8_tf32, &a_of_tf32, &b_of_tf32>(Format::tf32, 16, 8);
  expect_product<std::uint8_t, int, 4, 4, 2, &mma_m16n8k32_s8, &a_of_8_bit, &b_of_8_bit>(Format::s8, 16, 32);
  expect_product<std::uint8_t, int, 2, 1, 1, &mma_m8n8k16_s8, &a_of_8_rows, &b_of_8_rows>(Format::s8, 8, 16);
  expect_product<std::uint8_t, float, 4, 4, 2, &mma_m16n8k32_e4m3, &a_of_8_bit, &b_of_8_bit>(Format::e4m3, 16, 32);
  expect_product<std::uint8_t, float, 4, 4, 2, &mma_m16n8k32_e5m2, &a_of_8_bit, &b_of_8_bit>(Format::e5m2, 16, 32);
}

void mma_without_a_lane() {
  if (threadIdx.x == 31) return;
  float d[4] = {};
  const Registers a[4] = {}, b[2] = {};
  mma_m16n8k16_f16(d, a, b);
}
void mma_at_two_places() {
  float d[4] = {};
  const Registers a[4] = {}, b[2] = {};
  if (threadIdx.x < 16) {
    mma_m16n8k16_f16(d, a, b);
  } else {
    mma_m16n8k16_f16(d, a, b);
  }
}

TEST(PtxMma, NeedsTheWholeWarpAtOnePlace) {
  EXPECT_THAT(fault_of(one_block(32), mma_without_a_lane), HasSubstr("deadlock: 31 threads"));
  EXPECT_THAT(fault_of(one_block(24), mma_without_a_lane), HasSubstr("needs all 32 threads"));
  EXPECT_THAT(fault_of(one_block(32), mma_at_two_places), HasSubstr("at two places"));
}

struct alignas(16) Rows {
  std::uint16_t values[32][8];
};

// The manual: lane l receives, of each matrix, elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4; transposed, of
// column.
void load_matrices_once(std::uint32_t* plain, std::uint32_t* transposed, std::uint32_t* two, std::uint32_t* one) {
  auto& rows = cuda::static_shared<Rows>();
  const unsigned lane = threadIdx.x;
  for (unsigned i = 0; i < 8; ++i) rows.values[lane][i] = static_cast<std::uint16_t>(lane * 100 + i);
  __syncwarp();
  std::uint32_t r4[4], t4[4], r2[2], r1[1];
  load_matrix_x4(r4, rows.values[lane]);
  load_matrix_x4_transposed(t4, rows.values[lane]);
  load_matrix_x2(r2, rows.values[lane % 16]);
  load_matrix_x1(r1, rows.values[lane % 8]);
  for (unsigned m = 0; m < 4; ++m) {
    plain[m * 32 + lane] = r4[m];
    transposed[m * 32 + lane] = t4[m];
    if (m < 2) two[m * 32 + lane] = r2[m];
  }
  one[lane] = r1[0];
}

TEST(PtxLdmatrix, DistributesRowsAsTheManualSays) {
  const DeviceBuffer<std::uint32_t> plain(128), transposed(128), two(64), one(32);
  launch(one_block(32, 2), load_matrices_once, plain.data(), transposed.data(), two.data(), one.data());
  for (unsigned m = 0; m < 4; ++m) {
    for (unsigned lane = 0; lane < 32; ++lane) {
      const unsigned major = lane / 4, minor = lane % 4 * 2;
      const unsigned in_row = (m * 8 + major) * 100 + minor;
      EXPECT_EQ(plain.values()[m * 32 + lane], in_row | (in_row + 1) << 16);
      const unsigned in_column = (m * 8 + minor) * 100 + major;
      EXPECT_EQ(transposed.values()[m * 32 + lane], in_column | (in_column + 100) << 16);
      if (m < 2) {
        EXPECT_EQ(two.values()[m * 32 + lane], in_row | (in_row + 1) << 16);
      }
      if (m < 1) {
        EXPECT_EQ(one.values()[lane], in_row | (in_row + 1) << 16);
      }
    }
  }
}

void load_of_odd_row() {
  std::uint32_t r[4];
  load_matrix_x4(r, &cuda::static_shared<Rows>().values[0][1]);
}
void load_of_global(const std::uint16_t* row) {
  std::uint32_t r[4];
  load_matrix_x4(r, row);
}

TEST(PtxLdmatrix, ChecksItsRows) {
  const DeviceBuffer<std::uint16_t> global(8);
  EXPECT_THAT(fault_of(one_block(32), load_of_odd_row), HasSubstr("no multiple of 16 bytes"));
  EXPECT_THAT(fault_of(one_block(32), load_of_global, global.data()),
              HasSubstr("outside every object of shared memory"));
}

template <class T, class Sum, std::size_t kRegisters, auto kLoadA, auto kLoadB, auto kProduct, auto kStore>
void multiply_16(const T* a, const T* b, Sum* d, unsigned stride) {
  Registers a_registers[kRegisters], b_registers[kRegisters];
  Sum sums[8];
  for (Sum& sum : sums) sum = 2;
  kLoadA(a_registers, a, stride, Site::current());
  kLoadB(b_registers, b, stride, Site::current());
  kProduct(sums, a_registers, b_registers, Site::current());
  kStore(d, sums, 20, Site::current());
}

template <class T, class Sum, std::size_t kRegisters, auto kLoadA, auto kLoadB, auto kProduct, auto kStore>
void expect_16x16(Format format) {
  const unsigned stride = 32;
  auto a = small_numbers<T>(16 * stride, 5, format), b = small_numbers<T>(16 * stride, 6, format);
  const DeviceBuffer<T> a_buffer(a, 32), b_buffer(b, 32);
  const DeviceBuffer<Sum> d(16 * 20, 32);
  launch(one_block(32), multiply_16<T, Sum, kRegisters, kLoadA, kLoadB, kProduct, kStore>, a_buffer.data(),
         b_buffer.data(), d.data(), stride);
  for (unsigned r = 0; r < 16; ++r) {
    for (unsigned c = 0; c < 16; ++c) {
      float expected = 2;
      for (unsigned k = 0; k < 16; ++k)
        expected += decode(format, a.data(), r * stride + k) * decode(format, b.data(), c * stride + k);
      ASSERT_EQ(static_cast<float>(d.values()[r * 20 + c]), expected) << r << ", " << c;
    }
  }
}

TEST(PtxWmma, MultipliesRowMajorByColumnMajor) {
  expect_16x16<std::uint16_t, float, 8, &wmma_load_a_f16, &wmma_load_b_f16, &wmma_f16, &wmma_store_f32>(Format::f16);
  expect_16x16<std::uint16_t, float, 4, &wmma_load_a_bf16, &wmma_load_b_bf16, &wmma_bf16, &wmma_store_f32>(
      Format::bf16);
  expect_16x16<std::uint8_t, int, 2, &wmma_load_a_s8, &wmma_load_b_s8, &wmma_s8, &wmma_store_s32>(Format::s8);
}

void wmma_of_odd_address(const std::uint16_t* a) {
  Registers r[8];
  wmma_load_a_f16(r, a + 8, 16);
}
TEST(PtxWmma, ChecksAlignment) {
  const DeviceBuffer<std::uint16_t> a(512, 32);
  EXPECT_THAT(fault_of(one_block(32), wmma_of_odd_address, a.data()), HasSubstr("multiple of 32 bytes"));
}

// A descriptor as the manual lays it out: address, leading and stride offsets in units of 16 bytes, swizzle mode.
std::uint64_t descriptor(const void* shared, unsigned leading, unsigned stride, std::uint64_t mode) {
  return (shared_address(shared) >> 4) | std::uint64_t{leading >> 4} << 16 | std::uint64_t{stride >> 4} << 32 |
         mode << 62;
}

// Operands without a swizzle: core matrices of 8 rows by 16 bytes, stored one after the other along the depth.
struct alignas(128) CoreMatrices {
  std::byte a[8][2][8][16], b[16][2][8][16];
};

template <class T, class Sum, auto kProduct, int kWait>
void multiply_warpgroup(const T* a, const T* b, Sum* d, Sum* early) {
  auto& shared = cuda::static_shared<CoreMatrices>();
  const unsigned thread = threadIdx.x;
  for (unsigned i = thread; i < 128 * 32; i += 128) {
    const unsigned row = i / 32, byte = i % 32;
    if (row < 64) shared.a[row / 8][byte / 16][row % 8][byte % 16] = reinterpret_cast<const std::byte*>(a)[i];
    shared.b[row / 8][byte / 16][row % 8][byte % 16] = reinterpret_cast<const std::byte*>(b)[i];
  }
  fence_async_proxy();
  __syncthreads();
  Sum sums[64];
  for (Sum& sum : sums) sum = 100;
  const std::uint64_t a_descriptor = descriptor(shared.a, 128, 256, 0),
                      b_descriptor = descriptor(shared.b, 128, 256, 0);
  wgmma_fence();
  kProduct(sums, a_descriptor, b_descriptor, false, Site::current());
  kProduct(sums, a_descriptor, b_descriptor, true, Site::current());
  wgmma_commit();
  wgmma_wait<kWait>(sums);
  if (thread == 0) *early = sums[0];
  wgmma_wait<0>(sums);
  // The manual: register i of a thread is row 16 (warp) + lane / 4, 8 rows below for (i / 2) odd, and column 8 (i / 4)
  // + 2 (lane % 4) + (i & 1).
  for (unsigned i = 0; i < 64; ++i) {
    d[(thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8) * 128 + i / 4 * 8 + thread % 4 * 2 + (i & 1)] = sums[i];
  }
}

template <class T, class Sum, auto kProduct, int kWait = 0>
Sum expect_warpgroup(Format format, Landing landing = Landing::late) {
  const unsigned depth = 32 / sizeof(T);
  const auto a = small_numbers<T>(64 * depth, 8, format), b = small_numbers<T>(128 * depth, 9, format);
  const DeviceBuffer<T> a_buffer(a), b_buffer(b);
  const DeviceBuffer<Sum> d(64 * 128), early(1);
  launch(one_block(128, 1, landing), multiply_warpgroup<T, Sum, kProduct, kWait>, a_buffer.data(), b_buffer.data(),
         d.data(), early.data());
  const std::vector<float> expected = plain_product(format, a.data(), b.data(), 64, 128, depth);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(static_cast<float>(d.values()[i]), 2 * expected[i]) << "row " << i / 128 << ", column " << i % 128;
    if (testing::Test::HasFailure()) break;
  }
  return early.values()[0];
}

TEST(PtxWgmma, MultipliesMatricesInSharedMemory) {
  expect_warpgroup<std::uint16_t, float, &wgmma_m64n128k16_f16>(Format::f16);
  expect_warpgroup<std::uint16_t, float, &wgmma_m64n128k16_bf16>(Format::bf16);
  expect_warpgroup<std::uint8_t, int, &wgmma_m64n128k32_s8>(Format::s8);
  expect_warpgroup<std::uint8_t, float, &wgmma_m64n128k32_e4m3>(Format::e4m3);
}

TEST(PtxWgmma, SumsArePoisonUntilTheyAreAwaited) {
  EXPECT_TRUE(std::isnan((expect_warpgroup<std::uint16_t, float, &wgmma_m64n128k16_f16, 1>(Format::f16))));
  EXPECT_FALSE(std::isnan((expect_warpgroup<std::uint16_t, float, &wgmma_m64n128k16_f16, 0>(Format::f16))));
}

void product_without_fence() {
  float d[64] = {};
  const std::uint64_t at = descriptor(&cuda::static_shared<CoreMatrices>(), 128, 256, 0);
  wgmma_m64n128k16_f16(d, at, at, false);
}
void product_without_wait() {
  float d[64] = {};
  const std::uint64_t at = descriptor(&cuda::static_shared<CoreMatrices>(), 128, 256, 0);
  wgmma_fence();
  wgmma_m64n128k16_f16(d, at, at, false);
  wgmma_commit();
}
void product_outside_shared_memory() {
  float d[64] = {};
  const std::uint64_t at = descriptor(&cuda::static_shared<CoreMatrices>(), 128, 2048, 0);
  wgmma_fence();
  wgmma_m64n128k16_f16(d, at, at, false);
  wgmma_commit();
  wgmma_wait<0>(d);
}

TEST(PtxWgmma, ChecksFencesWaitsAndBounds) {
  EXPECT_THAT(fault_of(one_block(128), product_without_fence), HasSubstr("without a wgmma.fence"));
  EXPECT_THAT(fault_of(one_block(128), product_without_wait), HasSubstr("no wgmma.wait_group awaited"));
  EXPECT_THAT(fault_of(one_block(128), product_outside_shared_memory),
              HasSubstr("reads outside every object of shared memory"));
  EXPECT_THAT(fault_of(one_block(96), product_without_fence), HasSubstr("needs all 128 threads"));
}

void convert(const float* in, float* out) {
  const float value = in[threadIdx.x];
  float* to = out + threadIdx.x * 5;
  to[0] = from_f16(to_f16(value));
  to[1] = from_bf16(to_bf16(value));
  to[2] = from_e4m3(to_e4m3(value));
  to[3] = from_e5m2(to_e5m2(value));
  to[4] = std::bit_cast<float>(to_tf32(value));
}

TEST(PtxConversions, RoundToNearestEvenAndSaturateFp8) {
  const float infinity = INFINITY;
  // value, then what f16, bf16, e4m3, e5m2 and tf32 make of it
  const std::vector<std::array<float, 6>> cases = {
      {1.0f, 1, 1, 1, 1, 1},
      {-0.1f, -0.0999755859375f, -0.10009765625f, -0.1015625f, -0.09375f, -0.0999755859375f},
      {1.0f + 0x1p-11f, 1, 1, 1, 1, 1.0f + 0x1p-10f},  // ties: to even, tf32 away from zero
      {1.0f + 0x1.8p-10f, 1.0f + 0x1p-9f, 1, 1, 1, 1.0f + 0x1p-9f},
      {70000.0f, infinity, 70144.0f, 448, 57344, 70016.0f},
      {65519.0f, 65504, 65536, 448, 57344, 65504},
      {-1e30f, -infinity, -0x1.94p+99f, -448, -57344, -0x1.94p+99f},
      {0x1p-24f, 0x1p-24f, 0x1p-24f, 0, 0, 0x1p-24f},  // the least f16
      {0x1p-25f, 0, 0x1p-25f, 0, 0, 0x1p-25f},
      {0x1p-9f, 0x1p-9f, 0x1p-9f, 0x1p-9f, 0x1p-9f, 0x1p-9f},  // the least e4m3
      {0x1.8p-9f, 0x1.8p-9f, 0x1.8p-9f, 0x1p-8f, 0x1.8p-9f, 0x1.8p-9f},
      {infinity, infinity, infinity, 448, 57344, infinity},
  };
  std::vector<float> in;
  for (const auto& row : cases) in.push_back(row[0]);
  const DeviceBuffer<float> in_buffer(in), out(cases.size() * 5);
  launch(one_block(static_cast<unsigned>(cases.size())), convert, in_buffer.data(), out.data());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    for (std::size_t format = 0; format < 5; ++format) {
      EXPECT_EQ(out.values()[i * 5 + format], cases[i][format + 1]) << cases[i][0] << " as format " << format;
    }
  }
}

TEST(PtxConversions, EveryNarrowNumberComesBack) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float value = decode_f16(static_cast<std::uint16_t>(bits));
    if (!std::isnan(value)) {
      ASSERT_EQ(encode_f16(value), bits);
    }
  }
  for (unsigned bits = 0; bits < 256; ++bits) {
    const float four = decode_e4m3(static_cast<std::uint8_t>(bits)),
                five = decode_e5m2(static_cast<std::uint8_t>(bits));
    if (!std::isnan(four)) {
      ASSERT_EQ(encode_e4m3(four), bits);
    }
    if (std::isfinite(five)) {
      ASSERT_EQ(encode_e5m2(five), bits);
    }
  }
}

TEST(PtxDp4a, AddsProductsOfSignedBytes) {
  EXPECT_EQ(dp4a(0x7F80FF01u, 0x7F800203u, -5), 127 * 127 + 128 * 128 - 1 * 2 + 1 * 3 - 5);
}

}  // namespace
}  // namespace tessera::emulation
