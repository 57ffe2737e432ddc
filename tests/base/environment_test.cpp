#include "base/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "support/error_of.h"

namespace tessera::test::environment_test {
namespace {

// Sets a variable while it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value, 1);
  }
  ~Variable() {
    if (before_.empty()) ::unsetenv(name_);
    else ::setenv(name_, before_.c_str(), 1);
  }

 private:
  const char* name_;
  std::string before_;
};

TEST(Environment, ThreadsAreAWholeNumber) {
  for (const auto& [text, threads] : {std::pair{"", 0}, {"0", 0}, {"1", 1}, {"1024", 1024}}) {
    const Variable variable("TESSERA_NUM_THREADS", text);
    EXPECT_EQ(base::threads_by_environment(), threads);
  }
  for (const std::string text : {"garbage", "-1", "1025", "2x", " 2", "99999999999999999999999"}) {
    const Variable variable("TESSERA_NUM_THREADS", text.c_str());
    EXPECT_EQ(error_of([] { base::threads_by_environment(); }),
              "TESSERA_NUM_THREADS expects a whole number from 0 (all cores) to 1024, got '" + text + "'");
  }
}

TEST(Environment, TheInstructionSetIsOneOfFour) {
  for (const char* text : {"", "scalar", "avx2", "avx512", "amx"}) {
    const Variable variable("TESSERA_ISA", text);
    EXPECT_EQ(base::isa_by_environment(), text);
  }
  const Variable variable("TESSERA_ISA", "AVX2");
  EXPECT_EQ(error_of([] { base::isa_by_environment(); }),
            "TESSERA_ISA expects scalar, avx2, avx512 or amx, got 'AVX2'");
}

}  // namespace
}  // namespace tessera::test::environment_test
