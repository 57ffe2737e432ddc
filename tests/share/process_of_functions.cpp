// A process that is a job and runs functions alone, which daemon_test.cpp starts. Its exit status is the number of the
// first expectation that does not hold, or 0.
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "lease/job_description.h"
#include "lease/messages.h"
#include "tessera/share.h"

int main() {
  tessera::Arbiter arbiter;
  tessera::Job loader = arbiter.add_job({.name = "loader", .priority = tessera::Priority::background});
  int decoded = 0;
  for (int i = 0; i < 5; ++i) loader.run("decode", [&] { ++decoded; });
  if (decoded != 5) return 1;
  try {
    loader.run("decode", [] { throw std::runtime_error("no such file"); });
    return 2;
  } catch (const std::runtime_error&) {
  }
  const nlohmann::json status =
      nlohmann::json::parse(tessera::lease::request_status(std::getenv(tessera::lease::kSocketVariable)));
  const nlohmann::json& jobs = status.at("jobs");
  if (jobs.size() != 1 || jobs.at(0).at("name") != "functions") return 3;
  if (jobs.at(0).at("runs") != 6) return 4;
  return jobs.at(0).at("failed_runs") == 1 ? 0 : 5;
}
