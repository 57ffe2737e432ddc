// RoiAlign of float32 maps and its gradient. The positions of a region's samples along each axis are computed once for
// many channels. Forward, channels of regions run in parallel; backward, planes of the map, to which regions are added
// in order.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/cpu/sampling/kernels.h"
#include "backends/cpu/sampling/sample_block.h"
#include "backends/host/roi_region.h"
#include "base/error.h"

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kPlanes = 32;  // of a region that share its computed samples

// The attributes and operands that the kernels share, read once.
struct Call {
  const KernelContext* context = nullptr;
  const float* rois = nullptr;
  const std::int64_t* batches = nullptr;
  Shape maps;
  std::int64_t regions = 0, rows = 0, columns = 0;
  bool average = true;

  std::int64_t channels() const { return maps[1]; }
  std::int64_t plane() const { return maps[2] * maps[3]; }
  std::int64_t bins() const { return rows * columns; }
};

Call read_call(const KernelContext& context) {
  Call call{&context,
            context.input(1).data<float>(),
            context.input(2).data<std::int64_t>(),
            context.input(0).shape(),
            context.input(1).shape()[0],
            context.integer("output_height"),
            context.integer("output_width"),
            context.text("mode") == "avg"};
  require(context.input(2).elements() == call.regions, ErrorKind::invalid_model, "{} regions for {} batch_indices",
          call.regions, context.input(2).elements());
  return call;
}

// The samples of one region: those of bin row r begin at rows_[r * count_y], and likewise for columns.
class Region {
 public:
  void set(const Call& call, std::int64_t n) {
    double corners[4];
    for (std::int64_t i = 0; i < 4; ++i) corners[i] = call.rois[4 * n + i];
    region_ = host::roi_region(*call.context, call.maps, n, corners, call.batches[n]);
    width_ = call.maps[3];
    rows_.clear();
    columns_.clear();
    for (std::int64_t bin = 0; bin < call.rows; ++bin) {
      for (std::int64_t i = 0; i < region_.count_y; ++i)
        rows_.push_back(host::roi_neighbours(region_.y(bin, i), call.maps[2]));
    }
    for (std::int64_t bin = 0; bin < call.columns; ++bin) {
      for (std::int64_t i = 0; i < region_.count_x; ++i)
        columns_.push_back(host::roi_neighbours(region_.x(bin, i), width_));
    }
  }

  std::int64_t samples() const { return region_.count_y * region_.count_x; }

  // Computes the means of bins as sums over blocks of samples: calls body(first bin, block, whether it is the bins'
  // first block).
  template <typename Body>
  void for_each_block(const Call& call, SampleBlock& block, Body body) const {
    constexpr std::int64_t at_once = SampleBlock::kTaps / 4;  // samples of a bin
    const double share = 1 / static_cast<double>(samples());
    for (std::int64_t first = 0; first < call.bins(); first += SampleBlock::kSamples) {
      block.count = std::min(SampleBlock::kSamples, call.bins() - first);
      for (std::int64_t begin = 0; begin < samples(); begin += at_once) {
        call.context->check_stop();
        const std::int64_t end = std::min(samples(), begin + at_once);
        block.taps = static_cast<int>(4 * (end - begin));
        for (int k = 0; k < block.taps; ++k) {
          const std::int64_t padded = std::min(SampleBlock::kSamples, (block.count + 15) / 16 * 16);
          std::fill(block.index[k] + block.count, block.index[k] + padded, -1);
          std::fill(block.weight[k] + block.count, block.weight[k] + padded, 0.0f);
        }
        for (std::int64_t s = 0; s < block.count; ++s) {
          for (std::int64_t i = begin; i < end; ++i) {
            int k = static_cast<int>(4 * (i - begin));
            for_each_neighbour((first + s) / call.columns, (first + s) % call.columns, i,
                               [&](std::int64_t pixel, double weight, bool inside) {
                                 block.index[k][s] = inside ? static_cast<std::int32_t>(pixel) : -1;
                                 block.weight[k++][s] = static_cast<float>(weight * share);
                               });
          }
        }
        body(first, block, begin == 0);
      }
    }
  }

  // Calls body(pixel, weight, whether the sample is inside) for the four neighbours of sample i of the bin.
  template <typename Body>
  void for_each_neighbour(std::int64_t row, std::int64_t column, std::int64_t i, Body body) const {
    const host::RoiNeighbours& y = rows_[static_cast<std::size_t>(row * region_.count_y + i / region_.count_x)];
    const host::RoiNeighbours& x = columns_[static_cast<std::size_t>(column * region_.count_x + i % region_.count_x)];
    const bool inside = y.inside && x.inside;
    const double upper = inside ? 1 - y.part : 0, lower = inside ? y.part : 0;
    body(y.low * width_ + x.low, upper * (1 - x.part), inside);
    body(y.low * width_ + x.high, upper * x.part, inside);
    body(y.high * width_ + x.low, lower * (1 - x.part), inside);
    body(y.high * width_ + x.high, lower * x.part, inside);
  }

 private:
  host::RoiRegion region_;
  std::vector<host::RoiNeighbours> rows_, columns_;
  std::int64_t width_ = 0;
};

// The largest weighted neighbour of a bin's samples, or the first of equal ones. A sample outside counts as 0.
struct Largest {
  float value = -INFINITY, weight = 0;
  std::int64_t pixel = 0;
};

Largest largest_of(const Region& region, std::int64_t row, std::int64_t column, const float* plane) {
  Largest largest;
  for (std::int64_t i = 0; i < region.samples(); ++i) {
    region.for_each_neighbour(row, column, i, [&](std::int64_t pixel, double exact, bool inside) {
      const float weight = static_cast<float>(exact), value = inside ? weight * plane[pixel] : 0;
      if (value > largest.value) largest = {value, weight, inside ? pixel : 0};
    });
  }
  return largest;
}

// Computes the bins of a region in `count` planes.
void pool(const Call& call, const Region& region, const float* planes, std::int64_t count, float* y) {
  if (region.samples() == 0) {
    std::fill_n(y, count * call.bins(), 0.0f);
    return;
  }
  if (!call.average) {
    for (std::int64_t i = 0; i < count * call.bins(); ++i) {
      const std::int64_t bin = i % call.bins();
      y[i] = largest_of(region, bin / call.columns, bin % call.columns, planes + i / call.bins() * call.plane()).value;
    }
    return;
  }
  SampleBlock blocks;
  region.for_each_block(call, blocks, [&](std::int64_t bin, const SampleBlock& block, bool first) {
    for (std::int64_t c = 0; c < count; ++c)
      read_block(block, planes + c * call.plane(), y + c * call.bins() + bin, !first);
  });
}

// The transpose of pool(): adds gradients to `to`.
void unpool(const Call& call, const Region& region, const float* planes, std::int64_t count, const float* dy,
            float* to) {
  if (region.samples() == 0) return;
  if (!call.average) {
    for (std::int64_t i = 0; i < count * call.bins(); ++i) {
      const std::int64_t bin = i % call.bins(), offset = i / call.bins() * call.plane();
      const Largest taken = largest_of(region, bin / call.columns, bin % call.columns, planes + offset);
      to[offset + taken.pixel] += dy[i] * taken.weight;
    }
    return;
  }
  SampleBlock blocks;
  region.for_each_block(call, blocks, [&](std::int64_t bin, const SampleBlock& block, bool) {
    for (std::int64_t c = 0; c < count; ++c) spread_block(block, dy + c * call.bins() + bin, to + c * call.plane());
  });
}

}  // namespace

std::string reject_roi_align_f32(const ops::NodeView& view) {
  if (view.input(0).dtype != DType::f32) return "takes f32";
  if (view.input(0).shape[2] * view.input(0).shape[3] > std::numeric_limits<std::int32_t>::max())
    return "takes planes of less than 2^31 elements";
  const bool some = view.input(0).elements() > 0 && view.input(1).elements() > 0;
  return some ? "" : "wants some elements";
}

void roi_align_f32(KernelContext& context) {
  const Call call = read_call(context);
  Tensor& output = context.allocate_output(0, {call.regions, call.channels(), call.rows, call.columns});
  const float* maps = context.input(0).data<float>();
  float* y = output.mutable_data<float>();
  const std::int64_t parts = (call.channels() + kPlanes - 1) / kPlanes;
  context.parallel_for(call.regions * parts, 1, [&](std::int64_t begin, std::int64_t end) {
    Region region;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t n = i / parts, c = i % parts * kPlanes;
      if (i == begin || c == 0) region.set(call, n);
      pool(call, region, maps + (call.batches[n] * call.channels() + c) * call.plane(),
           std::min(kPlanes, call.channels() - c), y + (n * call.channels() + c) * call.bins());
    }
  });
}

void roi_align_gradient_f32(KernelContext& context) {
  const Call call = read_call(context);
  const float *maps = context.input(0).data<float>(), *dy = context.input(3).data<float>();
  float* dx = context.output(0).mutable_data<float>();
  const std::int64_t parts = (call.channels() + kPlanes - 1) / kPlanes;
  context.parallel_for(call.maps[0] * parts, 1, [&](std::int64_t begin, std::int64_t end) {
    Region region;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t batch = i / parts, first = i % parts * kPlanes,
                         last = std::min(call.channels(), first + kPlanes);
      float* to = dx + (batch * call.channels() + first) * call.plane();
      std::memset(to, 0, static_cast<std::size_t>((last - first) * call.plane()) * sizeof(float));
      for (std::int64_t n = 0; n < call.regions; ++n) {
        if (call.batches[n] != batch && call.batches[n] >= 0 && call.batches[n] < call.maps[0]) continue;
        region.set(call, n);  // rejects an invalid index of an image
        unpool(call, region, maps + (batch * call.channels() + first) * call.plane(), last - first,
               dy + (n * call.channels() + first) * call.bins(), to);
      }
    }
  });
}

}  // namespace tessera::backends::cpu
