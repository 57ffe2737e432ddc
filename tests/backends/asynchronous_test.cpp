#include "backends/asynchronous.h"

#include <gtest/gtest.h>

#include "ir/graph.h"
#include "ops/op_table.h"
#include "support/error_of.h"

namespace tessera::backends::asynchronous_test {
namespace {

// Work that is complete when it was waited for so often.
class Work final : public PendingWork {
 public:
  Work(int waits, int& ended) : waits_(waits), ended_(ended) {}
  ~Work() override { ++ended_; }
  bool wait_for(std::chrono::nanoseconds) override {
    if (waits_ < 0) fail(ErrorKind::failed, "the file is gone");
    return waits_-- == 0;
  }

 private:
  int waits_;
  int& ended_;
};

class Begins final : public AsynchronousKernel {
 public:
  Begins(int waits, int& ended) : waits_(waits), ended_(ended) {}
  std::unique_ptr<PendingWork> begin(KernelContext&) const override { return std::make_unique<Work>(waits_, ended_); }

 private:
  const int waits_;
  int& ended_;
};

void run(int waits, int& ended, const base::StopSignal* stop = nullptr) {
  ir::Node node;
  node.op = "Neg";
  const ExecutionResources resources{.stop = stop};
  KernelContext context(node, ops::op_of(node), {}, {}, {}, resources);
  Begins(waits, ended).run(context);
}

TEST(AsynchronousKernel, WaitsForItsWorkWhereNobodyElseDoes) {
  int ended = 0;
  run(3, ended);
  EXPECT_EQ(ended, 1);
}

TEST(AsynchronousKernel, EndsItsWorkWhenItFailsOrTheRunHasToStop) {
  int ended = 0;
  EXPECT_NE(test::error_of([&] { run(-1, ended); }).find("the file is gone"), std::string::npos);
  EXPECT_EQ(ended, 1);
  const std::atomic<bool> cancelled{true};
  const base::StopSignal stop(&cancelled, {});
  EXPECT_NE(test::error_of([&] { run(INT_MAX, ended, &stop); }).find("cancelled"), std::string::npos);
  EXPECT_EQ(ended, 2);
}

}  // namespace
}  // namespace tessera::backends::asynchronous_test
