#include "ops/sampling/region.h"

#include <algorithm>
#include <cmath>

#include "backends/backend.h"
#include "backends/host/numeric.h"
#include "backends/host/roi_region.h"
#include "base/error.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// A sampled point: bilinear weights of four pixels, all zero outside of the map.
struct Sample {
  std::int64_t pixels[4] = {0, 0, 0, 0};
  double weights[4] = {0, 0, 0, 0};
};

Sample sample_at(double y, double x, std::int64_t height, std::int64_t width) {
  const RoiNeighbours row = roi_neighbours(y, height), column = roi_neighbours(x, width);
  if (!row.inside || !column.inside) return {};
  return {{row.low * width + column.low, row.low * width + column.high, row.high * width + column.low,
           row.high * width + column.high},
          {(1 - row.part) * (1 - column.part), (1 - row.part) * column.part, row.part * (1 - column.part),
           row.part * column.part}};
}

double pool(const std::vector<Sample>& samples, const double* map, bool average) {
  double sum = 0, largest = -INFINITY;
  for (const Sample& sample : samples) {
    for (int i = 0; i < 4; ++i) {
      const double value = sample.weights[i] * map[sample.pixels[i]];
      sum += value;
      largest = std::max(largest, value);
    }
  }
  if (samples.empty()) return 0;
  return average ? sum / static_cast<double>(samples.size()) : largest;
}

// The transpose of pool: adds `gradient` to the pixels by their weights, or to the largest one alone.
void unpool(const std::vector<Sample>& samples, const double* map, bool average, double gradient, double* dmap) {
  const Sample* taken = nullptr;
  int corner = 0;
  double largest = -INFINITY;
  for (const Sample& sample : samples) {
    for (int i = 0; i < 4; ++i) {
      const double value = sample.weights[i] * map[sample.pixels[i]];
      if (average) dmap[sample.pixels[i]] += gradient * sample.weights[i] / static_cast<double>(samples.size());
      if (value > largest) taken = &sample, corner = i, largest = value;
    }
  }
  if (!average && taken != nullptr) dmap[taken->pixels[corner]] += gradient * taken->weights[corner];
}

// Calls body(region, its image in the batch, bin, samples of the bin) for every bin. Regions have the format of
// RoiAlign.
template <typename Body>
void for_each_bin(const KernelContext& context, const Shape& shape, const std::vector<double>& rois,
                  const std::vector<std::int64_t>& batches, Body body) {
  const std::int64_t rows = context.integer("output_height"), columns = context.integer("output_width");
  require(rois.size() == 4 * batches.size(), ErrorKind::invalid_model, "{} regions for {} batch_indices",
          rois.size() / 4, batches.size());
  for (std::size_t n = 0; n < batches.size(); ++n) {
    const auto number = static_cast<std::int64_t>(n);
    const RoiRegion region = roi_region(context, shape, number, rois.data() + 4 * n, batches[n]);
    std::vector<Sample> samples;
    for (std::int64_t bin = 0; bin < rows * columns; ++bin) {
      context.check_stop();
      samples.clear();
      for (std::int64_t i = 0; i < region.count_y * region.count_x; ++i)
        samples.push_back(sample_at(region.y(bin / columns, i / region.count_x),
                                    region.x(bin % columns, i % region.count_x), shape[2], shape[3]));
      body(number, batches[n], bin, samples);
    }
  }
}

float overlap(const float* a, const float* b, bool centred) {
  const auto bounds = [centred](const float* box, int axis, float& low, float& high) {
    // [y1, x1, y2, x2] with corners in any order, or [x, y, width, height] around the centre.
    if (centred) low = box[1 - axis] - box[3 - axis] / 2, high = box[1 - axis] + box[3 - axis] / 2;
    else low = std::min(box[axis], box[axis + 2]), high = std::max(box[axis], box[axis + 2]);
  };
  float both = 1, area_a = 1, area_b = 1;
  for (int axis = 0; axis < 2; ++axis) {
    float low_a = 0, high_a = 0, low_b = 0, high_b = 0;
    bounds(a, axis, low_a, high_a);
    bounds(b, axis, low_b, high_b);
    both *= std::max(0.0f, std::min(high_a, high_b) - std::max(low_a, low_b));
    area_a *= high_a - low_a;
    area_b *= high_b - low_b;
  }
  const float together = area_a + area_b - both;
  return both > 0 && area_a > 0 && area_b > 0 && together > 0 ? both / together : 0;
}

}  // namespace

// Mask R-CNN (arXiv:1703.06870), section 3.
void roi_align(KernelContext& context) {
  const std::vector<double> image = read<double>(context.input(0)), rois = read<double>(context.input(1));
  const std::vector<std::int64_t> batches = ops::integers_of(context.input(2));
  const Shape& shape = context.input(0).shape();
  const std::int64_t channels = shape[1], map = shape[2] * shape[3], rows = context.integer("output_height"),
                     columns = context.integer("output_width");
  const bool average = context.text("mode") == "avg";
  Tensor& output = context.allocate_output(0, {static_cast<std::int64_t>(batches.size()), channels, rows, columns});
  require(rois.size() == 4 * batches.size(), ErrorKind::invalid_model, "{} regions for {} batch_indices",
          rois.size() / 4, batches.size());
  if (output.elements() == 0) return;
  std::vector<double> result = transient_vector<double>(output.elements());
  for_each_bin(context, shape, rois, batches,
               [&](std::int64_t n, std::int64_t batch, std::int64_t bin, const std::vector<Sample>& samples) {
                 for (std::int64_t c = 0; c < channels; ++c)
                   result[(n * channels + c) * rows * columns + bin] =
                       pool(samples, image.data() + (batch * channels + c) * map, average);
               });
  write(result, output);
}

void roi_align_gradient(KernelContext& context) {
  const std::vector<double> image = read<double>(context.input(0)), rois = read<double>(context.input(1)),
                            given = read<double>(context.input(3));
  const std::vector<std::int64_t> batches = ops::integers_of(context.input(2));
  const Shape& shape = context.input(0).shape();
  const std::int64_t channels = shape[1], map = shape[2] * shape[3];
  const std::int64_t bins = context.integer("output_height") * context.integer("output_width");
  const bool average = context.text("mode") == "avg";
  std::vector<double> result = transient_vector<double>(context.input(0).elements(), 0.0);
  if (!given.empty())
    for_each_bin(context, shape, rois, batches,
                 [&](std::int64_t n, std::int64_t batch, std::int64_t bin, const std::vector<Sample>& samples) {
                   for (std::int64_t c = 0; c < channels; ++c) {
                     const std::int64_t from = (batch * channels + c) * map;
                     unpool(samples, image.data() + from, average, given[(n * channels + c) * bins + bin],
                            result.data() + from);
                   }
                 });
  write(result, context.output(0));
}

// Fast R-CNN (arXiv:1504.08083), section 2.1: corners are rounded to pixels. Calls body(element of the output, element
// of X that it takes, or -1 for an empty bin).
template <typename Body>
void for_each_largest(const KernelContext& context, const std::vector<double>& image, const std::vector<double>& rois,
                      Body body) {
  const Shape& shape = context.input(0).shape();
  const std::int64_t channels = shape[1], height = shape[2], width = shape[3];
  const std::int64_t rows = context.integers("pooled_shape")[0], columns = context.integers("pooled_shape")[1];
  const double scale = context.real("spatial_scale");
  const std::int64_t elements = static_cast<std::int64_t>(rois.size() / 5) * channels * rows * columns;
  for (std::int64_t position = 0; position < elements; ++position) {
    context.check_stop();
    const double* roi = rois.data() + position / (channels * rows * columns) * 5;
    require(roi[0] >= 0 && roi[0] < static_cast<double>(shape[0]), ErrorKind::failed,
            "batch index {} is outside [0, {})", roi[0], shape[0]);
    const auto range = [&](double from, double to, std::int64_t bin, std::int64_t bins, std::int64_t size) {
      const double start = std::round(from * scale),
                   extent = std::max(std::round(to * scale) - start + 1, 1.0) / static_cast<double>(bins);
      require(std::isfinite(start) && std::isfinite(extent), ErrorKind::failed, "a region from {} to {}", from, to);
      const auto clamp = [size](double x) {
        return static_cast<std::int64_t>(std::clamp(x, 0.0, static_cast<double>(size)));
      };
      return std::pair(clamp(start + std::floor(static_cast<double>(bin) * extent)),
                       clamp(start + std::ceil(static_cast<double>(bin + 1) * extent)));
    };
    const auto [left, right] = range(roi[1], roi[3], position % columns, columns, width);
    const auto [top, bottom] = range(roi[2], roi[4], position / columns % rows, rows, height);
    const std::int64_t map = static_cast<std::int64_t>(roi[0]) * channels + position / (rows * columns) % channels;
    std::int64_t taken = -1;
    for (std::int64_t y = top; y < bottom; ++y) {
      for (std::int64_t x = left; x < right; ++x) {
        const std::int64_t at = (map * height + y) * width + x;
        if (taken < 0 || image[static_cast<std::size_t>(at)] > image[static_cast<std::size_t>(taken)]) taken = at;
      }
    }
    body(static_cast<std::size_t>(position), taken);
  }
}

// An empty bin gives 0.
void max_roi_pool(KernelContext& context) {
  const std::vector<double> image = read<double>(context.input(0)), rois = read<double>(context.input(1));
  std::vector<double> result(static_cast<std::size_t>(context.output(0).elements()), 0.0);
  for_each_largest(context, image, rois, [&](std::size_t position, std::int64_t taken) {
    if (taken >= 0) result[position] = image[static_cast<std::size_t>(taken)];
  });
  write(result, context.output(0));
}

void max_roi_pool_gradient(KernelContext& context) {
  const std::vector<double> image = read<double>(context.input(0)), rois = read<double>(context.input(1)),
                            given = read<double>(context.input(2));
  std::vector<double> result = transient_vector<double>(context.output(0).elements(), 0.0);
  for_each_largest(context, image, rois, [&](std::size_t position, std::int64_t taken) {
    if (taken >= 0) result[static_cast<std::size_t>(taken)] += given[position];
  });
  write(result, context.output(0));
}

// Greedy: boxes in order of falling score (ties by index); each is kept unless it overlaps a kept box of its class by
// more than the threshold.
void non_max_suppression(KernelContext& context) {
  const Tensor& boxes = context.input(0);
  const Tensor& scores = context.input(1);
  const auto threshold = [&](std::size_t i) {
    return context.has_input(i) && context.input(i).elements() > 0 ? std::optional(context.input(i).data<float>()[0])
                                                                   : std::nullopt;
  };
  const bool centred = context.integer("center_point_box") != 0;
  const float most_overlap = threshold(3).value_or(0.0f);
  const std::optional<float> least_score = threshold(4);
  const std::int64_t limit =
      context.has_input(2) && context.input(2).elements() > 0 ? context.input(2).data<std::int64_t>()[0] : 0;
  const std::int64_t classes = scores.shape()[1], count = boxes.shape()[1];
  std::vector<std::int64_t> selected;
  for (std::int64_t group = 0; group < scores.shape()[0] * classes; ++group) {
    const float* score = scores.data<float>() + group * count;
    const float* box = boxes.data<float>() + group / classes * count * 4;
    std::vector<std::int64_t> order, kept;
    for (std::int64_t i = 0; i < count; ++i) {
      if (!std::isnan(score[i]) && (!least_score || score[i] > *least_score)) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return score[a] > score[b]; });
    for (std::int64_t candidate : order) {
      context.check_stop();
      if (static_cast<std::int64_t>(kept.size()) >= limit) break;
      const bool suppressed = std::any_of(kept.begin(), kept.end(), [&](std::int64_t other) {
        return overlap(box + candidate * 4, box + other * 4, centred) > most_overlap;
      });
      if (suppressed) continue;
      kept.push_back(candidate);
      selected.insert(selected.end(), {group / classes, group % classes, candidate});
    }
  }
  Tensor& output = context.allocate_output(0, {static_cast<std::int64_t>(selected.size()) / 3, 3});
  std::copy(selected.begin(), selected.end(), output.mutable_data<std::int64_t>());
}

}  // namespace tessera::backends::reference
