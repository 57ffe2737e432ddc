// LSTM with 8-bit weights (DynamicQuantizeLSTM): the inputs of all steps are quantised together, and so is the hidden
// state of the whole batch before each step, to uint8; sums are exact integers. Sums are scaled in the order of the
// operator's decomposition.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "backends/cpu/element_wise/quantisation_rows.h"
#include "backends/cpu/machine/operand_rules.h"
#include "backends/cpu/products/gemm_s8.h"
#include "backends/cpu/recurrent/kernels.h"
#include "backends/cpu/recurrent/recurrent_layer.h"

namespace tessera::backends::cpu {
namespace {

// Inputs in addition to those of LSTM.
enum Input : std::size_t { kWScale = 8, kWZero, kRScale, kRZero };

class ByteProducts {
 public:
  using Element = float;
  static constexpr std::int64_t kWeightBytes = 1;

  ByteProducts(const ops::NodeView& view, WeightStore& store, const RecurrentLayer& layer)
      : layer_(layer),
        rows_(quantisation_rows()),
        w_(make_operand(view, store, 1, layer.features, false)),
        r_(make_operand(view, store, 2, layer.hidden, true)) {}

  // The quantised inputs, their scale and zero point, and the working memory of their product.
  std::int64_t scratch_bytes() const {
    return base::checked_add(
        base::checked_add(kHeaderBytes, base::round_up(base::checked_multiply(layer_.steps(), layer_.features), 64)),
        gemm_s8_left_bytes(layer_.steps(), layer_.features));
  }
  std::int64_t hidden_stride() const { return layer_.hidden; }
  RecurrentWeights weights(KernelContext&, std::byte*) const { return {w_.packed->data.get(), r_.packed->data.get()}; }

  const float* data(KernelContext& context, std::byte* scratch) const {
    const float* x = context.input(0).data<float>();
    const std::int64_t count = context.input(0).elements();
    const Quantisation how = quantisation_of(rows_.extremes(x, count));
    std::memcpy(scratch, &how, sizeof(how));
    auto* bytes = reinterpret_cast<std::uint8_t*>(scratch + kHeaderBytes);
    context.parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
      rows_.to_u8(x + begin, bytes + begin, end - begin, how.scale, how.zero);
    });
    return reinterpret_cast<const float*>(scratch);
  }

  void project(KernelContext& context, const std::byte* w, const float* x, std::int64_t direction, const float* bias,
               float* to) const {
    const std::int64_t steps = layer_.steps(), rows = layer_.rows();
    auto* scratch = reinterpret_cast<std::byte*>(const_cast<float*>(x));
    Quantisation how;
    std::memcpy(&how, scratch, sizeof(how));
    const auto zero = static_cast<std::uint8_t>(how.zero);
    const std::byte* bytes = scratch + kHeaderBytes;
    std::byte* left = scratch + kHeaderBytes + base::round_up(steps * layer_.features, 64);
    const std::int64_t first = direction * rows;
    const S8Operand right{nullptr, w_.is_signed, w_.zeros.data() + first, rows};
    gemm_s8(context, {steps, rows, layer_.features}, {bytes, false, &zero, 1}, right, w + direction * w_.part_bytes,
            left, {.sums = reinterpret_cast<std::int32_t*>(to)});
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / rows);
    context.parallel_for(steps, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        scale_sums(to + i * rows, rows, how.scale, &w_.scales[at(first)], bias);
    });
  }

  void recur(const std::byte* r, std::int64_t direction, std::int64_t chunk, RecurrentPart, const float* hidden,
             float* to) const {
    const std::int64_t columns = layer_.gates * layer_.units_of(chunk), depth = layer_.hidden,
                       stride = gemm_s8_left_stride(depth),
                       first = direction * layer_.rows() + layer_.gates * layer_.units * chunk;
    const Quantisation how = quantisation_of(rows_.extremes(hidden, layer_.batch * depth));
    thread_local std::vector<std::uint8_t> bytes;
    bytes.assign(at(layer_.batch * stride), 0);
    for (std::int64_t b = 0; b < layer_.batch; ++b)
      rows_.to_u8(hidden + b * depth, &bytes[at(b * stride)], depth, how.scale, how.zero);
    gemm_s8_serial({layer_.batch, columns, depth}, bytes.data(), static_cast<std::uint8_t>(how.zero),
                   {nullptr, r_.is_signed, r_.zeros.data() + first, columns}, r_.has_zeros,
                   r + (direction * layer_.chunks() + chunk) * r_.part_bytes, reinterpret_cast<std::int32_t*>(to));
    for (std::int64_t b = 0; b < layer_.batch; ++b)
      scale_sums(to + b * columns, columns, how.scale, &r_.scales[at(first)], nullptr);
  }

  static void widen(const float* from, float* to, std::int64_t count) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * 4);
  }
  static void round(const float* from, float* to, std::int64_t count) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * 4);
  }

 private:
  static constexpr std::int64_t kHeaderBytes = 64, kGrain = 16384;

  struct Quantisation {
    float scale, zero;
  };
  // The scale and zero point that DynamicQuantizeLinear chooses.
  static Quantisation quantisation_of(Extremes range) {
    const float scale = range.high == range.low ? 1.0f : (range.high - range.low) / 255.0f;
    const float ideal = std::clamp(std::nearbyint(-range.low / scale), 0.0f, 255.0f);
    return {scale, std::isnan(ideal) ? 0.0f : ideal};
  }

  // W or R, [directions, depth, rows], with a scale and zero point per row, rows in chunk order. W is packed as a
  // whole, R chunk by chunk.
  struct Operand {
    std::shared_ptr<const PackedWeights> packed;
    bool is_signed;
    std::int64_t part_bytes;
    std::vector<float> scales;
    std::vector<std::uint8_t> zeros;
    bool has_zeros = false;
  };

  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

  // Converts sums (integers in the bits of `line`) to floats: times the scales of both sides, plus the optional bias.
  static void scale_sums(float* line, std::int64_t count, float scale, const float* scales, const float* bias) {
    constexpr std::int64_t kBlock = 64;
    for (std::int64_t first = 0; first < count; first += kBlock) {
      std::int32_t sums[kBlock];
      const std::int64_t here = std::min(kBlock, count - first);
      std::memcpy(sums, line + first, at(here) * 4);
      for (std::int64_t j = 0; j < here; ++j)
        line[first + j] = static_cast<float>(sums[j]) * (scale * scales[first + j]);
      if (bias == nullptr) continue;
      for (std::int64_t j = 0; j < here; ++j) line[first + j] += bias[first + j];
    }
  }

  // Expands one number per direction or per row to one per row in chunk order.
  template <typename T>
  std::vector<T> by_row(const Tensor& tensor) const {
    const std::int64_t all = layer_.directions * layer_.rows();
    std::vector<T> plain(at(all)), ordered(at(all));
    const T* from = static_cast<const T*>(tensor.raw());
    for (std::int64_t i = 0; i < all; ++i) plain[at(i)] = from[tensor.elements() == all ? i : i / layer_.rows()];
    for (std::int64_t d = 0; d < layer_.directions; ++d)
      layer_.reorder(plain.data() + d * layer_.rows(), 1, ordered.data() + d * layer_.rows(), 1);
    return ordered;
  }

  Operand make_operand(const ops::NodeView& view, WeightStore& store, std::size_t input, std::int64_t depth,
                       bool by_chunk) const {
    const Tensor& weights = *view.constant(input);
    Operand made{nullptr, weights.dtype() == DType::i8, 0,
                 by_row<float>(*view.constant(input == 1 ? kWScale : kRScale)),
                 by_row<std::uint8_t>(*view.constant(input == 1 ? kWZero : kRZero))};
    made.has_zeros =
        gemm_s8_has_zeros({nullptr, made.is_signed, made.zeros.data(), static_cast<std::int64_t>(made.zeros.size())});
    const std::int64_t parts = by_chunk ? layer_.chunks() : 1,
                       part_rows = by_chunk ? layer_.gates * layer_.units : layer_.rows();
    made.part_bytes = base::round_up(gemm_s8_right_bytes(depth, part_rows), 64);
    const std::string key = fmt::format("s8_recurrent_{}_v1:{}:{}", by_chunk ? "r" : "w", layer_.hidden, layer_.units);
    made.packed = store.find_or_pack(
        weights, key, base::checked_multiply(made.part_bytes, parts * layer_.directions),
        [&](const Tensor& contents, std::byte* to) {
          const std::int64_t rows = layer_.rows();
          std::vector<std::uint8_t> ordered(at(depth * rows)), part(at(depth * std::min(rows, part_rows)));
          for (std::int64_t d = 0; d < layer_.directions; ++d) {
            const auto* from = static_cast<const std::uint8_t*>(contents.raw()) + d * depth * rows;
            for (std::int64_t l = 0; l < depth; ++l) layer_.reorder(from + l * rows, 1, ordered.data() + l * rows, 1);
            for (std::int64_t p = 0; p < parts; ++p) {
              const std::int64_t first = p * part_rows, count = std::min(part_rows, rows - first);
              for (std::int64_t l = 0; l < depth; ++l)
                std::memcpy(part.data() + l * count, ordered.data() + l * rows + first, at(count));
              gemm_s8_pack_right({part.data(), made.is_signed}, depth, count, to + (d * parts + p) * made.part_bytes);
            }
          }
        });
    return made;
  }

  RecurrentLayer layer_;
  QuantisationRows rows_;
  Operand w_, r_;
};

}  // namespace

std::string reject_recurrent_s8(const ops::NodeView& view) {
  for (const std::size_t i : {0, 1, 2}) {
    if (view.input(i).elements() == 0) return "empty operands";
  }
  // Steps beyond the end of a sequence must not count in the range by which its batch is quantised.
  if (view.has_input(4)) return "sequence_lens";
  // LSTM also clips the argument of the cell's function.
  if (std::isfinite(ops::read_recurrent(view).clip)) return "clip";
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}, std::size_t{kWScale}, std::size_t{kWZero},
                              std::size_t{kRScale}, std::size_t{kRZero}}) {
    if (view.constant(i) == nullptr) return "weights, scales or zero points that are not constant";
  }
  if (view.constant(kWZero)->dtype() != view.constant(1)->dtype() ||
      view.constant(kRZero)->dtype() != view.constant(2)->dtype())
    return "zero points of another type than the weights";
  return "";
}

KernelPointer make_recurrent_s8(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<Recurrent<ByteProducts>>(view, weights);
}

}  // namespace tessera::backends::cpu
