// The segments of the rows of an indirect product (indirect_product_f32.h) whose rows are windows: pointers into the
// data, and for windows that reach over the edge of a line, pointers to copies with padding.
#pragma once

#include <algorithm>
#include <vector>

#include "backends/cpu/products/tile_rows.h"
#include "backends/cpu/products/windows/windows.h"

namespace tessera::backends::cpu {

// A window as segments of equal length: its taps or, if these are short and contiguous, its lines.
struct WindowSegments {
  bool whole_lines = false;
  std::int64_t count = 0, length = 0;  // length in elements

  static constexpr std::int64_t kFewChannels = 32;  // the loop over a segment should be long

  WindowSegments() = default;
  // `channels`: of a group. With `few_channels` or more, each tap is a segment.
  WindowSegments(const ChannelsLastGeometry& geometry, std::int64_t channels, std::int64_t groups,
                 std::int64_t few_channels = kFewChannels) {
    const ops::WindowAxis& line = geometry.axes[2];
    whole_lines = line.kernel > 1 && line.dilation == 1 && groups == 1 && channels < few_channels;
    count = whole_lines ? geometry.taps() / line.kernel : geometry.taps();
    length = whole_lines ? line.kernel * channels : channels;
  }
};

// Finds the segments of windows in data [N, spatial..., C]. Segments that reach over the edge of a line are copied with
// `padding` around them; all segments are, if products read more elements than a segment has.
template <typename T>
class WindowPointers {
 public:
  // `rows`: the most windows per call, and the distance between segments in the result. `skips_padding`: if a segment
  // is padding for all windows of a call, its first pointer is null.
  WindowPointers(const ChannelsLastGeometry& geometry, const WindowSegments& segments, std::int64_t group_channels,
                 std::int64_t padded_length, std::int64_t rows, bool skips_padding = false)
      : geometry_(geometry),
        segments_(segments),
        channels_(group_channels),
        padded_length_(padded_length),
        rows_(rows),
        skips_padding_(skips_padding) {
    pointwise_ = is_pointwise(geometry);
  }

  // Pointers to the segments of `count` windows, from output `row` on, as [segment][rows]; valid until the next call in
  // this thread. `x` is the first channel of the group; `padding` has padded_length elements.
  const T* const* at(const T* x, std::int64_t row, std::int64_t count, const T* padding) const {
    if (reads_pixels()) return pixels(x + row * geometry_.channels, count);
    const std::int64_t line_elements = geometry_.axes[2].input * geometry_.channels;
    return windows([&](std::int64_t line) { return x + line * line_elements; }, row, count, padding);
  }
  // As above, for one image whose lines begin with the group's first channel.
  const T* const* at(const PictureLines<const T>& x, std::int64_t row, std::int64_t count, const T* padding) const {
    const std::int64_t width = geometry_.axes[2].output;
    if (reads_pixels()) return pixels(x.at(row / width) + row % width * geometry_.channels, count);
    return windows([&](std::int64_t line) { return x.at(line); }, row, count, padding);
  }

  // Runs of evenly spaced rows for tile registers, if WindowTiles says that rows are evenly spaced; `half_rows` windows
  // per tile. Segments are not copied.
  const TileRun* spaced_at(const T* x, std::int64_t row, std::int64_t half_rows, const T* padding) const {
    if (pointwise_) return spaced_pixels(x + row * geometry_.channels, half_rows);
    const std::int64_t line_elements = geometry_.axes[2].input * geometry_.channels;
    return spaced_windows([&](std::int64_t line) { return x + line * line_elements; }, row, half_rows, padding);
  }
  const TileRun* spaced_at(const PictureLines<const T>& x, std::int64_t row, std::int64_t half_rows,
                           const T* padding) const {
    const std::int64_t width = geometry_.axes[2].output;
    if (pointwise_) return spaced_pixels(x.at(row / width) + row % width * geometry_.channels, half_rows);
    return spaced_windows([&](std::int64_t line) { return x.at(line); }, row, half_rows, padding);
  }

 private:
  static constexpr std::int64_t kBytes = sizeof(T);

  const TileRun* spaced_pixels(const T* first, std::int64_t half_rows) const {
    thread_local TileRun run;
    const auto* data = reinterpret_cast<const std::uint8_t*>(first);
    const std::int64_t stride = geometry_.channels * kBytes;
    run = {{{data, stride}, {data + half_rows * stride, stride}}};
    return &run;
  }

  template <typename LineAt>
  const TileRun* spaced_windows(LineAt line_at, std::int64_t row, std::int64_t half_rows, const T* padding) const {
    thread_local std::vector<TileRun> runs;
    runs.resize(static_cast<std::size_t>(segments_.count));
    const auto& [depth, lines, line] = geometry_.axes;
    const std::int64_t rows = geometry_.batch * geometry_.outputs(), taps = segments_.whole_lines ? 1 : line.kernel,
                       tap_bytes = line.dilation * geometry_.channels * kBytes;
    for (std::size_t half = 0; half < 2; ++half) {
      const std::int64_t first = row + static_cast<std::int64_t>(half) * half_rows;
      if (first >= rows) break;
      const std::int64_t column = first % line.output, height = first / line.output % lines.output,
                         slice = first / line.output / lines.output % depth.output;
      const std::int64_t first_slice = first / geometry_.outputs() * depth.input;  // of the image
      TileRun* run = runs.data();
      for (std::int64_t kd = 0; kd < depth.kernel; ++kd) {
        const std::int64_t d = slice * depth.stride - depth.pad_begin + kd * depth.dilation;
        for (std::int64_t kh = 0; kh < lines.kernel; ++kh) {
          const std::int64_t h = height * lines.stride - lines.pad_begin + kh * lines.dilation;
          const bool inside = d >= 0 && d < depth.input && h >= 0 && h < lines.input;
          const auto* from = reinterpret_cast<const std::uint8_t*>(
              inside ? line_at((first_slice + d) * lines.input + h) + column * line.stride * geometry_.channels
                     : padding);
          const std::int64_t stride = inside ? line.stride * geometry_.channels * kBytes : 0,
                             step = inside ? tap_bytes : 0;
          for (std::int64_t kw = 0; kw < taps; ++kw, ++run) run->at[half] = {from + kw * step, stride};
        }
      }
    }
    return runs.data();
  }

  bool reads_pixels() const { return pointwise_ && padded_length_ == segments_.length; }

  const T* const* pixels(const T* first, std::int64_t count) const {
    thread_local std::vector<const T*> pointers;
    pointers.resize(static_cast<std::size_t>(rows_));
    for (std::int64_t i = 0; i < count; ++i) pointers[static_cast<std::size_t>(i)] = first + i * geometry_.channels;
    return pointers.data();
  }

  // `line_at` returns the beginning of a line of the data.
  template <typename LineAt>
  const T* const* windows(LineAt line_at, std::int64_t row, std::int64_t count, const T* padding) const {
    thread_local std::vector<const T*> pointers;
    thread_local std::vector<T> copies;
    const bool copy_all = padded_length_ != segments_.length;
    pointers.resize(static_cast<std::size_t>(segments_.count * rows_));
    if (segments_.whole_lines || copy_all)
      copies.resize(static_cast<std::size_t>(segments_.count * rows_ * padded_length_));
    const auto& [depth, lines, line] = geometry_.axes;
    for (std::int64_t done = 0; done < count;) {
      // Takes outputs of one line at a time: their windows lie in the same lines of the data.
      const std::int64_t first = row + done, column = first % line.output, height = first / line.output % lines.output,
                         slice = first / line.output / lines.output % depth.output;
      const std::int64_t together = std::min(count - done, line.output - column);
      const std::int64_t first_slice = first / geometry_.outputs() * depth.input;  // of the image
      std::int64_t at = done;                                                      // of the first pointer of a segment
      for (std::int64_t kd = 0; kd < depth.kernel; ++kd) {
        const std::int64_t d = slice * depth.stride - depth.pad_begin + kd * depth.dilation;
        for (std::int64_t kh = 0; kh < lines.kernel; ++kh) {
          const std::int64_t h = height * lines.stride - lines.pad_begin + kh * lines.dilation;
          const bool inside = d >= 0 && d < depth.input && h >= 0 && h < lines.input;
          const T* from = inside ? line_at((first_slice + d) * lines.input + h) : nullptr;
          const std::int64_t start = column * line.stride - line.pad_begin;
          if (segments_.whole_lines) {
            point_to_lines(from, start, together, copy_all, padding, pointers.data() + at,
                           copies.data() + at * padded_length_);
            at += rows_;
            continue;
          }
          for (std::int64_t kw = 0; kw < line.kernel; ++kw, at += rows_) {
            point_to_taps(from, start + kw * line.dilation, together, copy_all, padding, pointers.data() + at,
                          copies.data() + at * padded_length_);
          }
        }
      }
      done += together;
    }
    if (skips_padding_) {
      for (const T** segment = pointers.data(); segment != pointers.data() + segments_.count * rows_;
           segment += rows_) {
        if (std::all_of(segment, segment + count, [&](const T* each) { return each == padding; })) *segment = nullptr;
      }
    }
    return pointers.data();
  }

  // Sets pointers to a tap of neighbouring windows, the first at pixel `start` of the line at `from` (null: outside).
  void point_to_taps(const T* from, std::int64_t start, std::int64_t count, bool copy_all, const T* padding,
                     const T** to, T* copied) const {
    const ops::WindowAxis& line = geometry_.axes[2];
    const std::int64_t stride = line.stride;
    if (from != nullptr && !copy_all && start >= 0 &&
        start + (count - 1) * stride < line.input) {  // all inside: no division
      const std::int64_t step = stride * geometry_.channels;
      const T* pixel = from + start * geometry_.channels;
      for (std::int64_t i = 0; i < count; ++i, pixel += step) to[i] = pixel;
      return;
    }
    // The windows whose tap is inside: [begin, end).
    const std::int64_t begin = from == nullptr ? count
                               : start >= 0    ? 0
                                               : std::min(count, (-start + stride - 1) / stride);
    const std::int64_t end =
        std::max(begin, start >= line.input ? 0 : std::min(count, (line.input - 1 - start) / stride + 1));
    for (std::int64_t i = 0; i < begin; ++i) to[i] = padding;
    for (std::int64_t i = begin; i < end; ++i) {
      const T* pixel = from + (start + i * stride) * geometry_.channels;
      to[i] = copy_all ? copy(pixel, channels_, padding, copied + i * padded_length_) : pixel;
    }
    for (std::int64_t i = end; i < count; ++i) to[i] = padding;
  }
  void point_to_lines(const T* from, std::int64_t start, std::int64_t count, bool copy_all, const T* padding,
                      const T** to, T* copied) const {
    const ops::WindowAxis& line = geometry_.axes[2];
    const auto outside = [&](std::int64_t first) { return copy_all || first < 0 || first + line.kernel > line.input; };
    if (from == nullptr) {
      std::fill_n(to, count, padding);
    } else if (!outside(start) && !outside(start + (count - 1) * line.stride)) {
      const T* pixel = from + start * geometry_.channels;
      for (std::int64_t i = 0; i < count; ++i, pixel += line.stride * geometry_.channels) to[i] = pixel;
    } else {
      for (std::int64_t i = 0; i < count; ++i, start += line.stride) {
        to[i] = outside(start) ? copy_line(from, start, padding, copied + i * padded_length_)
                               : from + start * geometry_.channels;
      }
    }
  }
  const T* copy(const T* from, std::int64_t count, const T* padding, T* to) const {
    std::copy_n(from, count, to);
    std::copy_n(padding, padded_length_ - count, to + count);
    return to;
  }
  // Copies whole pixels of a line from `start` on, with padding where they are outside.
  const T* copy_line(const T* from, std::int64_t start, const T* padding, T* to) const {
    const ops::WindowAxis& axis = geometry_.axes[2];
    const std::int64_t begin = std::clamp<std::int64_t>(-start, 0, axis.kernel),
                       end = std::clamp<std::int64_t>(axis.input - start, begin, axis.kernel);
    std::copy_n(padding, begin * channels_, to);
    std::copy_n(from + (start + begin) * channels_, (end - begin) * channels_, to + begin * channels_);
    std::copy_n(padding, padded_length_ - end * channels_, to + end * channels_);
    return to;
  }

  ChannelsLastGeometry geometry_;
  WindowSegments segments_;
  std::int64_t channels_, padded_length_, rows_;
  bool skips_padding_;
  bool pointwise_ = false;  // windows are single pixels
};

}  // namespace tessera::backends::cpu
