// The target of a request: one version of a model, or an ensemble of models.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/core/config/model_settings.h"
#include "serve/core/operations/statistics.h"
#include "serve/core/requests/call.h"
#include "tessera/share.h"

namespace tessera::serve {

struct ServableInfo {
  std::string name, version;
  std::string platform;  // "onnxruntime_onnx" for clients that know Triton's names, "ensemble" …
  ModelSettings settings;
  std::vector<TensorInfo> inputs, outputs;
};

// Thread-safe.
class Servable {
 public:
  virtual ~Servable() = default;
  virtual const ServableInfo& info() const = 0;
  // Returns false, and leaves the call alone, once drain() has begun. Throws Failure for a request that is refused at
  // once; else the call is done some time later.
  virtual bool submit(const std::shared_ptr<Call>& call) = 0;
  virtual StatisticsSnapshot statistics() const = 0;
  // Sets the statistics back, as if nothing had been asked.
  virtual void reset_statistics() { recorder().reset(); }
  // Counts the requests to this; for what answers requests before they come to it.
  virtual Statistics& recorder() = 0;
  virtual std::int64_t memory_bytes() const { return 0; }
  // In the memory of a device that has its own.
  virtual std::int64_t device_memory_bytes() const { return 0; }
  // The report on the arbiter's job that computes the model; none for an ensemble.
  virtual std::optional<JobReport> job() const { return std::nullopt; }
  // For models with states. Whether the sequence has begun here and takes more requests.
  virtual bool holds(const SequenceId&) const { return false; }
  // Sequences that have begun, and requests in progress.
  virtual std::int64_t open_sequences() const { return 0; }
  // submit() returns false for requests that begin a sequence from now on.
  virtual void refuse_new_sequences() {}
  // It takes no more requests; those that it has are answered.
  virtual void end_sequence(const SequenceId&) {}
  // Takes no more requests and returns when those that it has are done.
  virtual void drain() = 0;
};

}  // namespace tessera::serve
