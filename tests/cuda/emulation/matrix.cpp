// Matrix products of a warp (mma, wmma) and of a warpgroup (wgmma), and the loading of their operands.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "emulation/ptx.h"

namespace tessera::emulation {
namespace {

// A matrix operand with its elements as floats (int8 values are exact in them).
struct Operand {
  std::vector<float> values;
  unsigned depth;
  float* row(unsigned index) { return values.data() + static_cast<std::size_t>(index) * depth; }
};

float dot(const float* a, const float* b, unsigned depth, float begin) {
  for (unsigned k = 0; k < depth; ++k) begin += a[k] * b[k];
  return begin;
}

int dot(const float* a, const float* b, unsigned depth, int begin) {
  for (unsigned k = 0; k < depth; ++k) begin += static_cast<int>(a[k]) * static_cast<int>(b[k]);
  return begin;
}

struct FragmentCall {
  void* d;
  const std::uint32_t *a, *b;
  const void* c;
};

// PTX: of the lane's number, the upper three bits (`group`) name the row of A and of D and the column of B, the lower
// two
// (`within`) the columns of A and D and the rows of B. A register holds as many neighbouring elements of the depth as
// fit in 32 bits. Registers 0 and 1 of A belong to rows `group` and `group + 8`, registers 2 and 3 to the next part of
// the depth; D's registers 0 and 1 are columns 2 * within and 2 * within + 1 of row `group`, registers 2 and 3 of
// `group + 8`.
template <class T>
void multiply(FragmentCall* const* lanes, Format format, unsigned rows, unsigned depth) {
  const unsigned per_register = 4 / bytes_of(format), chunk = 4 * per_register, row_halves = rows / 8;
  float a[16][32], b[8][32];
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned group = lane / 4, within = lane % 4;
    for (unsigned r = 0; r < depth / chunk * row_halves; ++r) {
      for (unsigned e = 0; e < per_register; ++e) {
        a[group + 8 * (r % row_halves)][r / row_halves * chunk + within * per_register + e] =
            decode(format, &lanes[lane]->a[r], e);
      }
    }
    for (unsigned r = 0; r < depth / chunk; ++r) {
      for (unsigned e = 0; e < per_register; ++e)
        b[group][r * chunk + within * per_register + e] = decode(format, &lanes[lane]->b[r], e);
    }
  }
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned group = lane / 4, within = lane % 4;
    T results[4];
    for (unsigned i = 0; i < 2 * row_halves; ++i) {
      results[i] = dot(a[group + 8 * (i / 2)], b[2 * within + i % 2], depth, static_cast<const T*>(lanes[lane]->c)[i]);
    }
    std::copy_n(results, 2 * row_halves, static_cast<T*>(lanes[lane]->d));
  }
}

// The lane and register that hold element `index` of a 16×16 fragment with `per_lane` elements a lane: scattered, so
// that nobody can rely on it.
unsigned lane_of(unsigned index, unsigned per_lane) {
  return (index / per_lane * 5 + 3) % 32;
}

unsigned element_at(unsigned lane, unsigned place, unsigned per_lane) {
  // The inverse of lane_of: 5 * 13 = 65 = 1 modulo 32.
  return (lane + 32 - 3) * 13 % 32 * per_lane + place;
}

struct LoadCall {
  std::uint32_t* registers;
  const void* matrix;
  unsigned stride;
};

void check_lane_agreement(const char* name, LoadCall* const* lanes, Site site) {
  for (unsigned lane = 1; lane < 32; ++lane) {
    if (lanes[lane]->matrix != lanes[0]->matrix || lanes[lane]->stride != lanes[0]->stride) {
      Block::current().fault(std::string(name) + " with different addresses or strides in one warp", site);
    }
  }
}

void check_fragment_memory(const char* name, const void* matrix, unsigned stride_bytes, Site site) {
  if (reinterpret_cast<std::uintptr_t>(matrix) % 32 != 0 || stride_bytes % 16 != 0) {
    Block::current().fault(
        std::string(name) + " needs an address that is a multiple of 32 bytes and a stride that is one of 16", site);
  }
}

}  // namespace

void multiply_fragments(const char* name, Format format, unsigned rows, unsigned depth, void* d, const std::uint32_t* a,
                        const std::uint32_t* b, const void* c, Site site) {
  FragmentCall call{d, a, b, c};
  warp_wide(
      name, 0xFFFFFFFFu, call,
      [=](FragmentCall* const* lanes) {
        if (format == Format::s8) {
          multiply<int>(lanes, format, rows, depth);
        } else {
          multiply<float>(lanes, format, rows, depth);
        }
      },
      true, site);
}

void load_matrices(const char* name, unsigned count, bool transposed, std::uint32_t* registers, const void* row,
                   Site site) {
  struct Call {
    std::uint32_t* registers;
    const void* row;
  } call{registers, row};
  Block& block = Block::current();
  if (Block::thread().lane() < 8 * count) {
    if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0)
      block.fault(std::string(name) + " of a row whose address is no multiple of 16 bytes", site);
    if (!block.shared().holds(row, 16))
      block.fault(std::string(name) + " of a row outside every object of shared memory", site);
  }
  warp_wide(
      name, 0xFFFFFFFFu, call,
      [=](Call* const* lanes) {
        for (unsigned m = 0; m < count; ++m) {
          std::uint16_t matrix[8][8];
          for (unsigned i = 0; i < 8; ++i) std::memcpy(matrix[i], lanes[8 * m + i]->row, 16);
          for (unsigned lane = 0; lane < 32; ++lane) {
            const unsigned major = lane / 4, minor = lane % 4 * 2;
            const std::uint32_t low = transposed ? matrix[minor][major] : matrix[major][minor];
            const std::uint32_t high = transposed ? matrix[minor + 1][major] : matrix[major][minor + 1];
            lanes[lane]->registers[m] = low | high << 16;
          }
        }
      },
      true, site);
}

void load_fragment(const char* name, Format format, Fragment, std::uint32_t* registers, unsigned count,
                   const void* matrix, unsigned stride, Site site) {
  const unsigned bytes = bytes_of(format);
  check_fragment_memory(name, matrix, stride * bytes, site);
  LoadCall call{registers, matrix, stride};
  // Rows of A and columns of B are contiguous alike, so that both orders are one: 16 lines of 16 elements of the depth.
  warp_wide(
      name, 0xFFFFFFFFu, call,
      [=](LoadCall* const* lanes) {
        check_lane_agreement(name, lanes, site);
        for (unsigned lane = 0; lane < 32; ++lane) {
          std::memset(lanes[lane]->registers, static_cast<int>(kPoison), count * 4);
          auto* to = reinterpret_cast<std::byte*>(lanes[lane]->registers);
          for (unsigned place = 0; place < 8; ++place) {
            const unsigned index = element_at(lane, place, 8);
            const auto* from = static_cast<const std::byte*>(matrix) +
                               (static_cast<std::size_t>(index / 16) * stride + index % 16) * bytes;
            std::memcpy(to + place * bytes, from, bytes);
          }
        }
      },
      true, site);
}

namespace {

template <class T>
void multiply_16x16(FragmentCall* const* lanes, Format format) {
  Operand a{std::vector<float>(256), 16}, b{std::vector<float>(256), 16};
  std::vector<T> d(256);
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned place = 0; place < 8; ++place) {
      const unsigned index = element_at(lane, place, 8);
      a.values[index] = decode(format, lanes[lane]->a, place);
      b.values[index] = decode(format, lanes[lane]->b, place);
      d[index] = static_cast<const T*>(lanes[lane]->c)[place];
    }
  }
  for (unsigned row = 0; row < 16; ++row) {
    for (unsigned column = 0; column < 16; ++column) {
      T& sum = d[row * 16 + column];
      sum = dot(a.row(row), b.row(column), 16, sum);
    }
  }
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned place = 0; place < 8; ++place) static_cast<T*>(lanes[lane]->d)[place] = d[element_at(lane, place, 8)];
  }
}

}  // namespace

void multiply_16x16(const char* name, Format format, void* d, const std::uint32_t* a, const std::uint32_t* b,
                    const void* c, Site site) {
  FragmentCall call{d, a, b, c};
  warp_wide(
      name, 0xFFFFFFFFu, call,
      [=](FragmentCall* const* lanes) {
        if (format == Format::s8) {
          multiply_16x16<int>(lanes, format);
        } else {
          multiply_16x16<float>(lanes, format);
        }
      },
      true, site);
}

void store_fragment(const char* name, void* matrix, unsigned stride, const void* d, Site site) {
  check_fragment_memory(name, matrix, stride * 4, site);
  struct Call {
    const void* d;
  } call{d};
  warp_wide(
      name, 0xFFFFFFFFu, call,
      [=](Call* const* lanes) {
        for (unsigned index = 0; index < 256; ++index) {
          const auto* from = static_cast<const std::byte*>(lanes[lane_of(index, 8)]->d) + index % 8 * 4;
          std::memcpy(
              static_cast<std::byte*>(matrix) + (static_cast<std::size_t>(index / 16) * stride + index % 16) * 4, from,
              4);
        }
      },
      true, site);
}

namespace {

// PTX: a descriptor holds the start address (bits 0 to 13), the leading and the stride dimension's byte offset (16 to
// 29, 32 to 45), each divided by 16, and the swizzle (62 and 63: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes).
struct SharedMatrix {
  std::uint32_t start, leading, stride;
  unsigned swizzle_bytes;
};

SharedMatrix decode_descriptor(std::uint64_t bits) {
  constexpr unsigned kSwizzles[] = {0, 128, 64, 32};
  return {static_cast<std::uint32_t>(bits & 0x3FFF) << 4, static_cast<std::uint32_t>(bits >> 16 & 0x3FFF) << 4,
          static_cast<std::uint32_t>(bits >> 32 & 0x3FFF) << 4, kSwizzles[bits >> 62]};
}

// `rows` rows of 32 bytes whose elements follow each other along the depth. Rows come in groups of 8, `stride` bytes
// apart. Without a swizzle the rows of a group are 16 bytes apart, and the second 16 bytes of depth are `leading` bytes
// away; with one, the rows of a group are a span apart and contiguous within it.
Operand read_operand(const SharedMatrix& matrix, Format format, unsigned rows, const char* name, Site site) {
  Block& block = Block::current();
  const unsigned depth = 32 / bytes_of(format);
  Operand operand{std::vector<float>(static_cast<std::size_t>(rows) * depth), depth};
  for (unsigned row = 0; row < rows; ++row) {
    for (unsigned half = 0; half < 2; ++half) {
      const std::uint32_t in_group =
          matrix.swizzle_bytes == 0 ? row % 8 * 16 + half * matrix.leading : row % 8 * matrix.swizzle_bytes + half * 16;
      const std::uint32_t offset = swizzled(matrix.start + row / 8 * matrix.stride + in_group, matrix.swizzle_bytes);
      const std::byte* place = block.shared().at(offset);
      if (!block.shared().holds(place, 16))
        block.fault(std::string(name) + " reads outside every object of shared memory", site);
      for (unsigned e = 0; e < depth / 2; ++e) operand.row(row)[half * (depth / 2) + e] = decode(format, place, e);
    }
  }
  return operand;
}

// PTX: warp w of the group has rows 16 w to 16 w + 15; a lane has rows lane / 4 and lane / 4 + 8 of them, and of each 8
// columns those of number 2 (lane % 4) and the next one.
template <class T>
void land_product(Products::Accumulators& accumulators, Operand& a, Operand& b, unsigned columns, bool accumulate) {
  const std::size_t per_thread = accumulators.bytes / sizeof(T);
  auto* values = reinterpret_cast<T*>(accumulators.values.data());
  for (unsigned thread = 0; thread < 128; ++thread) {
    for (unsigned i = 0; i < columns / 2; ++i) {
      const unsigned row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8,
                     column = i / 4 * 8 + thread % 4 * 2 + i % 2;
      T& value = values[thread * per_thread + i];
      value = dot(a.row(row), b.row(column), a.depth, accumulate ? value : T{0});
    }
  }
}

struct ProductCall {
  void* d;
  std::uint64_t a, b;
  bool accumulate;
};

// The accumulators whose first thread's registers are calls[0]->d, taken from the registers if they are not pending
// yet.
std::shared_ptr<Products::Accumulators> accumulators_of(Products& products, ProductCall* const* calls,
                                                        std::size_t bytes) {
  for (const auto& known : products.accumulators) {
    if (known->registers[0] == calls[0]->d) return known;
  }
  auto made = std::make_shared<Products::Accumulators>();
  made->bytes = bytes;
  made->values.resize(128 * bytes);
  for (unsigned thread = 0; thread < 128; ++thread) {
    made->registers[thread] = calls[thread]->d;
    std::memcpy(made->values.data() + thread * bytes, calls[thread]->d, bytes);
    std::memset(calls[thread]->d, static_cast<int>(kPoison), bytes);
  }
  products.accumulators.push_back(made);
  return made;
}

void return_accumulators(Products& products, const std::shared_ptr<Products::Accumulators>& accumulators) {
  if (--accumulators->pending != 0) return;
  for (unsigned thread = 0; thread < 128; ++thread) {
    std::memcpy(accumulators->registers[thread], accumulators->values.data() + thread * accumulators->bytes,
                accumulators->bytes);
  }
  std::erase(products.accumulators, accumulators);
}

// The products of the running thread's warpgroup, for a call by all of its threads.
template <class Call, class Execute>
void warpgroup_wide(const char* name, Call& call, const Execute& execute, Site site) {
  const Group group = warpgroup_of(Block::thread());
  Block::current().gather(
      group, 0, name, &call,
      [&execute, group](void* const* threads) {
        execute(Block::current().products_of(group.first / 128), reinterpret_cast<Call* const*>(threads));
      },
      true, site);
}

struct NoArguments {};

}  // namespace

void multiply_async(const char* name, Format format, unsigned columns, void* d, std::uint64_t a, std::uint64_t b,
                    bool accumulate, Site site) {
  ProductCall call{d, a, b, accumulate};
  warpgroup_wide(
      name, call,
      [=](Products& products, ProductCall* const* calls) {
        Block& block = Block::current();
        if (!products.fenced) block.fault(std::string(name) + " without a wgmma.fence before it", site);
        for (unsigned thread = 1; thread < 128; ++thread) {
          if (calls[thread]->a != calls[0]->a || calls[thread]->b != calls[0]->b ||
              calls[thread]->accumulate != calls[0]->accumulate) {
            block.fault(std::string(name) + " with different descriptors in one warpgroup", site);
          }
        }
        const auto accumulators = accumulators_of(products, calls, std::size_t{columns} / 2 * 4);
        ++accumulators->pending;
        const ProductCall issued = *calls[0];
        const auto land = [=, &products] {
          Operand rows = read_operand(decode_descriptor(issued.a), format, 64, name, site);
          Operand others = read_operand(decode_descriptor(issued.b), format, columns, name, site);
          if (format == Format::s8) {
            land_product<int>(*accumulators, rows, others, columns, issued.accumulate);
          } else {
            land_product<float>(*accumulators, rows, others, columns, issued.accumulate);
          }
          return_accumulators(products, accumulators);
        };
        // Products land in order, so that an early one lands only if none is pending.
        const bool none_pending = products.groups.open.empty() && products.groups.committed.empty();
        if (none_pending && block.lands_now()) {
          land();
        } else {
          products.groups.open.push_back(land);
        }
      },
      site);
}

void fence_products(Site site) {
  NoArguments call;
  warpgroup_wide("wgmma.fence", call, [](Products& products, NoArguments* const*) { products.fenced = true; }, site);
}

void commit_products(Site site) {
  NoArguments call;
  warpgroup_wide(
      "wgmma.commit_group", call, [](Products& products, NoArguments* const*) { products.groups.commit(); }, site);
}

void wait_products(unsigned groups, Site site) {
  NoArguments call;
  warpgroup_wide(
      "wgmma.wait_group", call,
      [=](Products& products, NoArguments* const*) {
        products.groups.wait(groups);
        if (products.accumulators.empty()) products.fenced = false;  // threads may touch the registers from here on
      },
      site);
}

}  // namespace tessera::emulation
