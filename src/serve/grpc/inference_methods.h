// The methods of the Open Inference Protocol with one message and one answer, and Triton's extensions.
#pragma once

#include <string>
#include <unordered_map>

#include "serve/grpc/unary_call.h"

namespace tessera::serve {

using UnaryMethods = std::unordered_map<std::string, UnaryMethod>;  // by "/package.Service/Method"

// `service` must outlive them.
UnaryMethods inference_methods(Service& service);

}  // namespace tessera::serve
