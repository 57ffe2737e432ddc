// Length: one kernel, whose steps share the sizes and the workspace of a head.
// The gradient of attention in float32 (T. Dao, "FlashAttention-2", arXiv:2307.08691, section 3.1): scores of blocks of
// queries and keys are recomputed block by block, and never stored as a whole.
//
// A task is some queries of one head. It accumulates the gradients of its queries in the result, and those of keys and
// values too if it is the only task of their head; otherwise each task has a part in scratch memory, and the parts are
// added in order. The tasks depend only on the shapes, so results do not depend on the number of threads.
#include "ops/attention/attention_gradient.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backends/cpu/attention/attention_plan.h"
#include "backends/cpu/attention/attention_rows.h"
#include "backends/cpu/attention/kernels.h"
#include "backends/cpu/machine/operand_rules.h"
#include "backends/cpu/products/gemm_f32_isa.h"
#include "backends/cpu/products/windows/indirect_product_f32.h"
#include "backends/host/random.h"
#include "base/numbers/checked.h"
#include "base/threads/yield_point.h"

namespace tessera::backends::cpu {
namespace {

using base::ceil_divide;
using base::round_up;
namespace input = ops::attention_gradient_input;

constexpr std::int64_t kBlockKeys = 128, kBlockQueries = 96;
// The most queries of a task whose transposes and sums are kept at once.
constexpr std::int64_t kMostSpanQueries = 384;
constexpr std::int64_t kWantedTasks = 24, kLeastTaskQueries = 128;

alignas(64) constexpr float kNoRow[2048] = {};

struct Operands {
  const float *query, *key, *value, *output, *statistics, *gradient;
  AttentionMasks masks;
  AttentionDropout dropout;
  float *query_gradient, *key_gradient, *value_gradient;
};

// Buffers of a thread. Panels are those of an indirect product; the panels of scores, weights and their gradients all
// have as many columns as the widest.
struct GradientWorkspace {
  std::vector<float> keys, keys_across, values;       // of a block: [size][keys], [keys][size], [value size][keys]
  std::vector<float> queries, gradients;              // of a span, transposed: [size][queries], [value size][queries]
  std::vector<float> means;                           // per query of a span
  std::vector<float> weights, scores;                 // [query][key] of a block; the gradients of scores
  std::vector<float> factors;                         // of dropout, on weights
  std::vector<float> key_gradients, value_gradients;  // of a block, transposed: [size][keys], [value size][keys]

  static GradientWorkspace& of_this_thread() {
    thread_local GradientWorkspace workspace;
    return workspace;
  }
};

// Queries [first, first + queries) of a head, whose transposes are `stride` apart.
struct Span {
  std::int64_t batch, head, first, queries, stride;
};
// Keys [first, first + keys) of a head, `padded` to whole panels.
struct Block {
  std::int64_t first, keys, padded;
};

class AttentionGradient final : public Kernel {
 public:
  explicit AttentionGradient(const ops::NodeView& view)
      : sizes_(ops::attention_sizes(view, view.input(input::query).shape, view.input(input::key).shape,
                                    view.input(input::value).shape, nullptr)),
        causal_(view.integer("is_causal") != 0),
        query_(sizes_.packed, sizes_.query_heads, sizes_.query_length, sizes_.head_size),
        output_(sizes_.packed, sizes_.query_heads, sizes_.query_length, sizes_.value_head_size),
        key_(sizes_.packed, sizes_.kv_heads, sizes_.new_length, sizes_.head_size),
        value_(sizes_.packed, sizes_.kv_heads, sizes_.new_length, sizes_.value_head_size) {
    keys_ = sizes_.new_length;
    nan_rows_ = ops::nan_rows_of(view);
    masks_ = AttentionMaskLayout(view, input::mask, input::replacement, input::second_mask);
    if (view.has_input(input::mask)) {
      keys_ = std::min(keys_, masks_.mask.length);
    }
    const std::int64_t heads = std::max<std::int64_t>(1, sizes_.batch * sizes_.query_heads);
    chunks_ = std::clamp<std::int64_t>(ceil_divide(kWantedTasks, heads), 1,
                                       std::max<std::int64_t>(1, sizes_.query_length / kLeastTaskQueries));
    parts_ = sizes_.kv_heads == 0 ? 1 : sizes_.query_heads / sizes_.kv_heads * chunks_;
  }

  std::int64_t scratch_bytes() const override {
    if (parts_ == 1) return 0;
    const std::int64_t rows = base::checked_multiply(sizes_.batch * sizes_.query_heads * chunks_, sizes_.new_length);
    return base::checked_multiply(rows, 4 * (sizes_.head_size + sizes_.value_head_size));
  }

  void run(KernelContext& context) const override {
    const Operands call = operands(context);
    auto* parts = reinterpret_cast<float*>(context.scratch());
    context.parallel_for(sizes_.batch * sizes_.query_heads * chunks_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) run_task(call, parts, task);
    });
    if (parts_ == 1) return;
    const std::int64_t rows = sizes_.batch * sizes_.kv_heads * sizes_.new_length;
    context.parallel_for(rows, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) join_parts(call, parts, row);
    });
  }

 private:
  Operands operands(KernelContext& context) const {
    const auto of = [&](std::size_t i) { return context.input(i).data<float>(); };
    Operands call{of(input::query),
                  of(input::key),
                  of(input::value),
                  of(input::output),
                  of(input::statistics),
                  of(input::output_gradient),
                  {},
                  {},
                  context.output(0).mutable_data<float>(),
                  context.output(1).mutable_data<float>(),
                  context.output(2).mutable_data<float>()};
    if (context.has_input(input::mask)) {
      const Tensor& mask = context.input(input::mask);
      if (mask.dtype() == DType::boolean) call.masks.allowed = mask.data<bool>();
      else call.masks.mask = mask.data<float>();
    }
    if (context.has_input(input::replacement)) call.masks.replacement = of(input::replacement);
    if (context.has_input(input::second_mask)) call.masks.second_mask = of(input::second_mask);
    if (context.has_input(input::random))
      call.dropout = {static_cast<double>(context.real("dropout")), host::read_random(context.input(input::random))};
    return call;
  }

  // The destination of a task's gradients of keys or values: rows `stride` apart.
  struct Rows {
    float* data;
    std::int64_t stride;
  };
  Rows rows(float* result, const AttentionHeads& heads, float* part, std::int64_t size, const Span& span) const {
    if (parts_ == 1) return {result + heads.at(span.batch, sizes_.kv_head(span.head)), heads.stride};
    return {part, size};
  }
  // The parts are [batch][query head][chunk] of [key][size], first those of keys, then those of values.
  std::int64_t key_part(std::int64_t task) const { return task * sizes_.new_length * sizes_.head_size; }
  std::int64_t value_part(std::int64_t task) const {
    const std::int64_t tasks = sizes_.batch * sizes_.query_heads * chunks_;
    return key_part(tasks) + task * sizes_.new_length * sizes_.value_head_size;
  }

  void run_task(const Operands& call, float* parts, std::int64_t task) const {
    const std::int64_t head = task / chunks_, chunk = task % chunks_, queries = sizes_.query_length;
    const std::int64_t begin = chunk * queries / chunks_, end = (chunk + 1) * queries / chunks_;
    Span span{.batch = head / sizes_.query_heads, .head = head % sizes_.query_heads, .first = begin};
    float *key_part_at = nullptr, *value_part_at = nullptr;
    if (parts_ > 1) {
      key_part_at = parts + key_part(task);
      value_part_at = parts + value_part(task);
    }
    const Rows keys = rows(call.key_gradient, key_, key_part_at, sizes_.head_size, span);
    const Rows values = rows(call.value_gradient, value_, value_part_at, sizes_.value_head_size, span);
    for (std::int64_t t = 0; t < sizes_.new_length; ++t) {
      std::fill_n(keys.data + t * keys.stride, sizes_.head_size, 0.0f);
      std::fill_n(values.data + t * values.stride, sizes_.value_head_size, 0.0f);
    }
    float* query_gradient = call.query_gradient + query_.at(span.batch, span.head);
    for (std::int64_t i = begin; i < end; ++i) std::fill_n(query_gradient + i * query_.stride, sizes_.head_size, 0.0f);
    const std::int64_t spans = ceil_divide(end - begin, kMostSpanQueries);
    for (std::int64_t s = 0; s < spans; ++s) {
      span.first = begin + s * (end - begin) / spans;
      span.queries = begin + (s + 1) * (end - begin) / spans - span.first;
      add_span(call, span, keys, values);
    }
  }

  std::int64_t visible(std::int64_t i) const { return causal_ ? std::min(keys_, i + 1) : keys_; }

  void add_span(const Operands& call, Span& span, const Rows& key_gradients, const Rows& value_gradients) const {
    GradientWorkspace& workspace = GradientWorkspace::of_this_thread();
    prepare(call, span, workspace);
    const std::int64_t seen = visible(span.first + span.queries - 1);
    for (std::int64_t key = 0; key < seen; key += kBlockKeys) {
      const std::int64_t keys = std::min(kBlockKeys, seen - key);
      const Block block{key, keys, round_up(keys, product_->columns)};
      pack(call, span, block, workspace);
      std::fill_n(workspace.key_gradients.data(), sizes_.head_size * kBlockKeys, 0.0f);
      std::fill_n(workspace.value_gradients.data(), sizes_.value_head_size * kBlockKeys, 0.0f);
      for (std::int64_t i = 0; i < span.queries; i += kBlockQueries) {
        base::yield_point();
        const std::int64_t count = std::min(kBlockQueries, span.queries - i);
        if (visible(span.first + i + count - 1) > key) add_block(call, span, block, i, count, workspace);
      }
      add_transposed(workspace.key_gradients, sizes_.head_size, block, key_gradients);
      add_transposed(workspace.value_gradients, sizes_.value_head_size, block, value_gradients);
    }
  }

  // Computes the transposes of the span's queries and gradients, and Σ dY ∘ Y per query.
  void prepare(const Operands& call, Span& span, GradientWorkspace& workspace) const {
    const std::int64_t size = sizes_.head_size, value_size = sizes_.value_head_size;
    span.stride = round_up(span.queries, product_->lanes);
    const std::int64_t out = output_.at(span.batch, span.head) + span.first * output_.stride;
    pack_attention_panels(call.query + query_.at(span.batch, span.head) + span.first * query_.stride, 1, query_.stride,
                          size, span.queries, span.queries, product_->lanes,
                          attention_room(workspace.queries, size * span.stride));
    pack_attention_panels(call.gradient + out, 1, output_.stride, value_size, span.queries, span.queries,
                          product_->lanes, attention_room(workspace.gradients, value_size * span.stride));
    float* means = attention_room(workspace.means, span.queries);
    for (std::int64_t i = 0; i < span.queries; ++i) {
      const std::int64_t row = out + i * output_.stride;
      rows_->scores(call.gradient + row, call.output + row, 0, value_size, 1, means + i);
    }
    attention_room(workspace.weights, kBlockQueries * kBlockKeys);
    attention_room(workspace.scores, kBlockQueries * kBlockKeys);
    attention_room(workspace.key_gradients, size * kBlockKeys);
    attention_room(workspace.value_gradients, value_size * kBlockKeys);
  }

  void pack(const Operands& call, const Span& span, const Block& block, GradientWorkspace& workspace) const {
    const std::int64_t size = sizes_.head_size, value_size = sizes_.value_head_size, kv = sizes_.kv_head(span.head),
                       columns = product_->columns, lanes = product_->lanes;
    const float* key = call.key + key_.at(span.batch, kv) + block.first * key_.stride;
    const float* value = call.value + value_.at(span.batch, kv) + block.first * value_.stride;
    pack_attention_panels(key, 1, key_.stride, size, block.keys, columns, lanes,
                          attention_room(workspace.keys, size * kBlockKeys));
    pack_attention_panels(value, 1, value_.stride, value_size, block.keys, columns, lanes,
                          attention_room(workspace.values, value_size * kBlockKeys));
    // Rows behind the last key are zero, as are the gradients of their scores.
    float* across = attention_room(workspace.keys_across, round_up(size, lanes) * kBlockKeys);
    for (std::int64_t column = 0; column < size; column += columns) {
      const std::int64_t width = std::min(columns, size - column), stride = round_up(width, lanes);
      pack_attention_panels(key + column, key_.stride, 1, block.keys, width, columns, lanes, across);
      std::fill(across + block.keys * stride, across + block.padded * stride, 0.0f);
      across += block.padded * stride;
    }
  }

  // Processes `count` queries of the span, from the i-th on, with the keys of a block.
  void add_block(const Operands& call, const Span& span, const Block& block, std::int64_t i, std::int64_t count,
                 GradientWorkspace& workspace) const {
    const std::int64_t size = sizes_.head_size, value_size = sizes_.value_head_size, first = span.first + i;
    multiply_by_keys(call.query + query_.at(span.batch, span.head) + first * query_.stride, query_.stride, size, count,
                     block, workspace.keys.data(), workspace.weights.data());
    multiply_by_keys(call.gradient + output_.at(span.batch, span.head) + first * output_.stride, output_.stride,
                     value_size, count, block, workspace.values.data(), workspace.scores.data());
    weigh(call, span, block, i, count, workspace);
    multiply_by_queries(workspace.gradients.data() + i, span.stride, value_size, count, block, workspace.weights.data(),
                        workspace.value_gradients.data());
    multiply_by_queries(workspace.queries.data() + i, span.stride, size, count, block, workspace.scores.data(),
                        workspace.key_gradients.data());
    add_query_gradients(call.query_gradient + query_.at(span.batch, span.head) + first * query_.stride, count, block,
                        workspace);
  }

  // Multiplies `count` rows with the keys, as panels [count][columns].
  void multiply_by_keys(const float* left_rows, std::int64_t stride, std::int64_t size, std::int64_t count,
                        const Block& block, const float* right, float* to) const {
    const float* left[IndirectProduct::kMostRows];
    for (std::int64_t row = 0; row < count; row += product_->rows) {
      const std::int64_t some = std::min(product_->rows, count - row);
      for (std::int64_t j = 0; j < some; ++j) left[j] = left_rows + (row + j) * stride;
      for (std::int64_t column = 0; column < block.keys; column += product_->columns) {
        product_->multiply({.rows = some,
                            .segments = 1,
                            .length = size,
                            .left = left,
                            .right = right + column * size,
                            .columns = std::min(product_->columns, block.keys - column),
                            .bias = kNoRow,
                            .c = to + column * count + row * product_->columns,
                            .ldc = product_->columns});
      }
    }
  }

  // Replaces products by weights, and the gradients of weights by those of the products.
  void weigh(const Operands& call, const Span& span, const Block& block, std::int64_t i, std::int64_t count,
             GradientWorkspace& workspace) const {
    const std::int64_t columns = product_->columns;
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int64_t query = span.first + i + j;
      const float* row =
          call.statistics + 2 * ((span.batch * sizes_.query_heads + span.head) * sizes_.query_length + query);
      const bool is_zero = nan_rows_ == ops::NanRows::zeros && std::isnan(row[1]);
      const std::int64_t seen = std::clamp<std::int64_t>(visible(query) - block.first, 0, block.keys);
      for (std::int64_t column = 0; column < block.padded; column += columns) {
        const GradientRule rule{sizes_.scale,
                                is_zero ? -std::numeric_limits<float>::infinity() : row[0],
                                1 / row[1],
                                workspace.means[static_cast<std::size_t>(i + j)],
                                nan_rows_ == ops::NanRows::propagate,
                                masks_.rule(call.masks, span.batch, span.head, query, block.first + column)};
        const std::int64_t at = column * count + j * columns,
                           some = std::clamp<std::int64_t>(seen - column, 0, columns);
        float *weights = workspace.weights.data() + at, *gradients = workspace.scores.data() + at;
        if (call.dropout.ratio == 0) {
          rows_->go_back(rule, weights, gradients, some, columns);
          continue;
        }
        // Dropout factors of the weights used with the values; then the factors of all weights.
        float* factors = attention_room(workspace.factors, columns);
        call.dropout.factors(sizes_, span.batch, span.head, query, block.first + column, some, factors);
        for (std::int64_t t = 0; t < some; ++t) gradients[t] *= factors[t];
        rows_->go_back(rule, weights, gradients, some, columns);
        for (std::int64_t t = 0; t < some; ++t) weights[t] *= factors[t];
      }
    }
  }

  // `to` [size][kBlockKeys] += the transposed rows times the panels.
  void multiply_by_queries(const float* transposed, std::int64_t stride, std::int64_t size, std::int64_t count,
                           const Block& block, const float* panels, float* to) const {
    const float* left[IndirectProduct::kMostRows];
    for (std::int64_t row = 0; row < size; row += product_->rows) {
      const std::int64_t some = std::min(product_->rows, size - row);
      for (std::int64_t j = 0; j < some; ++j) left[j] = transposed + (row + j) * stride;
      product_->multiply({.rows = some,
                          .segments = 1,
                          .length = count,
                          .left = left,
                          .right = panels,
                          .columns = block.padded,
                          .bias = kNoRow,
                          .addend = to + row * kBlockKeys,
                          .c = to + row * kBlockKeys,
                          .ldc = kBlockKeys});
    }
  }

  // `to` += the gradients of the scores times the keys, where each panel is one segment of a row.
  void add_query_gradients(float* to, std::int64_t count, const Block& block,
                           const GradientWorkspace& workspace) const {
    const std::int64_t columns = product_->columns, panels = block.padded / columns, size = sizes_.head_size;
    const float* left[kBlockKeys / 4 * IndirectProduct::kMostRows];
    for (std::int64_t row = 0; row < count; row += product_->rows) {
      const std::int64_t some = std::min(product_->rows, count - row);
      for (std::int64_t p = 0; p < panels; ++p) {
        const float* panel = workspace.scores.data() + (p * count + row) * columns;
        for (std::int64_t j = 0; j < some; ++j) left[p * IndirectProduct::kMostRows + j] = panel + j * columns;
      }
      float* y = to + row * query_.stride;
      for (std::int64_t column = 0; column < size; column += columns) {
        product_->multiply({.rows = some,
                            .segments = panels,
                            .length = columns,
                            .left = left,
                            .right = workspace.keys_across.data() + column * block.padded,
                            .columns = std::min(columns, size - column),
                            .bias = kNoRow,
                            .addend = y + column,
                            .c = y + column,
                            .ldc = query_.stride});
      }
    }
  }

  // Adds the transpose of [size][kBlockKeys] to the rows of the block's keys.
  static void add_transposed(const std::vector<float>& from, std::int64_t size, const Block& block, const Rows& to) {
    constexpr std::int64_t kTogether = 8;  // columns of a cache line's rows
    for (std::int64_t begin = 0; begin < size; begin += kTogether) {
      const std::int64_t end = std::min(size, begin + kTogether);
      for (std::int64_t t = 0; t < block.keys; ++t) {
        float* row = to.data + (block.first + t) * to.stride;
        for (std::int64_t e = begin; e < end; ++e) row[e] += from[static_cast<std::size_t>(e * kBlockKeys + t)];
      }
    }
  }

  // Adds up the parts of row `row` of [batch][kv head][key].
  void join_parts(const Operands& call, const float* parts, std::int64_t row) const {
    const std::int64_t t = row % sizes_.new_length, head = row / sizes_.new_length, size = sizes_.head_size,
                       value_size = sizes_.value_head_size;
    const std::int64_t b = head / sizes_.kv_heads, kv = head % sizes_.kv_heads;
    float* key = call.key_gradient + key_.at(b, kv) + t * key_.stride;
    float* value = call.value_gradient + value_.at(b, kv) + t * value_.stride;
    std::fill_n(key, size, 0.0f);
    std::fill_n(value, value_size, 0.0f);
    for (std::int64_t part = 0; part < parts_; ++part) {
      const float* from = parts + key_part(head * parts_ + part) + t * size;
      for (std::int64_t e = 0; e < size; ++e) key[e] += from[e];
      from = parts + value_part(head * parts_ + part) + t * value_size;
      for (std::int64_t e = 0; e < value_size; ++e) value[e] += from[e];
    }
  }

  ops::AttentionSizes sizes_;
  bool causal_;
  AttentionHeads query_, output_, key_, value_;
  AttentionMaskLayout masks_;
  ops::NanRows nan_rows_ = ops::NanRows::zeros_for_no_key;
  std::int64_t keys_ = 0;  // that any query may attend to
  std::int64_t chunks_ = 1, parts_ = 1;
  const AttentionRows* rows_ = &attention_rows();
  const IndirectProductIsa* product_ = &indirect_product_isa();
};

}  // namespace

std::string reject_attention_gradient(const ops::NodeView& view) {
  if (std::string reason = reject_unless_f32(view); !reason.empty()) return reason;
  if (const DType type = view.input(input::statistics).dtype; type != DType::f32)
    return "the statistics are " + std::string(name_of(type));
  const DType mask = view.has_input(input::mask) ? view.input(input::mask).dtype : DType::f32;
  if (mask != DType::f32 && mask != DType::boolean) return "the mask is " + std::string(name_of(mask));
  for (const std::size_t i : {input::replacement, input::second_mask}) {
    if (view.has_input(i) && view.input(i).dtype != DType::f32)
      return "'" + std::string(view.op().inputs[i].name) + "' is " + std::string(name_of(view.input(i).dtype));
  }
  for (std::size_t i = 0; i < 3; ++i) {
    if (!view.wants_output(i)) return "a gradient is not wanted";
  }
  return "";
}

KernelPointer make_attention_gradient(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<AttentionGradient>(view);
}

}  // namespace tessera::backends::cpu
