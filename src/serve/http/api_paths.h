// The paths of the API's addresses, and the answer to a request that is refused.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "serve/http/message.h"
#include "serve/protocol/failure.h"

namespace tessera::serve {

// The parts between the slashes, percent-decoded. Throws Failure(bad_request) for a malformed percent sign.
std::vector<std::string> split_path(std::string_view path);
// /v2/models/NAME[/versions/VERSION]/infer
bool is_inference(const std::vector<std::string>& path);

// /v2/models/NAME[/versions/VERSION]/generate or …/generate_stream
bool is_generation(const std::vector<std::string>& path);

HttpResponse failure_response(const Failure& failure);

}  // namespace tessera::serve
