// Descriptions of the server and its models as JSON texts, with the keys of the Open Inference Protocol and of Triton's
// extensions.
#pragma once

#include <string>
#include <vector>

#include "serve/core/control/repository_parameters.h"
#include "serve/core/models/repository.h"
#include "serve/core/service.h"

namespace tessera::serve {

std::string server_metadata_json();
std::string model_metadata_json(const ServableInfo& info, const std::vector<std::string>& versions);
std::string model_config_json(const ServableInfo& info);
std::string statistics_json(const std::vector<std::shared_ptr<Servable>>& models);
std::string index_json(const std::vector<ModelState>& states, bool ready_only);
std::string regions_json(const std::vector<Region>& regions);
// The data of the status page.
std::string status_json(const std::vector<std::shared_ptr<Servable>>& models, const std::vector<ModelState>& states,
                        const ServerCounters& counters, bool is_ready, const RunTimeline& timeline);

// Bodies of requests that are no inferences. Throw Failure(bad_request).
// Parts of requests by version: {"1": 0.9, "2": 0.1}.
std::string shares_json(const std::map<std::int64_t, double>& shares);
std::map<std::int64_t, double> parse_shares(std::string_view body);
Region parse_region(const std::string& name, std::string_view body);
bool parse_ready_only(std::string_view body);
// Reads the body of a request to load or unload: {"parameters": {"config": "…"}}, {"parameters": {"unload_dependents":
// true}}. Throws Failure(unsupported) for files of a model.
RepositoryParameters parse_repository_parameters(std::string_view body, bool load);
// Triton's settings of traces and logs: what is asked for is refused if it is not so already.
std::string trace_settings_json();
std::string log_settings_json(std::string_view body);

}  // namespace tessera::serve
