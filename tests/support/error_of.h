// The text of the Error that a call throws, for tests of what users read; empty when nothing is thrown.
#pragma once

#include <string>

#include "tessera/error.h"

namespace tessera::test {

template <typename Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace tessera::test
