// Which version of a model a request goes to.
#include <algorithm>

#include "base/error.h"
#include "serve/core/models/repository.h"
#include "serve/core/operations/log.h"

namespace tessera::serve {
namespace {

constexpr int kTries = 8;  // of a request that meets models which are being exchanged

}  // namespace

// The version that the request names, or that the shares give it, or "" for the highest.
std::string Repository::version_for(const InferenceRequest& request) const {
  if (!request.version.empty() && request.version != "-1") return request.version;
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(request.model);
  if (found == entries_.end() || found->second.shares.is_none()) return "";
  return std::to_string(found->second.shares.version_for(request, found->second.requests++));
}

std::map<std::int64_t, double> Repository::shares(const std::string& name) const {
  find(name);
  const std::lock_guard lock(mutex_);
  return entries_.at(name).shares.shares();
}

std::map<std::string, std::map<std::int64_t, double>> Repository::all_shares() const {
  std::map<std::string, std::map<std::int64_t, double>> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, entry] : entries_) {
    if (!entry.shares.is_none()) all[name] = entry.shares.shares();
  }
  return all;
}

void Repository::set_shares(const std::string& name, const std::map<std::int64_t, double>& shares) {
  find(name);
  VersionShares checked;
  try {
    checked = VersionShares(shares);
  } catch (const Error& error) {
    throw Failure(Reason::bad_request, error.message());
  }
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_.at(name);
  for (const auto& [version, share] : shares) {
    if (!entry.versions.contains(version))
      throw Failure(Reason::bad_request, fmt::format("version {} of model '{}' is not loaded", version, name));
  }
  entry.shares = std::move(checked);
  log(Level::info, "shares of versions changed", {{"model", name}});
}

std::shared_ptr<Servable> Repository::route(const InferenceRequest& request) const {
  const SequenceId& id = request.sequence.id;
  const std::string version = version_for(request);
  if (id.is_none()) return find(request.model, version);
  std::vector<std::shared_ptr<Servable>> found;
  {
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.find(request.model);
    if (entry != entries_.end() && !entry->second.versions.empty()) {
      for (const auto& [number, servable] : entry->second.versions) found.insert(found.begin(), servable);
      for (const auto& weak : entry->second.lingering) {
        if (std::shared_ptr<Servable> servable = weak.lock()) found.push_back(std::move(servable));
      }
    }
  }
  const bool any_version = request.version.empty() || request.version == "-1";
  std::erase_if(found, [&](const std::shared_ptr<Servable>& servable) {
    return (!any_version && servable->info().version != request.version) || !servable->holds(id);
  });
  if (!request.sequence.is_start && !found.empty()) return found.front();
  const std::shared_ptr<Servable> chosen = find(request.model, version);
  for (const std::shared_ptr<Servable>& servable : found) {
    if (servable != chosen) servable->end_sequence(id);  // the client begins it anew
  }
  return chosen;
}

void Repository::end_sequence(const InferenceRequest& request) const {
  const std::shared_ptr<Servable> servable = route(request);
  if (servable->holds(request.sequence.id)) servable->end_sequence(request.sequence.id);
}

void Repository::submit(const std::shared_ptr<Call>& call) const {
  for (int i = 0; i < kTries; ++i) {
    if (route(call->request)->submit(call)) return;
  }
  throw Failure(Reason::unavailable, "the model is being exchanged", 0.1);
}

}  // namespace tessera::serve
