#include "report/explain/explain_plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/numbers/units.h"
#include "report/explain/explain_words.h"
#include "report/explain/operator_totals.h"
#include "report/html/label_placement.h"
#include "report/html/plot_axes.h"
#include "report/html/svg.h"

namespace tessera::report {
namespace {

using cost::Bound;
using cost::DeviceProfile;
using cost::Layer;

// A roof: it rises with a bandwidth up to a peak, and is flat from there on.
struct Roof {
  double bandwidth, peak;
  std::string slope_name, flat_name;
  std::string_view css_class;
};

std::vector<Roof> roofs(const Explanation& explanation) {
  std::vector<Roof> list;
  const cost::Evaluation& first = explanation.devices[0].evaluation;
  const DeviceProfile& device = first.device;
  const double peak = first.layers.empty() || device.supports(first.precision) ? device.peak(first.precision, true)
                                                                               : device.vector_rates.f32;
  list.push_back(
      {device.bandwidth, peak, "memory " + count_text(device.bandwidth, "B/s"),
       fmt::format("{} {}", cost::name_of(counted_precision(first)), rate_text(peak, counted_precision(first))),
       "roof"});
  for (const cost::Cache& cache : device.caches) {
    if (cache.bytes_per_second > 0)
      list.push_back({cache.bytes_per_second, peak, cache.name + " " + count_text(cache.bytes_per_second, "B/s"), "",
                      "cacheroof"});
  }
  const double vector_peak = device.peak(first.precision, false);
  if (vector_peak > 0 && vector_peak < peak)
    list.push_back(
        {device.bandwidth, vector_peak, "", "vector units " + rate_text(vector_peak, first.precision), "cacheroof"});
  for (std::size_t i = 1; i < explanation.devices.size(); ++i) {
    const cost::Evaluation& other = explanation.devices[i].evaluation;
    const double other_peak = other.device.supports(other.precision) ? other.device.peak(other.precision, true)
                                                                     : other.device.vector_rates.f32;
    list.push_back({other.device.bandwidth, other_peak, "", other.device.name, "otherroof"});
  }
  return list;
}

struct RoofCorners {
  double start, ridge;  // operations per byte where the slope enters the plot and where it ends
};

RoofCorners corners(const Roof& roof, const Scale& x, const Scale& y) {
  return {std::max(x.low(), y.low() / roof.bandwidth), std::clamp(roof.peak / roof.bandwidth, x.low(), x.high())};
}

void draw_roof(Drawing& drawing, const Roof& roof, const Scale& x, const Scale& y) {
  const auto [start, ridge] = corners(roof, x, y);
  if (start < ridge)
    drawing.line(x(start), y(start * roof.bandwidth), x(ridge), y(ridge * roof.bandwidth), roof.css_class);
  if (ridge < x.high()) drawing.line(x(ridge), y(roof.peak), x(x.high()), y(roof.peak), roof.css_class);
}

// Positions for the name of a roof's slope: along it, above or below.
std::vector<LabelPosition> slope_positions(const Roof& roof, const Scale& x, const Scale& y) {
  const auto [start, ridge] = corners(roof, x, y);
  std::vector<LabelPosition> list;
  if (start >= ridge) return list;
  const double x1 = x(start), y1 = y(start * roof.bandwidth), x2 = x(ridge), y2 = y(ridge * roof.bandwidth);
  const double turn = std::atan2(y2 - y1, x2 - x1);
  for (const double above : {5.0, -15.0}) {
    for (const double at : {0.3, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8}) {
      list.push_back({x1 + (x2 - x1) * at + above * std::sin(turn), y1 + (y2 - y1) * at - above * std::cos(turn),
                      "middle", turn * 180 / std::numbers::pi});
    }
  }
  return list;
}

// Positions for the name of a flat roof: above or below it, at the right or further to the left.
std::vector<LabelPosition> flat_positions(const Roof& roof, const Scale& x, const Scale& y) {
  std::vector<LabelPosition> list;
  const double right = x(x.high()) - 4, left = x(corners(roof, x, y).ridge), at = y(roof.peak);
  for (double end = right; end > left; end -= 30) {
    list.push_back({end, at - 5, "end"});
    list.push_back({end, at + 14, "end"});
  }
  return list;
}

// Names are placed after the marks, so that none hides a mark. A narrow plot has room only for those of the first
// device's memory and peak. A name without a free position is left out: the table of devices has all figures.
void name_roofs(Drawing& drawing, const std::vector<Roof>& lines, const Scale& x, const Scale& y, bool wide,
                LabelPlacement placement) {
  const auto write = [&](const std::string& name, const std::vector<LabelPosition>& positions, std::string_view css) {
    if (name.empty()) return;
    const LabelPosition* at = placement.place(name, positions);
    if (at != nullptr) drawing.text(at->x, at->y, name, css, at->anchor, at->degrees);
  };
  for (const Roof& roof : lines) {
    if (!wide && roof.css_class != "roof") continue;
    const std::string_view css = roof.css_class == "otherroof" ? "othername" : "roofname";
    write(roof.flat_name, flat_positions(roof, x, y), css);
    write(roof.slope_name, slope_positions(roof, x, y), css);
  }
}

// The layers that appear in the plot, the slowest first: the arrow keys reach them first, and small marks are drawn
// above them.
std::vector<std::size_t> plotted_layers(const Explanation& explanation) {
  std::vector<std::size_t> order = slowest_first(explanation);
  std::erase_if(order, [&](std::size_t i) {
    const cost::Estimate& estimate = explanation.devices[0].evaluation.layers[i].estimate;
    return estimate.operations <= 0 || estimate.intensity <= 0 || seconds_of(explanation, i) <= 0;
  });
  return order;
}

std::string mark_outline(Bound bound, double x, double y, double radius) {
  if (bound == Bound::memory) return circle_path(x, y, radius);
  return bound == Bound::arithmetic ? square_path(x, y, radius) : diamond_path(x, y, radius);
}

std::string roofline_plot(const Explanation& explanation, const Frame& frame) {
  const std::vector<Layer>& layers = explanation.devices[0].evaluation.layers;
  const std::vector<Roof> lines = roofs(explanation);
  const std::vector<std::size_t> order = plotted_layers(explanation);
  double low_x = 0.1, high_x = 1000, low_y = lines[0].peak, high_y = 0, longest = 0;
  for (const Roof& roof : lines)
    high_y = std::max(high_y, roof.peak), high_x = std::max(high_x, 4 * roof.peak / roof.bandwidth);
  for (const std::size_t i : order) {
    const cost::Estimate& estimate = layers[i].estimate;
    const double seconds = seconds_of(explanation, i);
    low_x = std::min(low_x, estimate.intensity), high_x = std::max(high_x, estimate.intensity * 1.5);
    low_y = std::min(low_y, estimate.operations / seconds), high_y = std::max(high_y, estimate.operations / seconds);
    longest = std::max(longest, seconds);
  }
  // Keeps tiny operators from squeezing the other marks.
  low_y = std::max(low_y / 2, high_y * 1e-6);
  const double right = frame.width - frame.right, bottom = frame.height - frame.bottom;
  const Scale x(std::max(low_x, 0.01), high_x, frame.left, right, true),
      y(low_y, high_y * 2.5, bottom, frame.top, true);
  const std::string unit(operation_unit(explanation.devices[0].evaluation.precision));
  Drawing drawing(frame.width, frame.height, frame.css_class,
                  "Roofline: operations per second over operations per byte, one mark for each layer");
  axes(drawing, frame, x, y, unit + " per byte", unit + "/s");
  for (const Roof& roof : lines) draw_roof(drawing, roof, x, y);
  LabelPlacement placement({frame.left, frame.top - 8, right, bottom});
  placement.reserve({frame.left, frame.top, frame.left + 60, frame.top + 14});  // the name of the axis
  const double largest_radius = frame.width > 600 ? 17 : 12;
  for (const std::size_t i : order) {
    const cost::Estimate& estimate = layers[i].estimate;
    const double seconds = seconds_of(explanation, i);
    const double radius = std::max(3.0, largest_radius * std::sqrt(seconds / longest));
    const double px = x(std::max(estimate.intensity, x.low()));
    const double py = std::min(y(std::max(estimate.operations / seconds, low_y)), bottom - 3);
    placement.avoid({px - radius, py - radius, px + radius, py + radius});
    drawing.mark(mark_outline(estimate.bound, px, py, radius), fmt::format("dot {}", cost::name_of(estimate.bound)),
                 layer_label(explanation, 0, i));
  }
  name_roofs(drawing, lines, x, y, frame.css_class == "wide", std::move(placement));
  return drawing.finish();
}

std::string memory_plot(const Explanation& explanation, const Frame& frame) {
  const MemoryTimeline& memory = explanation.memory;
  constexpr std::string_view units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  double unit_bytes = 1;
  for (; unit + 1 < std::size(units) && static_cast<double>(memory.arena_bytes) >= 1024 * unit_bytes; ++unit)
    unit_bytes *= 1024;
  const auto amount = [&](std::int64_t bytes) { return static_cast<double>(bytes) / unit_bytes; };
  const Scale x(0, static_cast<double>(memory.live_bytes.size()), frame.left, frame.width - frame.right, false);
  const Scale y(0, amount(memory.arena_bytes) * 1.2, frame.height - frame.bottom, frame.top, false);
  Drawing drawing(frame.width, frame.height, frame.css_class,
                  "Memory in use at each step, and the arena that holds it");
  axes(drawing, frame, x, y, "step", std::string(units[unit]));
  std::string area = fmt::format("M{:.1f} {:.1f}", x(0), y(0));
  for (std::size_t i = 0; i < memory.live_bytes.size(); ++i)
    area += fmt::format("V{:.1f}H{:.1f}", y(amount(memory.live_bytes[i])), x(static_cast<double>(i + 1)));
  drawing.path(area + fmt::format("V{:.1f}z", y(0)), "live");
  for (std::size_t i = 0; i < memory.live_bytes.size(); ++i) {
    const double left = x(static_cast<double>(i)), width = x(static_cast<double>(i + 1)) - left;
    drawing.mark(
        fmt::format("M{:.1f} {:.1f}h{:.2f}V{:.1f}h{:.2f}z", left, y(0), width, y(amount(memory.live_bytes[i])), -width),
        "step",
        fmt::format("step {}, {}: {} in use", i, memory.step_names[i], base::format_bytes(memory.live_bytes[i])));
  }
  const double arena = y(amount(memory.arena_bytes));
  drawing.line(frame.left, arena, frame.width - frame.right, arena, "roof");
  drawing.text(frame.width - frame.right - 4, arena - 6, "arena " + base::format_bytes(memory.arena_bytes), "roofname",
               "end");
  return drawing.finish();
}

}  // namespace

std::string layer_label(const Explanation& explanation, std::size_t device, std::size_t index) {
  const Layer& layer = explanation.devices[device].evaluation.layers[index];
  const cost::Estimate& estimate = layer.estimate;
  std::string text = fmt::format("{} ({}): ", cost::layer_name(layer.work), layer.work.op);
  double seconds = estimate.seconds;
  if (explanation.measured && explanation.measured->device == device) {
    seconds = explanation.measured->seconds[index];
    const double of_roof = seconds > 0 ? estimate.roof_seconds / seconds : 0;
    text += fmt::format("{} measured ({} of the roof), ", time_text(seconds), percent(of_roof));
  }
  const cost::Precision precision = layer.work.precision;
  text += fmt::format("{} predicted, bound by {}; {:.2f} {} per byte, {}", time_text(estimate.seconds),
                      cost::name_of(estimate.bound), estimate.intensity, operation_unit(precision),
                      rate_text(seconds > 0 ? estimate.operations / seconds : 0, precision));
  if (layer.alignment.applies)
    text += fmt::format("; {}, {:.0f}% of the matrix units used", layer.alignment.aligned ? "aligned" : "misaligned",
                        layer.alignment.utilisation() * 100);
  return text;
}

std::string roofline_plots(const Explanation& explanation) {
  std::string html;
  for (const Frame& frame : {kWide, kNarrow})
    html += "<div class=\"" + std::string(frame.css_class) + "\">" + roofline_plot(explanation, frame) +
            std::string(kReadout);
  return html;
}

std::string memory_plots(const Explanation& explanation) {
  std::string html;
  for (Frame frame : {kWide, kNarrow}) {
    frame.height = 260;
    html += "<div class=\"" + std::string(frame.css_class) + "\">" + memory_plot(explanation, frame) +
            std::string(kReadout);
  }
  return html;
}

}  // namespace tessera::report
