// Attention of float32 that never stores the scores of all queries and keys: queries in panels that stay in registers and the
// first-level cache, keys and values in blocks, softmax as the blocks come (T. Dao et al., "FlashAttention", arXiv:2205.14135).
// Heads are read and written where they lie, so packed operands need no transposes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backends/cpu/gemm_f32.h"
#include "backends/cpu/gemm_f32_isa.h"
#include "backends/cpu/indirect_product.h"
#include "backends/cpu/kernels/attention_rows.h"
#include "backends/cpu/kernels/kernels.h"
#include "base/checked.h"
#include "ops/attention.h"

namespace tessera::backends::cpu {
namespace {

using base::ceil_divide;
using base::round_up;
using ops::AttentionSizes;

enum Operand : std::size_t { kQuery, kKey, kValue, kMask, kPastKey, kPastValue, kValidKeys };

constexpr std::int64_t kMostBlockKeys = 512;
constexpr std::int64_t kBlockFloats = 32 * 1024;   // of packed keys and values together: well within the second-level cache
constexpr std::int64_t kMostSizes = 2048;          // of a head's key and value together; blocks of larger ones would be too thin
constexpr std::int64_t kFewQueries = 2;            // up to here packing keys costs more than it saves
constexpr std::int64_t kMostChunkQueries = 512, kLeastChunkQueries = 128;
constexpr std::int64_t kWantedChunks = 24;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Rows of [batch, heads, length, size] wherever heads lie; the elements of a row are contiguous.
struct Rows {
  std::int64_t batch_stride = 0, head_stride = 0, stride = 0;

  Rows(bool packed, std::int64_t heads, std::int64_t length, std::int64_t size)
      : batch_stride(heads * length * size), head_stride(packed ? size : length * size), stride(packed ? heads * size : size) {}
  std::int64_t at(std::int64_t batch, std::int64_t head) const { return batch * batch_stride + head * head_stride; }
};

// What a thread needs for one block and one panel.
struct Workspace {
  std::vector<float> keys, values, queries, scores;
  std::vector<SoftmaxState> states;

  static Workspace& of_this_thread() {
    thread_local Workspace workspace;
    return workspace;
  }
};

// At least `count` elements, kept for the next call.
template <typename T>
T* room(std::vector<T>& vector, std::int64_t count) {
  if (vector.size() < static_cast<std::size_t>(count)) vector.resize(static_cast<std::size_t>(count));
  return vector.data();
}

// Columns of a right operand in the panels of an indirect product; element (k, column) at data[k * k_stride + column * column_stride].
void pack_panels(const float* data, std::int64_t k_stride, std::int64_t column_stride, std::int64_t k, std::int64_t columns, std::int64_t panel, std::int64_t lanes, float* to) {
  for (std::int64_t column = 0; column < columns; column += panel) {
    const std::int64_t width = std::min(panel, columns - column), stride = round_up(width, lanes);
    gemm_f32_isa().pack(data + column * column_stride, column_stride, k_stride, width, k, to, stride);
    for (std::int64_t row = 0; width < stride && row < k; ++row) std::fill(to + row * stride + width, to + (row + 1) * stride, 0.0f);
    to += k * stride;
  }
}

class Attention final : public Kernel {
 public:
  explicit Attention(const ops::NodeView& view)
      : product_(&indirect_product_isa()),
        rows_(&attention_rows()),
        has_past_(view.has_input(kPastKey)),
        sizes_(ops::attention_sizes(view, view.input(kQuery).shape, view.input(kKey).shape, view.input(kValue).shape, has_past_ ? &view.input(kPastKey).shape : nullptr)),
        query_rows_(sizes_.packed, sizes_.query_heads, sizes_.query_length, sizes_.head_size),
        output_rows_(sizes_.packed, sizes_.query_heads, sizes_.query_length, sizes_.value_head_size),
        key_rows_(sizes_.packed && !has_past_, sizes_.kv_heads, sizes_.total_length(), sizes_.head_size),
        value_rows_(sizes_.packed && !has_past_, sizes_.kv_heads, sizes_.total_length(), sizes_.value_head_size),
        causal_(view.integer("is_causal") != 0),
        softcap_(view.real("softcap")) {
    const std::int64_t sizes = sizes_.head_size + sizes_.value_head_size;
    in_place_ = sizes_.query_length <= kFewQueries || sizes > kMostSizes;
    block_keys_ = std::clamp(kBlockFloats / std::max<std::int64_t>(sizes, 1) / 32 * 32, std::int64_t{32}, kMostBlockKeys);
    const std::int64_t heads = sizes_.batch * sizes_.query_heads, queries = sizes_.query_length;
    if (heads == 0 || queries == 0) return;
    const std::int64_t wanted = ceil_divide(kWantedChunks, heads), chunks = std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, queries / kLeastChunkQueries));
    chunk_queries_ = std::min(kMostChunkQueries, round_up(ceil_divide(queries, chunks), product_->rows));
    chunks_ = ceil_divide(queries, chunk_queries_);
    tasks_ = heads * chunks_;
    if (view.has_input(kMask)) plan_mask(view.input(kMask).shape);
  }

  // Keys and values of past and present where nobody wants them.
  std::int64_t scratch_bytes() const override { return has_past_ ? 4 * base::checked_add(joined_floats(sizes_.head_size), joined_floats(sizes_.value_head_size)) : 0; }

  void run(KernelContext& context) const override {
    auto* scratch = reinterpret_cast<float*>(context.scratch());
    Call call{.query = context.input(kQuery).data<float>(), .output = context.output(0).mutable_data<float>()};
    call.key = joined(context, kKey, kPastKey, 1, sizes_.head_size, scratch);
    call.value = joined(context, kValue, kPastValue, 2, sizes_.value_head_size, has_past_ ? scratch + joined_floats(sizes_.head_size) : nullptr);
    if (context.has_input(kMask)) {
      const Tensor& mask = context.input(kMask);
      if (mask.dtype() == DType::boolean) call.allowed = mask.data<bool>();
      else call.mask = mask.data<float>();
    }
    if (context.has_input(kValidKeys)) call.valid_keys = context.input(kValidKeys).data<std::int64_t>();
    // Few operations a task: several at a time.
    const double operations = static_cast<double>(std::max<std::int64_t>(1, chunk_queries_)) * static_cast<double>(sizes_.total_length() * (sizes_.head_size + sizes_.value_head_size));
    const auto grain = static_cast<std::int64_t>(std::clamp(2e5 / std::max(operations, 1.0), 1.0, 1024.0));
    context.parallel_for(tasks_, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) run_task(call, task);
    });
  }

 private:
  struct Call {
    const float* query;
    float* output;
    const float *key = nullptr, *value = nullptr, *mask = nullptr;
    const bool* allowed = nullptr;
    const std::int64_t* valid_keys = nullptr;
  };
  // Some queries of one head.
  struct Task {
    std::int64_t batch, head, begin, end;
    std::int64_t keys;  // that any of them may look at
    const float *query, *key, *value;
    float* output;
  };
  struct Block {
    std::int64_t begin, count;
    bool finite_values;
  };

  std::int64_t joined_floats(std::int64_t size) const {
    return round_up(base::checked_multiply(base::checked_multiply(sizes_.batch * sizes_.kv_heads, sizes_.total_length()), size), 16);
  }

  // The mask broadcasts to [batch, heads, queries, keys]; where it is shorter than the keys it forbids the rest.
  void plan_mask(const Shape& shape) {
    mask_length_ = shape.back();
    std::int64_t stride = mask_length_;
    std::int64_t* const strides[] = {&mask_query_stride_, &mask_head_stride_, &mask_batch_stride_};
    for (std::size_t i = 1; i < shape.size(); ++i) {
      const std::int64_t dim = shape[shape.size() - 1 - i];
      *strides[i - 1] = dim == 1 ? 0 : stride;
      stride *= dim;
    }
  }

  // Keys or values of past and present, [batch, kv heads, length, size]: in the output that wants them, else in `scratch`. Without a
  // past the operand itself, though an output may want a copy.
  const float* joined(KernelContext& context, std::size_t now, std::size_t past, std::size_t output, std::int64_t size, float* scratch) const {
    const float* fresh = context.input(now).data<float>();
    const bool wanted = context.wants_output(output);
    if (!has_past_ && !wanted) return fresh;
    float* to = wanted ? context.output(output).mutable_data<float>() : scratch;
    const float* before = has_past_ ? context.input(past).data<float>() : nullptr;
    const Rows from(sizes_.packed, sizes_.kv_heads, sizes_.new_length, size);
    const std::int64_t total = sizes_.total_length(), past_floats = sizes_.past_length * size;
    const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, total * size));
    context.parallel_for(sizes_.batch * sizes_.kv_heads, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        float* head = to + i * total * size;
        if (past_floats > 0) head = std::copy_n(before + i * past_floats, past_floats, head);
        const float* row = fresh + from.at(i / sizes_.kv_heads, i % sizes_.kv_heads);
        for (std::int64_t t = 0; t < sizes_.new_length; ++t, row += from.stride) head = std::copy_n(row, size, head);
      }
    });
    return has_past_ ? to : fresh;
  }

  // Keys that query i may look at.
  std::int64_t visible(const Task& task, std::int64_t i) const { return causal_ ? std::clamp<std::int64_t>(sizes_.past_length + i + 1, 0, task.keys) : task.keys; }

  void run_task(const Call& call, std::int64_t index) const {
    const std::int64_t heads = sizes_.batch * sizes_.query_heads;
    // The last queries first: where causal, they have the most to do.
    const std::int64_t chunk = chunks_ - 1 - index / heads, batch = index % heads / sizes_.query_heads, head = index % sizes_.query_heads;
    Task task{.batch = batch, .head = head, .begin = chunk * chunk_queries_, .end = std::min(sizes_.query_length, (chunk + 1) * chunk_queries_)};
    task.keys = sizes_.total_length();
    if (call.mask != nullptr || call.allowed != nullptr) task.keys = std::min(task.keys, mask_length_);
    if (call.valid_keys != nullptr) task.keys = std::clamp<std::int64_t>(call.valid_keys[batch], 0, task.keys);
    task.keys = visible(task, task.end - 1);
    task.query = call.query + query_rows_.at(batch, head);
    task.key = call.key + key_rows_.at(batch, sizes_.kv_head(head));
    task.value = call.value + value_rows_.at(batch, sizes_.kv_head(head));
    task.output = call.output + output_rows_.at(batch, head);
    Workspace& workspace = Workspace::of_this_thread();
    room(workspace.queries, (in_place_ ? 1 : product_->rows) * sizes_.head_size);
    room(workspace.scores, product_->rows * block_keys_);
    SoftmaxState* states = room(workspace.states, chunk_queries_);
    std::fill_n(states, task.end - task.begin, SoftmaxState{-kInfinity, 0});
    for (std::int64_t i = task.begin; i < task.end; ++i) std::fill_n(task.output + i * output_rows_.stride, sizes_.value_head_size, 0.0f);
    for (std::int64_t key = 0; key < task.keys; key += block_keys_) {
      Block block{.begin = key, .count = std::min(block_keys_, task.keys - key), .finite_values = false};
      if (!in_place_) pack(task, block, workspace);
      const std::int64_t step = in_place_ ? 1 : product_->rows;
      for (std::int64_t i = task.begin; i < task.end; i += step) {
        if (in_place_) add_row(call, task, block, i, workspace);
        else add_panel(call, task, block, i, std::min(step, task.end - i), workspace);
      }
    }
    for (std::int64_t i = task.begin; i < task.end; ++i) {
      const SoftmaxState& state = states[i - task.begin];
      float* y = task.output + i * output_rows_.stride;
      if (state.largest != -kInfinity) rows_->scale(y, 1 / state.sum, sizes_.value_head_size, y);
    }
  }

  void pack(const Task& task, Block& block, Workspace& workspace) const {
    const std::int64_t size = sizes_.head_size, value_size = sizes_.value_head_size, padded = round_up(value_size, product_->lanes);
    float* keys = room(workspace.keys, size * round_up(block_keys_, product_->lanes));
    float* values = room(workspace.values, padded * block_keys_);
    pack_panels(task.key + block.begin * key_rows_.stride, 1, key_rows_.stride, size, block.count, product_->columns, product_->lanes, keys);
    pack_panels(task.value + block.begin * value_rows_.stride, value_rows_.stride, 1, block.count, value_size, product_->columns, product_->lanes, values);
    block.finite_values = rows_->is_finite(values, padded * block.count);
  }

  ScoreRule rule(const Call& call, const Task& task, const Block& block, std::int64_t i) const {
    const std::int64_t at = task.batch * mask_batch_stride_ + task.head * mask_head_stride_ + i * mask_query_stride_ + block.begin;
    return {softcap_, call.mask != nullptr ? call.mask + at : nullptr, call.allowed != nullptr ? call.allowed + at : nullptr};
  }

  // One query and one block, both where they lie.
  void add_row(const Call& call, const Task& task, const Block& block, std::int64_t i, Workspace& workspace) const {
    const std::int64_t count = std::min(block.count, visible(task, i) - block.begin);
    if (count <= 0) return;
    float *query = workspace.queries.data(), *scores = workspace.scores.data(), *y = task.output + i * output_rows_.stride;
    rows_->scale(task.query + i * query_rows_.stride, sizes_.scale, sizes_.head_size, query);
    rows_->scores(query, task.key + block.begin * key_rows_.stride, key_rows_.stride, sizes_.head_size, count, scores);
    weigh(call, task, block, i, scores, count, workspace);
    rows_->add_weighted(scores, task.value + block.begin * value_rows_.stride, value_rows_.stride, sizes_.value_head_size, count, y);
  }

  // A panel of queries and one packed block.
  void add_panel(const Call& call, const Task& task, const Block& block, std::int64_t first, std::int64_t count, Workspace& workspace) const {
    const std::int64_t size = sizes_.head_size, value_size = sizes_.value_head_size;
    const std::int64_t most = std::min(block.count, visible(task, first + count - 1) - block.begin);
    if (most <= 0) return;
    const float* left[IndirectProduct::kMostRows];
    for (std::int64_t j = 0; j < count; ++j) {
      float* query = workspace.queries.data() + j * size;
      rows_->scale(task.query + (first + j) * query_rows_.stride, sizes_.scale, size, query);
      left[j] = query;
    }
    static constexpr float zeros[kMostBlockKeys] = {};
    float* scores = workspace.scores.data();
    // Whole panels, as packed.
    const std::int64_t columns = std::min(block.count, round_up(most, product_->columns));
    product_->multiply({.rows = count, .segments = 1, .length = size, .left = left, .right = workspace.keys.data(), .columns = columns, .bias = zeros, .c = scores, .ldc = block_keys_});
    for (std::int64_t j = 0; j < count; ++j) {
      float* row = scores + j * block_keys_;
      const std::int64_t seen = std::clamp<std::int64_t>(visible(task, first + j) - block.begin, 0, most);
      if (seen > 0) weigh(call, task, block, first + j, row, seen, workspace);
      std::fill(row + seen, row + most, 0.0f);
      left[j] = row;
    }
    float* y = task.output + first * output_rows_.stride;
    if (!block.finite_values) {
      const float* value = task.value + block.begin * value_rows_.stride;
      for (std::int64_t j = 0; j < count; ++j) rows_->add_weighted(left[j], value, value_rows_.stride, value_size, most, y + j * output_rows_.stride);
      return;
    }
    for (std::int64_t column = 0; column < value_size; column += product_->columns) {
      product_->multiply({.rows = count, .segments = 1, .length = most, .left = left, .right = workspace.values.data() + column * block.count, .columns = std::min(product_->columns, value_size - column),
                          .bias = zeros, .addend = y + column, .c = y + column, .ldc = output_rows_.stride});
    }
  }

  // Scores of query i become weights, and what its output holds is brought to their measure.
  void weigh(const Call& call, const Task& task, const Block& block, std::int64_t i, float* scores, std::int64_t count, Workspace& workspace) const {
    const float factor = rows_->weigh(scores, count, rule(call, task, block, i), workspace.states[static_cast<std::size_t>(i - task.begin)]);
    float* y = task.output + i * output_rows_.stride;
    if (factor != 1 && block.begin > 0) rows_->scale(y, factor, sizes_.value_head_size, y);
  }

  const IndirectProductIsa* product_;
  const AttentionRows* rows_;
  bool has_past_;
  AttentionSizes sizes_;
  Rows query_rows_, output_rows_, key_rows_, value_rows_;
  bool causal_, in_place_ = false;
  float softcap_;
  std::int64_t block_keys_ = 0, chunk_queries_ = 0, chunks_ = 0, tasks_ = 0;
  std::int64_t mask_length_ = 0, mask_batch_stride_ = 0, mask_head_stride_ = 0, mask_query_stride_ = 0;
};

}  // namespace

std::string reject_attention(const ops::NodeView& view) {
  if (std::string reason = reject_unless_f32(view); !reason.empty()) return reason;
  if (view.input(kValue).dtype != DType::f32) return "the values are " + std::string(name_of(view.input(kValue).dtype));
  const DType mask = view.has_input(kMask) ? view.input(kMask).dtype : DType::f32;
  if (mask != DType::f32 && mask != DType::boolean) return "the mask is " + std::string(name_of(mask));
  return view.wants_output(3) ? "the scores are wanted" : "";
}

KernelPointer make_attention(const ops::NodeView& view, WeightStore&) { return std::make_unique<Attention>(view); }

}  // namespace tessera::backends::cpu
