// DictionaryConv in float32 with constant coefficients: one matrix product gives the responses of the dictionary's
// vectors at every position of an image; each output is then the sum of a few lines of responses, each scaled.
#include <algorithm>
#include <limits>

#include "backends/cpu/convolutions/kernels.h"
#include "backends/cpu/convolutions/lookup_strip_f32.h"
#include "backends/cpu/convolutions/response_planes.h"
#include "backends/cpu/machine/operand_rules.h"
#include "backends/cpu/products/epilogue.h"
#include "backends/cpu/products/gemm_f32.h"
#include "base/numbers/checked.h"
#include "ops/convolutions/dictionary_conv.h"

namespace tessera::backends::cpu {
namespace {

using Inputs = ops::DictionaryConvInputs;

// Bytes of responses that stay in the second-level cache beside other data.
constexpr std::int64_t kGroupBytes = 512 * 1024;
// Bytes that the lookups of a strip may read so that they stay in the first-level cache. Shorter strips would not keep
// the multipliers busy.
constexpr std::int64_t kStripBytes = 40 * 1024;
constexpr std::int64_t kLeastLookupVectors = 6;

std::vector<ops::WindowAxis> window_axes_of(const ops::NodeView& view) {
  return ops::convolution_geometry(view, view.input(Inputs::data).shape, view.input(Inputs::coefficients).shape);
}

bool is_there(const Tensor* constant) {
  return constant != nullptr && constant->has_data() && !constant->is_deferred();
}

std::vector<std::int64_t> integers_of(const Tensor& indices) {
  if (indices.dtype() == DType::i64)
    return {indices.values<std::int64_t>().begin(), indices.values<std::int64_t>().end()};
  return {indices.values<std::int32_t>().begin(), indices.values<std::int32_t>().end()};
}

// Calls body(output, index in the tensor) for each nonzero coefficient, ordered by output, tap and term.
template <typename Body>
void for_each_lookup(const Tensor& coefficients, Body body) {
  const std::int64_t outputs = coefficients.shape()[0], terms = coefficients.shape()[1];
  const std::int64_t taps = coefficients.elements() / std::max<std::int64_t>(1, outputs * terms);
  const float* values = coefficients.data<float>();
  for (std::int64_t output = 0; output < outputs; ++output) {
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      for (std::int64_t term = 0; term < terms; ++term) {
        const std::int64_t at = (output * terms + term) * taps + tap;
        if (values[at] != 0) body(output, tap, at);
      }
    }
  }
}

// Elements of a line that are computed together, and which of them belong to the result.
struct Strip {
  struct Piece {
    std::int64_t from, to, count;  // elements of the strip, elements of an output, and how many
  };
  std::int64_t begin = 0;
  std::vector<Piece> pieces;
};

class DictionaryConv final : public Kernel {
 public:
  DictionaryConv(const ops::NodeView& view, WeightStore& store)
      : functions_(lookup_functions()),
        planes_(window_axes_of(view), functions_.lanes),
        activation_(plan_activation(view)),
        batch_(view.input(Inputs::data).shape[0]),
        channels_(view.input(Inputs::data).shape[1]),
        outputs_(view.output(0).shape[1]),
        vectors_(view.input(Inputs::dictionary).shape[0]),
        gemm_({vectors_, planes_.input_elements(), channels_}, view.constant(Inputs::dictionary) != nullptr, false) {
    find_lookups(view, store);
    if (const Tensor* dictionary = view.constant(Inputs::dictionary)) {
      dictionary_ = gemm_f32_packed_left(store, *dictionary, GemmOperand::strided(nullptr, channels_, 1), vectors_,
                                         channels_, 1, 0, "dictionary");
    }
    cut_strips();
    const std::int64_t image_bytes = std::max<std::int64_t>(1, 4 * vectors_ * planes_.elements());
    group_ = std::clamp<std::int64_t>(kGroupBytes / image_bytes, 1, std::max<std::int64_t>(1, batch_));
  }

  std::int64_t scratch_bytes() const override {
    const std::int64_t plain = planes_.are_plain() ? 0 : responses_elements();
    return 4 * (base::checked_multiply(group_, plain + planes_elements()) + kMostLookupVectors * functions_.lanes);
  }

  void run(KernelContext& context) const override {
    if (context.output(0).elements() == 0) return;
    auto* planes = reinterpret_cast<float*>(context.scratch());
    float* responses =
        planes_.are_plain() ? planes : planes + group_ * planes_elements() + kMostLookupVectors * functions_.lanes;
    for (std::int64_t image = 0; image < batch_; image += group_) {
      const std::int64_t images = std::min(group_, batch_ - image);
      if (images >= context.resources().threads() && is_small_image()) {
        compute_apart(context, image, images, responses, planes);
        continue;
      }
      respond(context, image, images, responses);
      if (responses != planes) {
        context.parallel_for(images * vectors_, grain_for(planes_.elements()),
                             [&](std::int64_t begin, std::int64_t end) {
                               for (std::int64_t i = begin; i < end; ++i)
                                 planes_.fill(responses + i * planes_.input_elements(), planes + i * planes_.elements(),
                                              functions_.copy_rows);
                             });
      }
      look_up(context, image, images, planes);
    }
  }

 private:
  // The number of items of a parallel loop that together take about 20 µs, if each takes `steps` simple steps.
  static std::int64_t grain_for(std::int64_t steps) {
    return std::max<std::int64_t>(1, 50'000 / std::max<std::int64_t>(1, steps));
  }
  // Whether one thread computes an image in about 200 µs, so that a more important run need not wait longer for the
  // core. Steps are multiply-adds of a vector.
  bool is_small_image() const {
    const auto lookups = static_cast<std::int64_t>(offsets_.size() * strips_.size()) * strip_vectors_;
    return lookups + vectors_ * planes_.input_elements() * channels_ / functions_.lanes < 400'000;
  }
  std::int64_t responses_elements() const { return vectors_ * planes_.input_elements(); }
  std::int64_t planes_elements() const { return vectors_ * planes_.elements(); }

  void find_lookups(const ops::NodeView& view, WeightStore& store) {
    const Tensor& coefficients = *view.constant(Inputs::coefficients);
    const std::vector<std::int64_t> indices = integers_of(*view.constant(Inputs::indices));
    starts_.assign(static_cast<std::size_t>(outputs_) + 1, 0);
    for_each_lookup(coefficients, [&](std::int64_t output, std::int64_t tap, std::int64_t at) {
      const std::int64_t index = indices[static_cast<std::size_t>(at)];
      require(index >= 0 && index < vectors_, ErrorKind::invalid_model, "'I' names vector {} of a dictionary of {}",
              index, vectors_);
      offsets_.push_back(static_cast<std::int32_t>(index * planes_.elements() + planes_.line_of(tap)));
      ++starts_[static_cast<std::size_t>(output) + 1];
    });
    for (std::size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
    const auto bytes = static_cast<std::int64_t>(4 * std::max<std::size_t>(1, offsets_.size()));
    coefficients_ =
        store.find_or_pack(coefficients, "dictionary_conv_f32_v1", bytes, [](const Tensor& from, std::byte* to) {
          auto* next = reinterpret_cast<float*>(to);
          for_each_lookup(from, [&](std::int64_t, std::int64_t, std::int64_t at) { *next++ = from.data<float>()[at]; });
        });
  }

  // Cuts lines into strips of about equal numbers of vectors.
  void cut_strips() {
    const std::int64_t vectors = base::ceil_divide(planes_.line_elements(), functions_.lanes);
    std::int64_t most = kMostLookupVectors;
    while (most > kLeastLookupVectors && 4 * vectors_ * planes_.touched_by(most * functions_.lanes) > kStripBytes)
      --most;
    const std::int64_t strips = base::ceil_divide(vectors, most);
    strip_vectors_ = strips == 0 ? 1 : base::ceil_divide(vectors, strips);
    const std::int64_t length = strip_vectors_ * functions_.lanes, pitch = planes_.pitch();
    for (std::int64_t begin = 0; begin < planes_.line_elements(); begin += length) {
      Strip strip{begin, {}};
      for (std::int64_t y = begin / pitch; y < planes_.height() && y * pitch < begin + length; ++y) {
        const std::int64_t first = std::max(begin, y * pitch),
                           last = std::min(begin + length, y * pitch + planes_.width());
        if (first < last) strip.pieces.push_back({first - begin, first - y * (pitch - planes_.width()), last - first});
      }
      if (!strip.pieces.empty()) strips_.push_back(std::move(strip));
    }
  }

  // One thread computes an image from its responses to its result, so that these stay in its core's caches.
  void compute_apart(KernelContext& context, std::int64_t first, std::int64_t images, float* responses,
                     float* planes) const {
    const GemmF32::Split split = gemm_.split(1);
    context.parallel_for(images, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t image = begin; image < end; ++image) {
        float *const given = responses + image * responses_elements(), *const laid = planes + image * planes_elements();
        for (std::int64_t tile = 0; tile < split.tiles(); ++tile)
          respond_tile(context, split, tile, first + image, given);
        if (given != laid) {
          for (std::int64_t i = 0; i < vectors_; ++i)
            planes_.fill(given + i * planes_.input_elements(), laid + i * planes_.elements(), functions_.copy_rows);
        }
        for (const Strip& strip : strips_)
          for (std::int64_t output = 0; output < outputs_; ++output)
            compute(context, laid, first + image, strip, output);
      }
    });
  }

  // [images, vectors, positions of the data]
  void respond(KernelContext& context, std::int64_t first, std::int64_t images, float* responses) const {
    const GemmF32::Split split = gemm_.split(context);
    const std::int64_t tiles = split.tiles(), products = vectors_ * planes_.input_elements() * channels_;
    context.parallel_for(images * tiles, grain_for(products / 16 / std::max<std::int64_t>(1, tiles)),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t i = begin; i < end; ++i)
                             respond_tile(context, split, i % tiles, first + i / tiles,
                                          responses + i / tiles * responses_elements());
                         });
  }

  void respond_tile(KernelContext& context, const GemmF32::Split& split, std::int64_t tile, std::int64_t image,
                    float* responses) const {
    const auto [m, n, k] = gemm_.shape();
    const float* x = context.input(Inputs::data).data<float>() + image * k * n;
    const GemmOperand left = dictionary_
                                 ? GemmOperand::prepacked(reinterpret_cast<const float*>(dictionary_->data.get()))
                                 : GemmOperand::strided(context.input(Inputs::dictionary).data<float>(), k, 1);
    gemm_.run(split, tile, left, GemmOperand::strided(x, n, 1), responses, n, {});
  }

  void look_up(KernelContext& context, std::int64_t first, std::int64_t images, const float* planes) const {
    const auto strips = static_cast<std::int64_t>(strips_.size());
    const std::int64_t lookups = static_cast<std::int64_t>(offsets_.size()) / outputs_ + 4;
    context.parallel_for(images * strips * outputs_, grain_for(lookups * strip_vectors_),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t i = begin; i < end; ++i) {
                             const std::int64_t image = i / outputs_ / strips;
                             compute(context, planes + image * planes_elements(), first + image,
                                     strips_[static_cast<std::size_t>(i / outputs_ % strips)], i % outputs_);
                           }
                         });
  }

  void compute(KernelContext& context, const float* planes, std::int64_t image, const Strip& strip,
               std::int64_t output) const {
    alignas(64) float sums[kMostLookupVectors * 16];
    const std::int64_t begin = starts_[static_cast<std::size_t>(output)],
                       end = starts_[static_cast<std::size_t>(output) + 1];
    const float bias = context.has_input(Inputs::bias) ? context.input(Inputs::bias).data<float>()[output] : 0.0f;
    functions_.strip[strip_vectors_ - 1]({planes + strip.begin, offsets_.data() + begin,
                                          reinterpret_cast<const float*>(coefficients_->data.get()) + begin,
                                          end - begin, bias, sums});
    const std::int64_t plane = (image * outputs_ + output) * planes_.height() * planes_.width();
    const float* addend =
        context.has_input(Inputs::addend) ? context.input(Inputs::addend).data<float>() + plane : nullptr;
    float* y = context.output(0).mutable_data<float>() + plane;
    for (const Strip::Piece& piece : strip.pieces) {
      functions_.finish(sums + piece.from, addend == nullptr ? nullptr : addend + piece.to, y + piece.to, piece.count,
                        activation_.low, activation_.high);
      if (activation_.after.function != nullptr) activation_.after(y + piece.to, piece.count);
    }
  }

  LookupFunctions functions_;
  ResponsePlanes planes_;
  ActivationPlan activation_;
  std::int64_t batch_, channels_, outputs_, vectors_;
  GemmF32 gemm_;
  std::shared_ptr<const PackedWeights> dictionary_, coefficients_;
  std::vector<std::int32_t> offsets_;  // of each lookup, within the planes of an image
  std::vector<std::int64_t> starts_;   // index of the first lookup of each output
  std::vector<Strip> strips_;
  std::int64_t strip_vectors_ = 1, group_ = 1;
};

}  // namespace

std::string reject_dictionary_conv_f32(const ops::NodeView& view) {
  if (std::string reason = reject_unless_f32(view); !reason.empty()) return reason;
  if (std::string reason = reject_activation(view); !reason.empty()) return reason;
  if (!is_there(view.constant(Inputs::indices)) || !is_there(view.constant(Inputs::coefficients)))
    return "the coefficients are no constants";
  if (view.input(Inputs::data).shape.size() > 4) return "more than two spatial axes";
  const std::int64_t elements =
      base::checked_multiply(view.input(Inputs::dictionary).shape[0],
                             ResponsePlanes(window_axes_of(view), lookup_functions().lanes).elements());
  return elements > std::numeric_limits<std::int32_t>::max() ? "the responses of an image are too many" : "";
}

// Costs are in multiply-adds of a vector: a lookup and its overhead take about one cycle, and products reach about 1.4
// multiply-adds per cycle.
std::string avoid_dictionary_conv_f32(const ops::NodeView& view) {
  constexpr double kProductsPerCycle = 1.4, kCyclesOfASum = 6;
  const int lanes = lookup_functions().lanes;
  const ResponsePlanes planes(window_axes_of(view), lanes);
  const Tensor& coefficients = *view.constant(Inputs::coefficients);
  const auto lookups = static_cast<double>(ops::count_lookups(coefficients.values<float>()));
  const auto outputs = static_cast<double>(coefficients.shape()[0]);
  const double vectors = static_cast<double>(base::ceil_divide(planes.line_elements(), lanes));
  const double products = outputs * static_cast<double>(view.input(Inputs::dictionary).shape[0] * planes.taps()) *
                          static_cast<double>(planes.height() * planes.width()) / lanes;
  return (lookups + outputs * kCyclesOfASum) * vectors > products / kProductsPerCycle
             ? "too few of the coefficients are zero"
             : "";
}

KernelPointer make_dictionary_conv_f32(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<DictionaryConv>(view, weights);
}

}  // namespace tessera::backends::cpu
