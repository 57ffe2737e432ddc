// tessera::SumRows of float32: the indices are sorted stably by place, and the rows of each place are added by one
// thread, so that sums are equal bit for bit with any number of threads.
#include "ops/movement/sum_rows.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backends/cpu/movement/kernels.h"
#include "backends/cpu/movement/movement.h"
#include "backends/cpu/movement/scatter_rows.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kFloatsPerChunk = 16 * 1024;  // floats per chunk

// The buffers of a thread.
struct Workspace {
  std::vector<std::int64_t> places, order, begins;  // of each index; indices by place; start of each place there
  std::vector<std::int64_t> counts;

  static Workspace& of_this_thread() {
    thread_local Workspace workspace;
    return workspace;
  }
};

// Sorts index numbers by place: by counting if the table is small, by comparisons otherwise.
void sort(Workspace& work, std::int64_t size) {
  const auto count = static_cast<std::int64_t>(work.places.size());
  work.order.resize(work.places.size());
  constexpr std::int64_t kRowsAnIndex = 16;
  if (size > kRowsAnIndex * count) {
    std::iota(work.order.begin(), work.order.end(), 0);
    std::ranges::sort(work.order, [&](std::int64_t a, std::int64_t b) {
      const std::int64_t x = work.places[static_cast<std::size_t>(a)], y = work.places[static_cast<std::size_t>(b)];
      return x != y ? x < y : a < b;
    });
    return;
  }
  work.counts.assign(static_cast<std::size_t>(size) + 1, 0);
  for (const std::int64_t place : work.places) ++work.counts[static_cast<std::size_t>(place) + 1];
  std::partial_sum(work.counts.begin(), work.counts.end(), work.counts.begin());
  for (std::int64_t k = 0; k < count; ++k) {
    const auto place = static_cast<std::size_t>(work.places[static_cast<std::size_t>(k)]);
    work.order[static_cast<std::size_t>(work.counts[place]++)] = k;
  }
}

template <typename Index>
void read_places(const Index* indices, std::int64_t size, std::vector<std::int64_t>& places) {
  for (std::size_t k = 0; k < places.size(); ++k) places[k] = checked_index(indices[k], size);
}

}  // namespace

std::string reject_sum_rows(const ops::NodeView& view) {
  return view.input(0).dtype == DType::f32 ? "" : "takes f32";
}

void sum_rows(KernelContext& context) {
  const Tensor &rows = context.input(0), &indices = context.input(1);
  const std::int64_t size = ops::single_integer(context.input(2), "size"), count = indices.elements();
  if (count == 0) return;
  const std::int64_t inner = rows.elements() / count;
  Workspace& work = Workspace::of_this_thread();
  work.places.resize(static_cast<std::size_t>(count));
  if (indices.dtype() == DType::i64) read_places(indices.data<std::int64_t>(), size, work.places);
  else read_places(indices.data<std::int32_t>(), size, work.places);
  sort(work, size);
  work.begins.clear();
  auto* places = context.output(1).mutable_data<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t place = work.places[static_cast<std::size_t>(work.order[static_cast<std::size_t>(i)])];
    if (i > 0 && place == places[work.begins.size() - 1]) continue;
    places[work.begins.size()] = place;
    work.begins.push_back(i);
  }
  const auto found = static_cast<std::int64_t>(work.begins.size());
  std::fill(places + found, places + count, size);
  work.begins.push_back(count);
  const float* from = rows.data<float>();
  float* to = context.output(0).mutable_data<float>();
  const std::span<const std::int64_t> order(work.order), begins(work.begins);
  context.parallel_for(count, std::max<std::int64_t>(1, kFloatsPerChunk / std::max<std::int64_t>(1, inner)),
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t i = begin; i < end; ++i) {
                           std::memset(to + i * inner, 0, static_cast<std::size_t>(inner) * sizeof(float));
                           if (i >= found) continue;
                           const auto place = static_cast<std::size_t>(i);
                           for (std::int64_t k = begins[place]; k < begins[place + 1]; ++k)
                             add_row(from + order[static_cast<std::size_t>(k)] * inner, to + i * inner, inner);
                         }
                       });
}

}  // namespace tessera::backends::cpu
