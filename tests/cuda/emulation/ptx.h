// Twins of the PTX instructions in backends/cuda/kernels/ptx.h: the same functions, executed by the emulation.
// Contracts stand there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/kernels/number_types.h"
#include "emulation/device.h"
#include "emulation/number_formats.h"
#include "emulation/tensor_map.h"

namespace tessera::emulation {

// Issues an asynchronous copy of `source_bytes` of `bytes`; the rest is filled with zeros.
void issue_copy(void* shared, const void* global, unsigned bytes, unsigned source_bytes, Site site);
void await_copies(unsigned groups, Site site);

// d = a × b + c of one warp on registers laid out as PTX says: 16 or 8 rows, 8 columns, `depth` elements. c and d are
// float, or int32 for s8.
void multiply_fragments(const char* name, Format format, unsigned rows, unsigned depth, void* d, const std::uint32_t* a,
                        const std::uint32_t* b, const void* c, Site site);
void load_matrices(const char* name, unsigned count, bool transposed, std::uint32_t* registers, const void* row,
                   Site site);

// 16×16 fragments of a warp. The distribution of elements over lanes is the emulation's own: kernels must not know it.
enum class Fragment { row_major, column_major };
void load_fragment(const char* name, Format format, Fragment order, std::uint32_t* registers, unsigned count,
                   const void* matrix, unsigned stride, Site site);
void multiply_16x16(const char* name, Format format, void* d, const std::uint32_t* a, const std::uint32_t* b,
                    const void* c, Site site);
void store_fragment(const char* name, void* matrix, unsigned stride, const void* d, Site site);

// Products of a warpgroup: 64 rows, `columns` columns and 32 bytes of depth, of matrices in shared memory.
void multiply_async(const char* name, Format format, unsigned columns, void* d, std::uint64_t a, std::uint64_t b,
                    bool accumulate, Site site);
void fence_products(Site site);
void commit_products(Site site);
void wait_products(unsigned groups, Site site);

}  // namespace tessera::emulation

namespace tessera::cuda::ptx {

using emulation::Format;

inline float from_f16(Float16 value) {
  return emulation::decode_f16(value.bits);
}
inline Float16 to_f16(float value) {
  return {emulation::encode_f16(value)};
}
inline float from_bf16(Bfloat16 value) {
  return emulation::decode_bf16(value.bits);
}
inline Bfloat16 to_bf16(float value) {
  return {emulation::encode_bf16(value)};
}
inline float from_e4m3(Float8E4M3 value) {
  return emulation::decode_e4m3(value.bits);
}
inline Float8E4M3 to_e4m3(float value) {
  return {emulation::encode_e4m3(value)};
}
inline float from_e5m2(Float8E5M2 value) {
  return emulation::decode_e5m2(value.bits);
}
inline Float8E5M2 to_e5m2(float value) {
  return {emulation::encode_e5m2(value)};
}
std::uint32_t to_tf32(float value);
int dp4a(std::uint32_t a, std::uint32_t b, int c);

std::uint32_t shared_address(const void* shared, Site site = Site::current());
inline void barrier_sync(unsigned id, unsigned threads, Site site = Site::current()) {
  emulation::Block::current().arrive(id, threads, true, false, "bar.sync", site);
}
inline void barrier_arrive(unsigned id, unsigned threads, Site site = Site::current()) {
  emulation::Block::current().arrive(id, threads, false, false, "bar.arrive", site);
}

template <int kBytes>
void copy_async(void* shared, const void* global, unsigned source_bytes = kBytes, Site site = Site::current()) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  emulation::issue_copy(shared, global, kBytes, source_bytes, site);
}
void commit_copies();
template <int kGroups>
void wait_copies(Site site = Site::current()) {
  emulation::await_copies(kGroups, site);
}

inline void load_matrix_x1(std::uint32_t (&r)[1], const void* row, Site site = Site::current()) {
  emulation::load_matrices("ldmatrix.x1", 1, false, r, row, site);
}
inline void load_matrix_x2(std::uint32_t (&r)[2], const void* row, Site site = Site::current()) {
  emulation::load_matrices("ldmatrix.x2", 2, false, r, row, site);
}
inline void load_matrix_x4(std::uint32_t (&r)[4], const void* row, Site site = Site::current()) {
  emulation::load_matrices("ldmatrix.x4", 4, false, r, row, site);
}
inline void load_matrix_x4_transposed(std::uint32_t (&r)[4], const void* row, Site site = Site::current()) {
  emulation::load_matrices("ldmatrix.x4.trans", 4, true, r, row, site);
}

inline void mma_m16n8k16_f16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                             Site site = Site::current()) {
  emulation::multiply_fragments("mma.m16n8k16.f16", Format::f16, 16, 16, d, a, b, d, site);
}
inline void mma_m16n8k16_bf16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                              Site site = Site::current()) {
  emulation::multiply_fragments("mma.m16n8k16.bf16", Format::bf16, 16, 16, d, a, b, d, site);
}
inline void mma_m16n8k8_f16(float (&d)[4], const std::uint32_t (&a)[2], const std::uint32_t (&b)[1],
                            Site site = Site::current()) {
  emulation::multiply_fragments("mma.m16n8k8.f16", Format::f16, 16, 8, d, a, b, d, site);
}
inline void mma_m16n8k8_tf32(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                             Site site = Site::current()) {
  emulation::multiply_fragments("mma.m16n8k8.tf32", Format::tf32, 16, 8, d, a, b, d, site);
}
inline void mma_m16n8k32_s8(int (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                            Site site = Site::current()) {
  emulation::multiply_fragments("mma.m16n8k32.s8", Format::s8, 16, 32, d, a, b, d, site);
}
inline void mma_m8n8k16_s8(int (&d)[2], const std::uint32_t (&a)[1], const std::uint32_t (&b)[1],
                           Site site = Site::current()) {
  emulation::multiply_fragments("mma.m8n8k16.s8", Format::s8, 8, 16, d, a, b, d, site);
}
inline void mma_m16n8k32_e4m3(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                              Site site = Site::current()) {
  emulation::multiply_fragments("mma.m16n8k32.e4m3", Format::e4m3, 16, 32, d, a, b, d, site);
}
inline void mma_m16n8k32_e5m2(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                              Site site = Site::current()) {
  emulation::multiply_fragments("mma.m16n8k32.e5m2", Format::e5m2, 16, 32, d, a, b, d, site);
}

inline void wmma_load_a_f16(std::uint32_t (&r)[8], const void* matrix, unsigned stride, Site site = Site::current()) {
  emulation::load_fragment("wmma.load.a.f16", Format::f16, emulation::Fragment::row_major, r, 8, matrix, stride, site);
}
inline void wmma_load_b_f16(std::uint32_t (&r)[8], const void* matrix, unsigned stride, Site site = Site::current()) {
  emulation::load_fragment("wmma.load.b.f16", Format::f16, emulation::Fragment::column_major, r, 8, matrix, stride,
                           site);
}
inline void wmma_load_a_bf16(std::uint32_t (&r)[4], const void* matrix, unsigned stride, Site site = Site::current()) {
  emulation::load_fragment("wmma.load.a.bf16", Format::bf16, emulation::Fragment::row_major, r, 4, matrix, stride,
                           site);
}
inline void wmma_load_b_bf16(std::uint32_t (&r)[4], const void* matrix, unsigned stride, Site site = Site::current()) {
  emulation::load_fragment("wmma.load.b.bf16", Format::bf16, emulation::Fragment::column_major, r, 4, matrix, stride,
                           site);
}
inline void wmma_load_a_s8(std::uint32_t (&r)[2], const void* matrix, unsigned stride, Site site = Site::current()) {
  emulation::load_fragment("wmma.load.a.s8", Format::s8, emulation::Fragment::row_major, r, 2, matrix, stride, site);
}
inline void wmma_load_b_s8(std::uint32_t (&r)[2], const void* matrix, unsigned stride, Site site = Site::current()) {
  emulation::load_fragment("wmma.load.b.s8", Format::s8, emulation::Fragment::column_major, r, 2, matrix, stride, site);
}
inline void wmma_f16(float (&d)[8], const std::uint32_t (&a)[8], const std::uint32_t (&b)[8],
                     Site site = Site::current()) {
  emulation::multiply_16x16("wmma.mma.f16", Format::f16, d, a, b, d, site);
}
inline void wmma_bf16(float (&d)[8], const std::uint32_t (&a)[4], const std::uint32_t (&b)[4],
                      Site site = Site::current()) {
  emulation::multiply_16x16("wmma.mma.bf16", Format::bf16, d, a, b, d, site);
}
inline void wmma_s8(int (&d)[8], const std::uint32_t (&a)[2], const std::uint32_t (&b)[2],
                    Site site = Site::current()) {
  emulation::multiply_16x16("wmma.mma.s8", Format::s8, d, a, b, d, site);
}
inline void wmma_store_f32(float* matrix, const float (&d)[8], unsigned stride, Site site = Site::current()) {
  emulation::store_fragment("wmma.store.d.f32", matrix, stride, d, site);
}
inline void wmma_store_s32(int* matrix, const int (&d)[8], unsigned stride, Site site = Site::current()) {
  emulation::store_fragment("wmma.store.d.s32", matrix, stride, d, site);
}

void phase_barrier_init(std::uint64_t* barrier, unsigned arrivals, Site site = Site::current());
void phase_barrier_arrive(std::uint64_t* barrier, Site site = Site::current());
void phase_barrier_expect(std::uint64_t* barrier, unsigned bytes, Site site = Site::current());
bool phase_barrier_test(std::uint64_t* barrier, unsigned parity, Site site = Site::current());
void phase_barrier_wait(std::uint64_t* barrier, unsigned parity, Site site = Site::current());
inline void fence_phase_barrier_init() {}
inline void fence_async_proxy() {}

void copy_bulk_async(void* shared, const void* global, unsigned bytes, std::uint64_t* barrier,
                     Site site = Site::current());
void copy_tile_async(void* shared, const TensorMap* map, int x, int y, std::uint64_t* barrier,
                     Site site = Site::current());

inline void wgmma_fence(Site site = Site::current()) {
  emulation::fence_products(site);
}
inline void wgmma_commit(Site site = Site::current()) {
  emulation::commit_products(site);
}
template <int kGroups, class T, std::size_t kCount>
void wgmma_wait(T (&)[kCount], Site site = Site::current()) {
  emulation::wait_products(kGroups, site);
}
inline void wgmma_m64n128k16_f16(float (&d)[64], std::uint64_t a, std::uint64_t b, bool accumulate,
                                 Site site = Site::current()) {
  emulation::multiply_async("wgmma.m64n128k16.f16", Format::f16, 128, d, a, b, accumulate, site);
}
inline void wgmma_m64n128k16_bf16(float (&d)[64], std::uint64_t a, std::uint64_t b, bool accumulate,
                                  Site site = Site::current()) {
  emulation::multiply_async("wgmma.m64n128k16.bf16", Format::bf16, 128, d, a, b, accumulate, site);
}
inline void wgmma_m64n128k32_s8(int (&d)[64], std::uint64_t a, std::uint64_t b, bool accumulate,
                                Site site = Site::current()) {
  emulation::multiply_async("wgmma.m64n128k32.s8", Format::s8, 128, d, a, b, accumulate, site);
}
inline void wgmma_m64n128k32_e4m3(float (&d)[64], std::uint64_t a, std::uint64_t b, bool accumulate,
                                  Site site = Site::current()) {
  emulation::multiply_async("wgmma.m64n128k32.e4m3", Format::e4m3, 128, d, a, b, accumulate, site);
}

}  // namespace tessera::cuda::ptx
