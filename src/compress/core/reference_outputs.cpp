#include "compress/core/reference_outputs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compress/core/compression_costs.h"
#include "tessera/dictionary.h"
#include "tessera/error.h"

namespace tessera::compress {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::int64_t bytes_of(const NamedValues& values) {
  std::int64_t bytes = 0;
  for (const auto& [name, value] : values) bytes += value.is_tensor() ? value.tensor().bytes() : 0;
  return bytes;
}

// The number of samples that a run computes in about a second. Estimated, not measured, so that results do not depend
// on the machine.
std::int64_t cheap_samples(const Model& model) {
  constexpr double kMultiplyAdds = 2e10, kLeast = 32, kMost = 512;
  double each = 0;
  try {
    each = count_multiply_adds(model);
  } catch (const Error&) {  // shapes that do not fit a single sample
  }
  return static_cast<std::int64_t>(each > 0 ? std::clamp(kMultiplyAdds / each, kLeast, kMost) : kLeast);
}

}  // namespace

void OutputPowers::add(const Tensor& a, const Tensor& b) {
  for (std::int64_t i = 0; i < a.elements(); ++i) {
    const double x = static_cast<double>(a.data<float>()[i]), y = static_cast<double>(b.data<float>()[i]);
    signal += x * x;
    other += y * y;
    product += x * y;
    noise += (x - y) * (x - y);
  }
}

double OutputPowers::snr_db() const {
  if (!std::isfinite(noise)) return -kInfinity;
  return noise == 0 ? kInfinity : 10 * std::log10(signal / noise);
}

double OutputPowers::cosine() const {
  const double lengths = std::sqrt(signal * other);
  return !std::isfinite(noise) ? -1 : lengths > 0 ? product / lengths : 1;
}

void add_powers(PowersByOutput& powers, const NamedValues& a, const NamedValues& b) {
  for (const auto& [name, value] : a) {
    if (value.is_tensor() && value.tensor().dtype() == DType::f32)
      powers[name].add(value.tensor(), b.at(name).tensor());
  }
}

double lowest_snr_db(const PowersByOutput& powers) {
  double lowest = kInfinity;
  for (const auto& [name, each] : powers) lowest = std::min(lowest, each.snr_db());
  return lowest;
}

ReferenceOutputs::ReferenceOutputs(const Model& model, const CalibrationData& data, const SessionOptions& session,
                                   std::int64_t most_samples)
    : session_(session) {
  constexpr std::int64_t kMostBytes = std::int64_t{128} << 20;
  Session run(model, session);
  CalibrationData single = data;  // for samples that are far apart, no run takes several together
  single.batch = 1;
  const NamedValues first = first_sample(model, data);
  const std::int64_t bytes = std::max<std::int64_t>(1, bytes_of(first) + bytes_of(run.run(first, kSameNumbers)));
  const std::int64_t most = std::min(most_samples > 0 ? most_samples : cheap_samples(model), kMostBytes / bytes);
  all_ = read_spread_samples(model, single, std::max<std::int64_t>(1, most), [&](const SampleBatch& batch) {
    samples_.push_back(batch.inputs);
    outputs_.push_back(run.run(batch.inputs, kSameNumbers));
    count_ += batch.samples;
    return true;
  });
}

double ReferenceOutputs::snr_db_of(const Model& other) const {
  Session session(other, session_);
  PowersByOutput powers;
  for (std::size_t i = 0; i < samples_.size(); ++i)
    add_powers(powers, outputs_[i], session.run(samples_[i], kSameNumbers));
  return lowest_snr_db(powers);
}

OutputSnr compare_outputs(const ReferenceOutputs& reference, const Model& before, const Model& after,
                          const CalibrationData& data, const SessionOptions& session) {
  if (reference.has_all()) return {reference.snr_db_of(after), reference.samples()};
  Session a(before, session), b(after, session);
  OutputSnr difference;
  PowersByOutput powers;
  read_samples(before, data, [&](const SampleBatch& batch) {
    add_powers(powers, a.run(batch.inputs, kSameNumbers), b.run(batch.inputs, kSameNumbers));
    difference.samples += batch.samples;
    return true;
  });
  difference.snr_db = lowest_snr_db(powers);
  return difference;
}

}  // namespace tessera::compress
