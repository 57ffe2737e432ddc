// MatMul and Gemm in float64 and in integers of 32 and 64 bits, which wrap. Works in blocks of rows and columns and
// packs one panel of the right operand at a time; each element is summed over k in an order that depends on k alone.
#include <algorithm>
#include <type_traits>

#include "backends/cpu/products/kernels.h"
#include "backends/cpu/products/matmul_geometry.h"
#include "backends/host/numeric.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/products/matmul_typed.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#ifndef TESSERA_BACKENDS_CPU_MATMUL_TYPED
#define TESSERA_BACKENDS_CPU_MATMUL_TYPED
namespace tessera::backends::cpu {

// C(i, j) = sum over k of A(i, k) B(k, j); element (i, j) of an operand is at i * row + j * column from its first.
struct TypedMatrices {
  const void* a = nullptr;
  std::int64_t a_row = 0, a_column = 0;
  const void* b = nullptr;
  std::int64_t b_row = 0, b_column = 0;
  void* c = nullptr;
  std::int64_t c_row = 0;
  std::int64_t depth = 0;
};

// Computes rows [row, row + rows) and columns [column, column + columns) of C.
using TypedProductBlock = void (*)(const TypedMatrices& matrices, std::int64_t row, std::int64_t rows,
                                   std::int64_t column, std::int64_t columns);

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
using Tag = hn::ScalableTag<T>;
template <typename T>
using Lanes = hn::Vec<Tag<T>>;

template <typename T>
HWY_INLINE Lanes<T> multiply_add(Lanes<T> a, Lanes<T> b, Lanes<T> sum) {
  if constexpr (std::is_same_v<T, double>) {
    return hn::MulAdd(a, b, sum);
  } else if constexpr (sizeof(T) == 4) {
    return hn::Add(hn::Mul(a, b), sum);
  } else {
#if HWY_TARGET == HWY_AVX2
    // Only the lower 64 bits of a 64-bit product count: the product of the lower halves plus the mixed products shifted
    // up.
    const hn::Repartition<std::uint32_t, Tag<T>> halves;
    const Tag<T> d;
    const auto x = hn::BitCast(halves, a), y = hn::BitCast(halves, b);
    const auto x_high = hn::BitCast(halves, hn::ShiftRight<32>(a)), y_high = hn::BitCast(halves, hn::ShiftRight<32>(b));
    const auto low = hn::BitCast(d, hn::MulEven(x, y));
    const auto mixed = hn::Add(hn::BitCast(d, hn::MulEven(x_high, y)), hn::BitCast(d, hn::MulEven(x, y_high)));
    return hn::Add(hn::Add(low, hn::ShiftLeft<32>(mixed)), sum);
#elif HWY_TARGET == HWY_AVX3
    return hn::Add(a * b, sum);
#else
    const Tag<T> d;
    return hn::Set(
        d, static_cast<T>(static_cast<std::uint64_t>(hn::GetLane(a)) * static_cast<std::uint64_t>(hn::GetLane(b)) +
                          static_cast<std::uint64_t>(hn::GetLane(sum))));
#endif
  }
}

// The rows of C and vectors of columns in a register tile.
constexpr std::int64_t kTileRows = 4;
constexpr std::int64_t kTileVectors = HWY_TARGET == HWY_AVX3 ? 4 : 2;
constexpr std::int64_t kDepthBlock = 128;
// With fewer rows a panel is read in place.
constexpr std::int64_t kRowsWorthPacking = 8;

template <typename T, std::int64_t rows>
HWY_INLINE void tile(const T* a, std::int64_t a_row, std::int64_t a_column, const T* b, std::int64_t b_row,
                     std::int64_t depth, T* sums, std::int64_t sums_row, bool starts) {
  const Tag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  Lanes<T> c[rows][kTileVectors];
  HWY_UNROLL(4)
  for (std::int64_t r = 0; r < rows; ++r) {
    HWY_UNROLL(4)
    for (std::int64_t v = 0; v < kTileVectors; ++v)
      c[r][v] = starts ? hn::Zero(d) : hn::LoadU(d, sums + r * sums_row + v * lanes);
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    Lanes<T> right[kTileVectors];
    HWY_UNROLL(4)
    for (std::int64_t v = 0; v < kTileVectors; ++v) right[v] = hn::LoadU(d, b + k * b_row + v * lanes);
    HWY_UNROLL(4)
    for (std::int64_t r = 0; r < rows; ++r) {
      const Lanes<T> left = hn::Set(d, a[r * a_row + k * a_column]);
      HWY_UNROLL(4)
      for (std::int64_t v = 0; v < kTileVectors; ++v) c[r][v] = multiply_add<T>(left, right[v], c[r][v]);
    }
  }
  HWY_UNROLL(4)
  for (std::int64_t r = 0; r < rows; ++r) {
    HWY_UNROLL(4)
    for (std::int64_t v = 0; v < kTileVectors; ++v) hn::StoreU(c[r][v], d, sums + r * sums_row + v * lanes);
  }
}

template <typename T>
void any_tile(std::int64_t rows, const T* a, std::int64_t a_row, std::int64_t a_column, const T* b, std::int64_t b_row,
              std::int64_t depth, T* sums, std::int64_t sums_row, bool starts) {
  switch (rows) {
    case 1:
      return tile<T, 1>(a, a_row, a_column, b, b_row, depth, sums, sums_row, starts);
    case 2:
      return tile<T, 2>(a, a_row, a_column, b, b_row, depth, sums, sums_row, starts);
    case 3:
      return tile<T, 3>(a, a_row, a_column, b, b_row, depth, sums, sums_row, starts);
    default:
      return tile<T, kTileRows>(a, a_row, a_column, b, b_row, depth, sums, sums_row, starts);
  }
}

template <typename T>
void product_block(const TypedMatrices& all, std::int64_t row, std::int64_t rows, std::int64_t column,
                   std::int64_t columns) {
  constexpr std::int64_t most = kTileVectors * static_cast<std::int64_t>(hn::MaxLanes(Tag<T>()));
  const std::int64_t panel = kTileVectors * static_cast<std::int64_t>(hn::Lanes(Tag<T>()));
  HWY_ALIGN T packed[kDepthBlock * most];
  HWY_ALIGN T edge[kTileRows * most];
  const T* a = static_cast<const T*>(all.a) + row * all.a_row;
  const T* b = static_cast<const T*>(all.b) + column * all.b_column;
  T* c = static_cast<T*>(all.c) + row * all.c_row + column;
  if (all.depth == 0) {
    for (std::int64_t i = 0; i < rows; ++i) std::fill_n(c + i * all.c_row, columns, T{0});
  }
  for (std::int64_t k = 0; k < all.depth; k += kDepthBlock) {
    const std::int64_t depth = std::min(kDepthBlock, all.depth - k);
    for (std::int64_t j = 0; j < columns; j += panel) {
      const std::int64_t width = std::min(panel, columns - j);
      const T* right = b + k * all.b_row + j * all.b_column;
      std::int64_t right_row = all.b_row;
      if (width < panel || all.b_column != 1 || rows >= kRowsWorthPacking) {
        for (std::int64_t i = 0; i < depth; ++i) {
          T* to = packed + i * panel;
          if (all.b_column == 1) std::copy_n(right + i * all.b_row, width, to);
          else
            for (std::int64_t l = 0; l < width; ++l) to[l] = right[i * all.b_row + l * all.b_column];
          std::fill_n(to + width, panel - width, T{0});
        }
        right = packed;
        right_row = panel;
      }
      for (std::int64_t i = 0; i < rows; i += kTileRows) {
        const std::int64_t some = std::min(kTileRows, rows - i);
        const T* left = a + i * all.a_row + k * all.a_column;
        T* sums = c + i * all.c_row + j;
        if (width == panel) {
          any_tile<T>(some, left, all.a_row, all.a_column, right, right_row, depth, sums, all.c_row, k == 0);
          continue;
        }
        for (std::int64_t r = 0; r < some && k > 0; ++r) std::copy_n(sums + r * all.c_row, width, edge + r * panel);
        any_tile<T>(some, left, all.a_row, all.a_column, right, right_row, depth, edge, panel, k == 0);
        for (std::int64_t r = 0; r < some; ++r) std::copy_n(edge + r * panel, width, sums + r * all.c_row);
      }
    }
  }
}

}  // namespace

// Unsigned integers wrap as signed ones do, so they share functions.
TypedProductBlock typed_product_block(DType type) {
  switch (type) {
    case DType::f64:
      return product_block<double>;
    case DType::i32:
    case DType::u32:
      return product_block<std::int32_t>;
    case DType::i64:
    case DType::u64:
      return product_block<std::int64_t>;
    default:
      return nullptr;
  }
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(typed_product_block);

// The largest block of C that is computed at a time, and the fewest blocks worth handing out.
constexpr std::int64_t kBlockRows = 64, kFewestBlockRows = 8, kBlockColumns = 256, kEnoughBlocks = 16;

// A batch of products, cut into blocks for threads.
struct ProductBlocks {
  ProductBlocks(std::int64_t batches, std::int64_t m, std::int64_t n) : m(m), n(n) {
    columns = (n + kBlockColumns - 1) / kBlockColumns;
    while (rows_together > kFewestBlockRows &&
           batches * columns * ((m + rows_together - 1) / rows_together) < kEnoughBlocks)
      rows_together /= 2;
    rows = (m + rows_together - 1) / rows_together;
  }

  std::int64_t m, n, rows_together = kBlockRows, rows = 0, columns = 0;

  // Calls body(batch, row, rows, column, columns) for each block, on the threads of the run.
  template <typename Body>
  void run(KernelContext& context, std::int64_t batches, std::int64_t depth, const Body& body) const {
    const double operations = 2.0 * static_cast<double>(std::min(m, rows_together)) *
                              static_cast<double>(std::min(n, kBlockColumns)) * static_cast<double>(depth);
    const auto grain = static_cast<std::int64_t>(std::clamp(5e5 / std::max(operations, 1.0), 1.0, 1024.0));
    context.parallel_for(batches * rows * columns, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t row = i / columns % rows * rows_together, column = i % columns * kBlockColumns;
        body(i / columns / rows, row, std::min(rows_together, m - row), column, std::min(kBlockColumns, n - column));
      }
    });
  }
};

class TypedMatMul final : public Kernel {
 public:
  explicit TypedMatMul(const ops::NodeView& view)
      : geometry_(matmul_geometry(view.input(0).shape, view.input(1).shape, false, false)),
        blocks_(static_cast<std::int64_t>(geometry_.left_offsets.size()), geometry_.shape.m, geometry_.shape.n),
        block_(HWY_DYNAMIC_DISPATCH(typed_product_block)(view.input(0).dtype)),
        element_bytes_(bits_of(view.input(0).dtype) / 8) {}

  void run(KernelContext& context) const override {
    const auto* a = static_cast<const std::byte*>(context.input(0).raw());
    const auto* b = static_cast<const std::byte*>(context.input(1).raw());
    auto* c = static_cast<std::byte*>(context.output(0).mutable_raw());
    const auto [m, n, k] = geometry_.shape;
    const auto batches = static_cast<std::int64_t>(geometry_.left_offsets.size());
    blocks_.run(context, batches, k,
                [&, m = m, n = n, k = k](std::int64_t batch, std::int64_t row, std::int64_t rows, std::int64_t column,
                                         std::int64_t columns) {
                  const auto at = static_cast<std::size_t>(batch);
                  const TypedMatrices matrices{.a = a + geometry_.left_offsets[at] * element_bytes_,
                                               .a_row = k,
                                               .a_column = 1,
                                               .b = b + geometry_.right_offsets[at] * element_bytes_,
                                               .b_row = n,
                                               .b_column = 1,
                                               .c = c + batch * m * n * element_bytes_,
                                               .c_row = n,
                                               .depth = k};
                  block_(matrices, row, rows, column, columns);
                });
  }

 private:
  MatMulGeometry geometry_;
  ProductBlocks blocks_;
  TypedProductBlock block_;
  std::int64_t element_bytes_;
};

class TypedGemm final : public Kernel {
 public:
  explicit TypedGemm(const ops::NodeView& view)
      : transposed_left_(view.integer("transA") != 0),
        transposed_right_(view.integer("transB") != 0),
        type_(view.input(0).dtype),
        m_(view.output(0).shape[0]),
        n_(view.output(0).shape[1]),
        k_(view.input(0).shape[transposed_left_ ? 0 : 1]),
        blocks_(1, m_, n_),
        block_(HWY_DYNAMIC_DISPATCH(typed_product_block)(type_)),
        alpha_(static_cast<double>(view.real("alpha"))),
        beta_(static_cast<double>(view.real("beta"))) {}

  void run(KernelContext& context) const override {
    TypedMatrices matrices{.a = context.input(0).raw(),
                           .a_row = transposed_left_ ? 1 : k_,
                           .a_column = transposed_left_ ? m_ : 1,
                           .b = context.input(1).raw(),
                           .b_row = transposed_right_ ? 1 : n_,
                           .b_column = transposed_right_ ? k_ : 1,
                           .c = context.output(0).mutable_raw(),
                           .c_row = n_,
                           .depth = k_};
    blocks_.run(context, 1, k_,
                [&](std::int64_t, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
                  block_(matrices, row, rows, column, columns);
                  if (type_ == DType::f64) add<double>(context, row, rows, column, columns);
                  else if (bits_of(type_) == 32) add<std::uint32_t>(context, row, rows, column, columns);
                  else if (type_ == DType::i64) add<std::int64_t>(context, row, rows, column, columns);
                  else add<std::uint64_t>(context, row, rows, column, columns);
                });
  }

 private:
  template <typename T>
  void add(KernelContext& context, std::int64_t row, std::int64_t rows, std::int64_t column,
           std::int64_t columns) const {
    const bool adds = context.has_input(2);
    if (alpha_ == 1 && !adds) return;
    std::int64_t row_stride = 0, column_stride = 0;
    const T* addend = nullptr;
    if (adds) {
      const Shape& shape = context.input(2).shape();
      const std::int64_t width = shape.empty() ? 1 : shape.back();
      row_stride = shape.size() == 2 && shape[0] != 1 ? width : 0;
      column_stride = width == 1 ? 0 : 1;
      addend = static_cast<const T*>(context.input(2).raw());
    }
    T* c = static_cast<T*>(context.output(0).mutable_raw());
    for (std::int64_t i = row; i < row + rows; ++i) {
      for (std::int64_t j = column; j < column + columns; ++j) {
        T& value = c[i * n_ + j];
        const T* other = adds ? addend + i * row_stride + j * column_stride : nullptr;
        if constexpr (std::is_same_v<T, double>) value = alpha_ * value + (adds ? beta_ * *other : 0.0);
        else if constexpr (sizeof(T) == 4) value += *other;
        // The reference adds values of 64 bits in the same way.
        else value = host::convert<T>(static_cast<double>(value) + static_cast<double>(*other));
      }
    }
  }

  bool transposed_left_, transposed_right_;
  DType type_;
  std::int64_t m_, n_, k_;
  ProductBlocks blocks_;
  TypedProductBlock block_;
  double alpha_, beta_;
};

}  // namespace

std::string reject_matmul_typed(const ops::NodeView& view) {
  const bool fits = HWY_DYNAMIC_DISPATCH(typed_product_block)(view.input(0).dtype) != nullptr;
  return fits ? "" : "takes f64 and integers of 32 and 64 bits";
}

std::string reject_gemm_typed(const ops::NodeView& view) {
  if (std::string reason = reject_matmul_typed(view); !reason.empty()) return reason;
  const bool is_plain = view.real("alpha") == 1 && (!view.has_input(2) || view.real("beta") == 1);
  return view.input(0).dtype == DType::f64 || is_plain ? "" : "scales no integers";
}

KernelPointer make_matmul_typed(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<TypedMatMul>(view);
}

KernelPointer make_gemm_typed(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<TypedGemm>(view);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
