#include "serve/core/models/version_shares.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "serve/core/operations/digest.h"

namespace tessera::serve {
namespace {

constexpr double kGoldenRatio = 0.6180339887498949;  // multiples of it, modulo 1, fill the unit interval evenly

std::string key_of(const InferenceRequest& request) {
  const SequenceId& sequence = request.sequence.id;
  if (!sequence.text.empty()) return sequence.text;
  if (sequence.number != 0) return std::to_string(sequence.number);
  return !request.routing_key.empty() ? request.routing_key : request.id;
}

// From 0 to below 1, the same on every machine. The model's name parts the choices for different models.
double place_of(const std::string& model, const std::string& key) {
  Sha256 digest;
  digest.add_number(static_cast<std::int64_t>(model.size()));
  digest.add(model);
  digest.add(key);
  std::uint64_t bits = 0;
  std::memcpy(&bits, digest.finish().data(), sizeof bits);
  return std::ldexp(static_cast<double>(bits >> 11), -53);
}

}  // namespace

VersionShares::VersionShares(std::map<std::int64_t, double> shares) : shares_(std::move(shares)) {
  double sum = 0;
  for (const auto& [version, share] : shares_) {
    require(std::isfinite(share) && share >= 0 && share <= 1e9, ErrorKind::invalid_argument,
            "version {} has the share {}, expected a number of at least 0", version, share);
    sum += share;
  }
  require(shares_.empty() || sum > 0, ErrorKind::invalid_argument, "no version has a share above 0");
  for (auto& [version, share] : shares_) share /= sum;
}

std::int64_t VersionShares::version_for(const InferenceRequest& request, std::uint64_t count) const {
  const std::string key = key_of(request);
  double place = 0, whole = 0;
  if (key.empty()) place = std::modf(static_cast<double>(count % (std::uint64_t{1} << 32)) * kGoldenRatio, &whole);
  else place = place_of(request.model, key);
  std::int64_t chosen = 0;
  for (const auto& [version, share] : shares_) {
    if (share <= 0) continue;
    chosen = version;
    place -= share;
    if (place < 0) break;
  }
  return chosen;
}

}  // namespace tessera::serve
