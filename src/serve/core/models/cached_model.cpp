#include "serve/core/models/cached_model.h"

#include "serve/core/operations/log.h"
#include "serve/core/operations/tracing.h"

namespace tessera::serve {

CachedModel::CachedModel(std::shared_ptr<Servable> model, ResponseCache& cache)
    : model_(std::move(model)), cache_(cache), owner_(cache.add_owner()) {}

CachedModel::~CachedModel() {
  drain();
}

bool CachedModel::submit(const std::shared_ptr<Call>& call) {
  if (!call->request.sequence.id.is_none()) return model_->submit(call);  // a model of an ensemble may keep states
  const std::int64_t start_ns = now_ns();
  std::string key = content_key(call->request);
  std::optional<std::vector<OutputTensor>> outputs = cache_.find(owner_, key);
  const std::int64_t found_ns = now_ns();
  if (outputs) {
    if (call->trace) call->trace->add("cache", start_ns, found_ns);
    recorder().answered_from_cache(found_ns - call->arrival_ns, found_ns - start_ns);
    call->done({std::nullopt, {info().name, info().version, call->request.id, std::move(*outputs)}});
    return true;
  }
  std::function<void(Outcome)> done = call->done;
  call->done = [this, done, key = std::move(key), lookup_ns = found_ns - start_ns](Outcome outcome) {
    const std::int64_t begin_ns = now_ns();
    if (outcome.response.draws_random_numbers) tell_of_random_answers();
    else if (!outcome.failure) cache_.insert(owner_, key, outcome.response.outputs);
    recorder().missed_in_cache(lookup_ns + now_ns() - begin_ns);
    done(std::move(outcome));
  };
  const bool taken = model_->submit(call);
  if (!taken) call->done = std::move(done);  // the call goes to another version
  return taken;
}

void CachedModel::tell_of_random_answers() {
  if (told_.exchange(true)) return;
  log(Level::warning, "the response cache keeps no answers of a model that draws random numbers",
      {{"model", info().name}, {"version", info().version}});
}

void CachedModel::drain() {
  model_->drain();
  cache_.remove_all_of(owner_);
}

}  // namespace tessera::serve
