// A model whose answers are kept: a request that is equal to an earlier one is answered without being computed. Answers
// that random numbers have a part in are not kept.
#pragma once

#include <atomic>

#include "serve/core/models/response_cache.h"
#include "serve/core/models/servable.h"

namespace tessera::serve {

class CachedModel final : public Servable {
 public:
  // For models whose answers depend on nothing but the request and random numbers.
  CachedModel(std::shared_ptr<Servable> model, ResponseCache& cache);
  ~CachedModel() override;

  const ServableInfo& info() const override { return model_->info(); }
  bool submit(const std::shared_ptr<Call>& call) override;
  StatisticsSnapshot statistics() const override { return model_->statistics(); }
  Statistics& recorder() override { return model_->recorder(); }
  std::int64_t memory_bytes() const override { return model_->memory_bytes(); }
  std::int64_t device_memory_bytes() const override { return model_->device_memory_bytes(); }
  std::optional<JobReport> job() const override { return model_->job(); }
  // Its answers leave the cache, too.
  void drain() override;

 private:
  void tell_of_random_answers();

  std::shared_ptr<Servable> model_;
  ResponseCache& cache_;
  const std::uint64_t owner_;
  std::atomic<bool> told_ = false;
};

}  // namespace tessera::serve
