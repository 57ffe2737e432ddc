// Consecutive convolutions, computed one band of lines (rows of an image) at a time: of each intermediate result only
// the last few lines are kept, in a ring buffer in the core's second-level cache. Each chunk of the result's lines
// computes intermediate lines once; lines at the border of two chunks are computed by both. If that would repeat much
// of the work of a small image, all threads share one stage after the other instead.
#include "ops/convolutions/conv_chain.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "backends/cpu/convolutions/channels_last.h"
#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/convolutions/line_conv.h"
#include "backends/cpu/products/layer_operands.h"
#include "backends/cpu/products/windows/indirect_product_bf16.h"
#include "backends/cpu/products/windows/indirect_product_f32.h"
#include "backends/cpu/products/windows/window_product.h"
#include "base/assert.h"
#include "base/numbers/checked.h"

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kBandBytes = 640 * 1024;  // of rings and weights, in the second-level cache
constexpr double kMostRepeated = 0.03;           // share of work that chunks finer than threads need may repeat
constexpr double kMuchRepeated = 0.1;            // share of repeated work above which threads share stages instead
constexpr std::int64_t kMostLines = 256;         // of a band: products have full tiles long before
constexpr double kCopyOperations = 40;           // operations of a product in the time of rounding and copying a number
constexpr std::int64_t kUnbounded = std::int64_t{1} << 40;

// The kernels that can compute single lines, one of which runs a stage.
enum class StageKernel : std::uint8_t { depthwise, product, depthwise_bf16, product_bf16 };

struct StageKernelChoice {
  StageKernel kernel;
  std::string reason;  // why the stage cannot be part of a chain, or ""
};

// Chooses the kernel that the device's table would choose for the layer alone.
StageKernelChoice choose_stage_kernel(const ops::NodeView& view) {
  constexpr std::string_view kFiltered = "a stage is faster by Winograd's algorithm";
  if (std::string reason = reject_variable_operands(view); !reason.empty())
    return {StageKernel::product, std::move(reason)};
  if (view.has_attribute("precision")) {
    if (reject_winograd_bf16(view).empty() && avoid_winograd_bf16(view).empty())
      return {StageKernel::product_bf16, std::string(kFiltered)};
    if (reject_conv_bf16(view).empty()) return {StageKernel::product_bf16, ""};
    if (std::string reason = reject_depthwise_bf16(view); !reason.empty())
      return {StageKernel::depthwise_bf16, std::move(reason)};
    return {StageKernel::depthwise_bf16,
            view.input(0).dtype == DType::bf16 ? "" : "the data of a depthwise stage is not stored rounded"};
  }
  if (reject_depthwise_f32(view).empty()) return {StageKernel::depthwise, ""};
  if (std::string reason = reject_conv_f32(view); !reason.empty()) return {StageKernel::product, std::move(reason)};
  const bool filtered = reject_winograd_f32(view).empty() && avoid_winograd_f32(view).empty();
  return {StageKernel::product, filtered ? std::string(kFiltered) : ""};
}

std::unique_ptr<LineKernel> make_kernel(StageKernel kernel, const ops::NodeView& view, WeightStore& weights) {
  switch (kernel) {
    case StageKernel::depthwise:
      return make_line_depthwise_f32(view, weights);
    case StageKernel::product:
      return make_line_conv_f32(view, weights);
    case StageKernel::depthwise_bf16:
      return make_line_depthwise_bf16(view, weights);
    case StageKernel::product_bf16:
      return make_line_conv_bf16(view, weights);
  }
  return nullptr;
}

// Rows of the microkernel's tile, or 0 if the stage is not a matrix product.
std::int64_t tile_rows(StageKernel kernel) {
  if (kernel == StageKernel::product_bf16) return multiplier_bf16(std::numeric_limits<std::int64_t>::max()).tile_rows;
  return kernel == StageKernel::product ? indirect_product_isa().rows : 0;
}

struct Stage {
  ops::WindowAxis lines;
  std::int64_t data = -1, addend = -1;  // indices of values
  std::int64_t line_bytes = 0, width = 0;
  double operations = 0;  // per line
  double copied = 0;      // per line: operations in the time of copying the data's lines, which each band does anew
  StageKernel kernel = StageKernel::product;
};

// Lines of a stage's result: [begin, end) are computed by a band, and lines from `low` on are still read.
struct Range {
  std::int64_t begin = 0, end = 0, low = 0;
  bool started = false;
};
using Ranges = std::array<Range, ops::kMostConvStages>;

class Chain {
 public:
  explicit Chain(const ops::ConvStageViews& views, std::size_t inputs) : inputs_(static_cast<std::int64_t>(inputs)) {
    for (std::size_t i = 0; i < views.size(); ++i) {
      const ops::NodeView view = views.view(i);
      const ChannelsLastGeometry geometry = channels_last_conv_geometry(view);
      const auto& [type, y] = views.result(i);
      Stage stage{.lines = geometry.axes[1],
                  .data = views.stage(i).operands[0],
                  .addend = views.stage(i).operands[3],
                  .width = y[2],
                  .kernel = choose_stage_kernel(view).kernel};
      stage.line_bytes = base::checked_multiply(base::checked_multiply(y[2], y[3]), std::int64_t{bits_of(type) / 8});
      stage.operations = view.op().operations(view) / static_cast<double>(std::max<std::int64_t>(1, y[0] * y[1]));
      if (stage.kernel == StageKernel::product_bf16 && view.input(0).dtype != DType::bf16)
        stage.copied = kCopyOperations * static_cast<double>(geometry.axes[2].input * geometry.channels);
      weight_bytes_ += view.input(1).bytes() / (stage.kernel == StageKernel::product_bf16 ? 2 : 1);  // as packed
      stages_.push_back(stage);
    }
    if (keeps_pace()) choose_height();
  }

  const std::vector<Stage>& stages() const { return stages_; }
  bool fits() const { return height_ > 0; }
  std::int64_t inputs() const { return inputs_; }
  std::int64_t lines() const { return stages_.back().lines.output; }
  std::int64_t height() const { return height_; }
  // Whether images have so few lines that a chunk of them repeats much of the work.
  bool repeats_much() const { return repeated_ > kMuchRepeated; }
  std::int64_t ring_lines(std::size_t stage) const { return rings_[stage]; }

  // Sets `ranges` to the lines of each stage that lines [first, end) of the chain's result need beyond those computed
  // before.
  void advance(Ranges& ranges, std::int64_t first, std::int64_t end, bool bounded = true) const {
    std::array<std::pair<std::int64_t, std::int64_t>, ops::kMostConvStages> needed;
    needed.fill({kUnbounded, -kUnbounded});
    needed[stages_.size() - 1] = {first, end};
    const auto need = [&](std::int64_t value, std::int64_t low, std::int64_t high) {
      if (value < inputs_ || low >= high) return;
      auto& lines = needed[static_cast<std::size_t>(value - inputs_)];
      lines = {std::min(lines.first, low), std::max(lines.second, high)};
    };
    for (std::size_t i = stages_.size(); i-- > 0;) {
      const ops::WindowAxis& axis = stages_[i].lines;
      Range& range = ranges[i];
      const auto [low, high] = needed[i];
      range.begin = range.end;
      range.low = range.end;
      if (low >= high) continue;
      if (!range.started) range.begin = range.end = low;
      range.started = true;
      range.low = low;
      range.end = std::max(range.end, high);
      if (range.begin == range.end) continue;
      std::int64_t from = range.begin * axis.stride - axis.pad_begin,
                   to = (range.end - 1) * axis.stride - axis.pad_begin + axis.extent();
      if (bounded) from = std::max<std::int64_t>(from, 0), to = std::min(to, axis.input);
      need(stages_[i].data, from, to);
      if (stages_[i].addend >= 0) need(stages_[i].addend, range.begin, range.end);
    }
  }

  // The number of chunks that the lines of an image are cut into so that all threads have work.
  std::int64_t chunks(std::int64_t pictures, std::int64_t threads) const {
    if (threads <= 1 || pictures % threads == 0) return 1;
    const std::int64_t even = threads / std::gcd(pictures, threads),
                       most = std::max<std::int64_t>(1, lines() / height_);
    const bool finer = static_cast<double>(2 * even) * repeated_ <= kMostRepeated;  // in case threads start late
    return std::min(most, finer ? 2 * even : even);
  }

 private:
  // Whether all paths from a stage to the result need the same number of its lines per line of the result: otherwise
  // the ring would have to grow from band to band.
  bool keeps_pace() const {
    std::array<std::int64_t, ops::kMostConvStages> pace{};
    pace[stages_.size() - 1] = 1;
    for (std::size_t i = stages_.size(); i-- > 0;) {
      const Stage& stage = stages_[i];
      if (pace[i] == 0 || stage.lines.stride > kUnbounded / pace[i]) return false;
      for (const auto& [value, lines] :
           {std::pair(stage.data, pace[i] * stage.lines.stride), std::pair(stage.addend, pace[i])}) {
        if (value < inputs_) continue;
        std::int64_t& its = pace[static_cast<std::size_t>(value - inputs_)];
        if (its != 0 && its != lines) return false;
        its = lines;
      }
    }
    return true;
  }

  // Chooses the smallest height of bands for which products have full tiles and few lines are copied twice.
  void choose_height() {
    double best = 0;
    for (std::int64_t height = 1; height <= std::min(lines(), kMostLines); ++height) {
      std::array<std::int64_t, ops::kMostConvStages> rings{};
      const double rate = try_height(height, rings);
      if (rate == 0) break;
      if (rate < best * 1.02) continue;
      best = rate;
      height_ = height;
      rings_ = rings;
    }
    if (height_ > 0) count_repeated();
  }

  // The least possible work as a share of the work of bands of this height, with incomplete tiles and lines copied
  // twice; 0 if the rings are too large.
  double try_height(std::int64_t height, std::array<std::int64_t, ops::kMostConvStages>& rings) const {
    Ranges ranges{};
    for (std::int64_t band = 0; band < 3; ++band) {
      advance(ranges, band * height, (band + 1) * height, false);
      for (std::size_t i = 0; i < stages_.size(); ++i) rings[i] = std::max(rings[i], ranges[i].end - ranges[i].low);
    }
    double bytes = static_cast<double>(weight_bytes_), work = 0, tiles = 0;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      if (i + 1 < stages_.size()) bytes += static_cast<double>(rings[i] * stages_[i].line_bytes);
      const std::int64_t count = ranges[i].end - ranges[i].begin, pixels = count * stages_[i].width,
                         rows = tile_rows(stages_[i].kernel);
      if (rows == 0) continue;
      const ops::WindowAxis& axis = stages_[i].lines;
      work += stages_[i].copied * static_cast<double>(count * axis.stride);
      tiles +=
          stages_[i].copied * static_cast<double>((count - 1) * axis.stride + std::max(axis.stride, axis.extent()));
      const double operations = stages_[i].operations / static_cast<double>(stages_[i].width);
      work += operations * static_cast<double>(pixels);
      tiles += operations * static_cast<double>(base::ceil_divide(pixels, rows) * rows);
    }
    if (bytes > kBandBytes) return 0;
    return tiles > 0 ? work / tiles : 1;
  }

  // Sets the share of an image's work that each further chunk repeats.
  void count_repeated() {
    Ranges ranges{};
    advance(ranges, 0, height_, false);
    Ranges first = ranges;
    advance(ranges, height_, 2 * height_, false);
    double all = 0, again = 0;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      all += stages_[i].operations * static_cast<double>(stages_[i].lines.output);
      again += stages_[i].operations *
               static_cast<double>((first[i].end - first[i].begin) - (ranges[i].end - ranges[i].begin));
    }
    repeated_ = all > 0 ? again / all : 0;
  }

  std::vector<Stage> stages_;
  std::int64_t inputs_, weight_bytes_ = 0, height_ = 0;
  std::array<std::int64_t, ops::kMostConvStages> rings_{};
  double repeated_ = 0;
};

class ConvChain final : public Kernel {
  static constexpr std::int64_t kCacheLine = sizeof(CacheLine);

 public:
  ConvChain(const ops::NodeView& view, WeightStore& weights) : ConvChain(ops::ConvStageViews(view), view, weights) {}

  // For the results of all stages of one image.
  std::int64_t scratch_bytes() const override { return chain_.repeats_much() ? picture_bytes_ : 0; }

  void run(KernelContext& context) const override {
    const Tensor& result = context.output(0);
    const std::int64_t pictures = result.shape()[0], chunks = chain_.chunks(pictures, context.resources().threads()),
                       lines = chain_.lines();
    if (pictures % context.resources().threads() != 0 && chain_.repeats_much()) {
      for (std::int64_t picture = 0; picture < pictures; ++picture) run_stages(context, picture);
      return;
    }
    context.parallel_for(pictures * chunks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        run_chunk(context, i / chunks, lines * (i % chunks) / chunks, lines * (i % chunks + 1) / chunks);
    });
  }

 private:
  ConvChain(const ops::ConvStageViews& views, const ops::NodeView& view, WeightStore& weights)
      : chain_(views, view.input_count()) {
    for (std::size_t i = 0; i < views.size(); ++i) {
      convs_.push_back(make_kernel(chain_.stages()[i].kernel, views.view(i), weights));
      if (i + 1 < views.size()) scratch_lines_ += ring_cache_lines(i), picture_bytes_ += picture_bytes(i);
    }
  }

  std::int64_t ring_cache_lines(std::size_t stage) const {
    return base::ceil_divide(chain_.ring_lines(stage) * chain_.stages()[stage].line_bytes, kCacheLine);
  }

  std::int64_t picture_bytes(std::size_t stage) const {
    return base::round_up(
        base::checked_multiply(chain_.stages()[stage].lines.output, chain_.stages()[stage].line_bytes), kCacheLine);
  }

  // The lines of each stage's result.
  using Results = std::array<ByteLines, ops::kMostConvStages>;
  ConstByteLines lines_of(const KernelContext& context, std::int64_t picture, const Results& results,
                          std::int64_t value) const {
    if (value < 0) return {};
    if (value >= chain_.inputs()) return results[static_cast<std::size_t>(value - chain_.inputs())];
    const Tensor& input = context.input(static_cast<std::size_t>(value));
    const std::int64_t bytes = input.shape()[2] * input.shape()[3] * (bits_of(input.dtype()) / 8);
    return {static_cast<const std::byte*>(input.raw()) + picture * input.shape()[1] * bytes, bytes, 0};
  }
  ByteLines result_of(KernelContext& context, std::int64_t picture) const {
    const std::int64_t bytes = chain_.stages().back().line_bytes;
    return {static_cast<std::byte*>(context.output(0).mutable_raw()) + picture * chain_.lines() * bytes, bytes, 0};
  }

  // Computes one stage of an image after the other, each with all threads.
  void run_stages(KernelContext& context, std::int64_t picture) const {
    const std::vector<Stage>& stages = chain_.stages();
    Results results;
    std::byte* room = context.scratch();
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const std::int64_t lines = stages[i].lines.output;
      results[i] = i + 1 < stages.size() ? ByteLines{room, stages[i].line_bytes, 0} : result_of(context, picture);
      room += picture_bytes(i);
      const ConstByteLines x = lines_of(context, picture, results, stages[i].data),
                           z = lines_of(context, picture, results, stages[i].addend);
      const std::int64_t pieces = 2 * context.resources().threads();
      context.parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t first = lines * begin / pieces, last = lines * end / pieces;
        if (first < last) convs_[i]->run_lines(x, z, results[i], first, last);
      });
    }
  }

  void run_chunk(KernelContext& context, std::int64_t picture, std::int64_t first, std::int64_t last) const {
    thread_local std::vector<CacheLine> scratch;
    scratch.resize(static_cast<std::size_t>(scratch_lines_));
    const std::vector<Stage>& stages = chain_.stages();
    Results results;
    CacheLine* ring = scratch.data();
    for (std::size_t i = 0; i + 1 < stages.size(); ++i) {
      results[i] = {reinterpret_cast<std::byte*>(ring), stages[i].line_bytes, chain_.ring_lines(i)};
      ring += ring_cache_lines(i);
    }
    results[stages.size() - 1] = result_of(context, picture);
    Ranges ranges{};
    for (std::int64_t line = first; line < last; line += chain_.height()) {
      context.check_stop();
      chain_.advance(ranges, line, std::min(last, line + chain_.height()));
      for (std::size_t i = 0; i < stages.size(); ++i)
        run_range(i, ranges[i], lines_of(context, picture, results, stages[i].data),
                  lines_of(context, picture, results, stages[i].addend), results[i]);
    }
  }

  // Computes lines of a stage in pieces whose lines are contiguous in all operands.
  void run_range(std::size_t i, const Range& range, const ConstByteLines& x, const ConstByteLines& z,
                 const ByteLines& y) const {
    TESSERA_ASSERT(y.period == 0 || range.end - range.low <= y.period, "a ring holds all lines that are still read");
    for (std::int64_t line = range.begin; line < range.end;) {
      std::int64_t count = std::min(range.end - line, y.together(line));
      if (z.data != nullptr) count = std::min(count, z.together(line));
      if (chain_.stages()[i].lines.kernel == 1 && chain_.stages()[i].lines.stride == 1)
        count = std::min(count, x.together(line));
      convs_[i]->run_lines(x, z, y, line, line + count);
      line += count;
    }
  }

  Chain chain_;
  std::vector<std::unique_ptr<LineKernel>> convs_;
  std::int64_t scratch_lines_ = 0, picture_bytes_ = 0;  // of rings, and of all results of an image but the last
};

}  // namespace

std::string reject_conv_chain(const ops::NodeView& view) {
  if (view.output(0).dtype == DType::undefined) return "wants known shapes";
  if (view.output(0).elements() == 0) return "its result is empty";
  const ops::ConvStageViews stages(view);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (std::string reason = choose_stage_kernel(stages.view(i)).reason; !reason.empty()) return reason;
  }
  return Chain(stages, view.input_count()).fits() ? ""
                                                  : "a line of each result and the weights are more than stays in a "
                                                    "cache, or stages go on at different strides";
}

KernelPointer make_conv_chain(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<ConvChain>(view, weights);
}

}  // namespace tessera::backends::cpu
