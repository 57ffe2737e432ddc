// RoiAlign of float32 maps and its gradient. The places of a region's samples along each axis are worked out once for
// many channels. Forward, channels of regions run in parallel; back, planes of the map, to which regions are added in
// their order.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backends/cpu/sampling/kernels.h"
#include "backends/host/roi_region.h"
#include "base/error.h"

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kGrain = 16384;  // reads a chunk

// What the kernels have in common: the attributes and the operands, read once.
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

// The samples of one region: those of bin row r are rows_[r * count_y] and on, and likewise columns.
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

  // body(pixel, weight) for the four neighbours of each sample of the bin; one of weight 0 for a sample outside.
  template <typename Body>
  void for_each(std::int64_t row, std::int64_t column, Body body) const {
    for (std::int64_t i = 0; i < region_.count_y; ++i) {
      const host::RoiNeighbours& y = rows_[static_cast<std::size_t>(row * region_.count_y + i)];
      const double upper = 1 - y.part;
      for (std::int64_t j = 0; j < region_.count_x; ++j) {
        const host::RoiNeighbours& x = columns_[static_cast<std::size_t>(column * region_.count_x + j)];
        if (!y.inside || !x.inside) {
          body(0, 0.0f);
          continue;
        }
        body(y.low * width_ + x.low, static_cast<float>(upper * (1 - x.part)));
        body(y.low * width_ + x.high, static_cast<float>(upper * x.part));
        body(y.high * width_ + x.low, static_cast<float>(y.part * (1 - x.part)));
        body(y.high * width_ + x.high, static_cast<float>(y.part * x.part));
      }
    }
  }

 private:
  host::RoiRegion region_;
  std::vector<host::RoiNeighbours> rows_, columns_;
  std::int64_t width_ = 0;
};

float pool(const Region& region, std::int64_t row, std::int64_t column, bool average, const float* plane) {
  if (region.samples() == 0) return 0;
  if (average) {
    double sum = 0;
    region.for_each(row, column, [&](std::int64_t pixel, float weight) { sum += weight * plane[pixel]; });
    return static_cast<float>(sum / static_cast<double>(region.samples()));
  }
  float largest = -INFINITY;
  region.for_each(row, column,
                  [&](std::int64_t pixel, float weight) { largest = std::max(largest, weight * plane[pixel]); });
  return largest;
}

// Adds the shares of `gradient` to the pixels, or to the one that gave the largest value, the first of equal ones.
void unpool(const Region& region, std::int64_t row, std::int64_t column, bool average, const float* plane,
            float gradient, float* to) {
  if (region.samples() == 0) return;
  if (average) {
    const float share = gradient / static_cast<float>(region.samples());
    region.for_each(row, column, [&](std::int64_t pixel, float weight) { to[pixel] += share * weight; });
    return;
  }
  float largest = -INFINITY, taken_weight = 0;
  std::int64_t taken = 0;
  region.for_each(row, column, [&](std::int64_t pixel, float weight) {
    const float value = weight * plane[pixel];
    if (value > largest) largest = value, taken = pixel, taken_weight = weight;
  });
  to[taken] += gradient * taken_weight;
}

}  // namespace

std::string reject_roi_align_f32(const ops::NodeView& view) {
  if (view.input(0).dtype != DType::f32) return "takes f32";
  const bool some = view.input(0).elements() > 0 && view.input(1).elements() > 0;
  return some ? "" : "wants some elements";
}

void roi_align_f32(KernelContext& context) {
  const Call call = read_call(context);
  Tensor& output = context.allocate_output(0, {call.regions, call.channels(), call.rows, call.columns});
  const float* maps = context.input(0).data<float>();
  float* y = output.mutable_data<float>();
  const std::int64_t grain = std::max<std::int64_t>(8, kGrain / (16 * call.bins()));
  context.parallel_for(call.regions * call.channels(), grain, [&](std::int64_t begin, std::int64_t end) {
    Region region;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t n = i / call.channels(), c = i % call.channels();
      if (i == begin || c == 0) region.set(call, n);
      const float* plane = maps + (call.batches[n] * call.channels() + c) * call.plane();
      for (std::int64_t bin = 0; bin < call.bins(); ++bin)
        y[i * call.bins() + bin] = pool(region, bin / call.columns, bin % call.columns, call.average, plane);
    }
  });
}

void roi_align_gradient_f32(KernelContext& context) {
  const Call call = read_call(context);
  const float *maps = context.input(0).data<float>(), *dy = context.input(3).data<float>();
  float* dx = context.output(0).mutable_data<float>();
  constexpr std::int64_t kPlanes = 8;  // for which a region is worked out once
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
        region.set(call, n);  // refuses the number of an image that is not there
        for (std::int64_t c = first; c < last; ++c) {
          const std::int64_t plane = batch * call.channels() + c;
          for (std::int64_t bin = 0; bin < call.bins(); ++bin)
            unpool(region, bin / call.columns, bin % call.columns, call.average, maps + plane * call.plane(),
                   dy[(n * call.channels() + c) * call.bins() + bin], dx + plane * call.plane());
        }
      }
    }
  });
}

}  // namespace tessera::backends::cpu
