// Helpers that the tests of the emulation share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "emulation/launch.h"

namespace tessera::emulation {

inline LaunchOptions one_block(unsigned threads, std::uint64_t seed = 0, Landing landing = Landing::late) {
  LaunchOptions options;
  options.block = {threads, 1, 1};
  options.seed = seed;
  options.landing = landing;
  return options;
}

// The message of the fault that the launch ends with, or "" where it ends well.
template <class... Parameters, class... Arguments>
std::string fault_of(const LaunchOptions& options, void (*kernel)(Parameters...), const Arguments&... arguments) {
  try {
    launch(options, kernel, arguments...);
  } catch (const KernelFault& fault) {
    return fault.what();
  }
  return "";
}

}  // namespace tessera::emulation
