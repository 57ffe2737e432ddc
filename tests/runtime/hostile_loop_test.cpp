// Loops, sequences and texts that grow, and runs that do not end: memory stays in its limit, and time in the one that
// is set.
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "ir/text.h"
#include "ops/core/infer.h"
#include "support/expect_error.h"
#include "support/guarded.h"
#include "support/sanitized.h"
#include "tessera/session.h"

namespace tessera::test::hostile_loop_test {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

Model model_of(const std::string& text) {
  ir::Graph graph = ir::parse(text);
  ops::infer_graph(graph);
  return Model(std::make_shared<const ir::Graph>(std::move(graph)));
}

// A loop of `trips` rounds around a body with the carried values and nodes given; see Loop in
// ops/core/control_flow.cpp.
std::string loop(const std::string& inputs, const std::string& outputs, const std::string& body_inputs,
                 const std::string& nodes, const std::string& body_outputs,
                 std::int64_t trips = std::int64_t{1} << 40) {
  return "graph { " + inputs + " constant %trips = i64[] {" + std::to_string(trips) + "} " + outputs +
         " = Loop \"the_loop\" (%trips, none" + (body_inputs.empty() ? "" : ", %start") +
         ") {body = graph { input %i : i64[] input %c : bool[] " + body_inputs + " " + nodes + " output %c" +
         body_outputs + " }} output " + outputs + " }";
}

void run(const std::string& text, std::int64_t time_limit_ns = 0, std::int64_t memory_limit_bytes = 128 * kMiB) {
  SessionOptions options;
  options.threads = 1;
  options.memory_limit_bytes = memory_limit_bytes;
  options.max_growing_bytes = INT64_MAX;
  Session session(model_of(text), options);
  RunOptions how;
  how.time_limit_ns = time_limit_ns;
  session.run({}, how);
}

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(HostileLoop, ScanOutputsGrowToTheLimitOfMemory) {
  const std::string large = loop("", "%y", "", "constant %k = i64[1] {100000} %s = ConstantOfShape (%k)", ", %s");
  expect_refused("a trillion slices of 400 kB", ErrorKind::over_budget, "of the limit of 128.0 MiB are in use",
                 [&] { run(large); });
  const std::string texts =
      loop("", "%y", "", "constant %s = string[] {\"" + std::string(100'000, 't') + "\"} %t = Identity (%s)", ", %t");
  expect_refused("a trillion texts of 100 kB", ErrorKind::over_budget, "of the limit of 128.0 MiB are in use",
                 [&] { run(texts); });
  const std::string small = loop("", "%y", "", "", ", %i");
  expect_refused("a trillion numbers", ErrorKind::over_budget, "(in node 'the_loop' (Loop))",
                 [&] { run(small, 2 * kSecond); });
}

// With the default budget of what results may grow to.
void run_by_default(const std::string& text, std::int64_t max_growing_bytes = SessionOptions().max_growing_bytes) {
  SessionOptions options;
  options.threads = 1;
  options.max_growing_bytes = max_growing_bytes;
  RunOptions how;
  how.time_limit_ns = 20 * kSecond;
  Session(model_of(text), options).run({}, how);
}

TEST(HostileLoop, ResultsThatWouldGrowTooLargeAreRefusedAtOnce) {
  constexpr const char* advice =
      "raise SessionOptions::max_growing_bytes (--growth-limit MIB) if that is meant (in node 'the_loop' (Loop))";
  const std::string numbers = loop("", "%y", "", "", ", %i");
  expect_refused("a trillion numbers", ErrorKind::over_budget,
                 "hold 8 B after 1 of 1099511627776 iterations and would grow to 8.0 TiB, more than the 1.0 GiB",
                 [&] { run_by_default(numbers); });
  expect_refused("a trillion numbers", ErrorKind::over_budget, advice, [&] { run_by_default(numbers); });
  const std::string padded = loop("constant %start = f32[1] {1}", "%y", "input %v : f32[*]",
                                  "constant %p = i64[2] {0, 1} %w = Pad (%v, %p)", ", %w");
  expect_refused("a tensor that is padded", ErrorKind::over_budget,
                 "after 1024 of 1099511627776 iterations and would grow to", [&] { run_by_default(padded); });
  const std::string sequence =
      loop("constant %first = f32[1] {0} %start = SequenceConstruct (%first)", "%y", "input %v : seq(f32[*])",
           "constant %k = i64[1] {1} %e = ConstantOfShape (%k) %w = SequenceInsert (%v, %e)", ", %w");
  expect_refused("a sequence of numbers", ErrorKind::over_budget,
                 "after 1024 of 1099511627776 iterations and would grow to", [&] { run_by_default(sequence); });
}

TEST(HostileLoop, WhereAConditionMayEndTheLoopTheBudgetCountsWhatIsThere) {
  const std::string endless =
      "constant %k = i64[1] {100000} %s = ConstantOfShape (%k) constant %most = i64[] {1099511627776} %go = Less (%i, "
      "%most)";
  const std::string text =
      "graph { constant %trips = i64[] {1099511627776} %y = Loop \"the_loop\" (%trips, none) {body = graph { input %i "
      ": i64[] input %c : bool[] " +
      endless + " output %go, %s }} output %y }";
  expect_refused("slices of 400 kB", ErrorKind::over_budget,
                 "iterations, more than the 16.0 MiB that growing results may take",
                 [&] { run_by_default(text, 16 * kMiB); });
}

TEST(HostileLoop, LongLoopsWhoseResultsStayInTheBudgetRun) {
  EXPECT_NO_THROW(run_by_default(loop("", "%y", "", "", ", %i", 100'000), kMiB));
  EXPECT_NO_THROW(run_by_default(
      loop("constant %start = f32[1] {1}", "%y", "input %v : f32[1]", "%w = Neg (%v)", ", %w", 100'000), 64));
}

TEST(HostileLoop, ScanOutputsAreStackedAsTheyCome) {
  Session session(model_of(loop("", "%y", "", "", ", %i", 100'000)));
  const Tensor y = session.run({}).at("y").tensor();
  ASSERT_EQ(y.shape(), Shape{100'000});
  for (std::int64_t i = 0; i < y.elements(); i += 997) EXPECT_EQ(y.data<std::int64_t>()[i], i);
  EXPECT_LT(session.memory().results_bytes, 2 * kMiB);
}

TEST(HostileLoop, AScanOutputThatChangesItsShapeIsAnError) {
  const std::string text =
      loop("", "%y", "", "constant %zero = i64[] {0} constant %one = i64[] {1} %r = Range (%zero, %i, %one)", ", %r");
  expect_refused("slices of different lengths", ErrorKind::failed,
                 "a scan output changes its type from i64[0] to i64[1] between iterations", [&] { run(text); });
}

TEST(HostileLoop, CarriedValuesGrowToTheLimitOfMemory) {
  const std::string doubled =
      loop("constant %start = f32[1] {1}", "%y", "input %v : f32[*]", "%w = Concat (%v, %v) {axis = 0}", ", %w");
  expect_refused("a tensor that doubles", ErrorKind::over_budget, "of the limit of 128.0 MiB are in use",
                 [&] { run(doubled); });
  const std::string text = loop("constant %start = string[] {\"abcdefghijklmnopqrstuvwxyz\"}", "%y",
                                "input %v : string[]", "%w = StringConcat (%v, %v)", ", %w");
  expect_refused("a text that doubles", ErrorKind::over_budget, "of the limit of 128.0 MiB are in use",
                 [&] { run(text); });
  const std::string padded = loop("constant %start = f32[1] {1}", "%y", "input %v : f32[*]",
                                  "constant %p = i64[2] {0, 1000000} %w = Pad (%v, %p)", ", %w");
  expect_refused("a tensor that is padded", ErrorKind::over_budget, "of the limit of 128.0 MiB are in use",
                 [&] { run(padded); });
}

std::string growing_sequence(std::int64_t elements) {
  return loop(
      "constant %first = f32[1] {0} %start = SequenceConstruct (%first)", "%y", "input %v : seq(f32[*])",
      "constant %k = i64[1] {" + std::to_string(elements) + "} %e = ConstantOfShape (%k) %w = SequenceInsert (%v, %e)",
      ", %w");
}

TEST(HostileLoop, SequencesGrowToTheLimitOfMemory) {
  expect_refused("a sequence of tensors of 1 MB", ErrorKind::over_budget, "of the limit of 128.0 MiB are in use",
                 [] { run(growing_sequence(250'000)); });
  expect_refused("a sequence of numbers", ErrorKind::over_budget, "", [] { run(growing_sequence(1), 2 * kSecond); });
  const std::string parts =
      "graph { constant %k = i64[1] {20000000} constant %v = u8[1] {1} %x = ConstantOfShape (%k) {value = u8[1] {1}} "
      "%s = SplitToSequence (%x) %y = SequenceLength (%s) output %y }";
  expect_refused("twenty million tensors of a byte", ErrorKind::over_budget, "of the limit of 128.0 MiB are in use",
                 [&] { run(parts); });
  const std::string doubled =
      loop("constant %first = f32[1] {0} %start = SequenceConstruct (%first)", "%y", "input %v : seq(f32[*])",
           "%e = ConcatFromSequence (%v) {axis = 0} %w = SequenceInsert (%v, %e)", ", %w");
  expect_refused("a sequence whose last element is all others", ErrorKind::over_budget,
                 "of the limit of 128.0 MiB are in use", [&] { run(doubled); });
}

TEST(HostileLoop, ScansOfLongSequencesStayInTheLimit) {
  const std::string text =
      "graph { constant %k = i64[1] {10000} %x = ConstantOfShape (%k) %y = Scan \"the_scan\" (%x) {body = graph { "
      "input %e : f32[] constant %k = i64[1] {100000} "
      "%s = ConstantOfShape (%k) output %s }, num_scan_inputs = 1} output %y }";
  expect_refused("ten thousand slices of 400 kB", ErrorKind::over_budget,
                 "value 'y' of f32[10000, 100000] takes 3.7 GiB, more than the limit of 128.0 MiB", [&] { run(text); });
}

// --- time ---

const std::string kEndless = loop("constant %start = f32[1] {1}", "%y", "input %v : f32[1]", "", ", %v");

// Kernels whose work is out of all proportion to their operands.
const std::string kLongWork[] = {
    // A product of 2^33 multiplications in whole numbers, and one of three that is left to the reference.
    "graph { constant %k = i64[2] {2048, 2048} %a = ConstantOfShape (%k) {value = i64[1] {3}} %y = MatMul \"long\" "
    "(%a, %a) output %y }",
    "graph { constant %k = i64[3] {40, 40, 40} %a = ConstantOfShape (%k) %y = Einsum \"long\" (%a, %a, %a) {equation = "
    "\"iab,jac,kbc->ijk\"} output %y }",
    "graph { constant %k = i64[4] {1, 8, 512, 512} %x = ConstantOfShape (%k) {value = f64[1] {1}} constant %l = i64[4] "
    "{8, 8, 101, 101} %w = ConstantOfShape (%l) "
    "{value = f64[1] {1}} %y = Conv \"long\" (%x, %w) output %y }",
    "graph { constant %k = i64[4] {1, 1, 512, 512} %x = ConstantOfShape (%k) {value = f64[1] {1}} constant %l = i64[4] "
    "{1, 1, 301, 301} %w = ConstantOfShape (%l) {value = f64[1] {1}} %y = ConvTranspose \"long\" (%x, %w) output %y }",
    "graph { constant %k = i64[4] {1, 1, 3000, 3000} %x = ConstantOfShape (%k) %y = LpPool \"long\" (%x) {kernel_shape "
    "= [1500, 1500]} output %y }",
    "graph { constant %k = i64[3] {1, 3000000, 1} %x = ConstantOfShape (%k) {value = f64[1] {1}} %y = DFT \"long\" "
    "(%x) output %y }",
    "graph { constant %k = i64[2] {3000, 3000} %x = ConstantOfShape (%k) %z = EyeLike (%x) %y = Det \"long\" (%z) "
    "output %y }",
    "graph { constant %k = i64[2] {1500, 1500} %x = ConstantOfShape (%k) %z = EyeLike (%x) %y = com.microsoft::Inverse "
    "\"long\" (%z) output %y }",
};

TEST(HostileLoop, ATimeLimitEndsWhatTakesLong) {
  expect_refused("a loop without steps", ErrorKind::over_budget,
                 "the run takes longer than its limit of 300.00 ms (in node 'the_loop' (Loop))",
                 [] { run(kEndless, 3 * kSecond / 10); });
  for (const std::string& text : kLongWork) {
    expect_refused(text, ErrorKind::over_budget, "the run takes longer than its limit of 300.00 ms (in node 'long' (",
                   [&] { run(text, 3 * kSecond / 10, 450 * kMiB); });
  }
}

TEST(HostileLoop, ATimeLimitThatIsNotReachedChangesNothing) {
  EXPECT_NO_THROW(run(loop("", "%y", "", "", ", %i", 100), 60 * kSecond));
}

TEST(HostileLoop, CancellingEndsALongKernel) {
  const auto cancelled = [] {
    Session session(model_of(kLongWork[0]));
    Cancellation cancellation;
    std::thread stopper([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      cancellation.cancel();
    });
    RunOptions options;
    options.cancellation = &cancellation;
    try {
      session.run({}, options);
    } catch (...) {
      stopper.join();
      throw;
    }
    stopper.join();
  };
  constexpr const char* message = "the run was cancelled (in node 'long' (MatMul))";
  // The thread sanitizer gives up where a child of a process with threads begins one ("dup thread").
  if (kSanitized) expect_error_containing(ErrorKind::cancelled, message, cancelled);
  else expect_refused("a long product", ErrorKind::cancelled, message, cancelled);
}

TEST(HostileLoop, LoopsInLoopsRunInMemoryThatIsBounded) {
  // Each level runs twice and stacks what the one below gives: 2^40 slices.
  std::string nested = "graph { input %i : i64[] input %c : bool[] output %c, %i }";
  for (int depth = 0; depth < 40; ++depth) {
    nested = "graph { input %i : i64[] input %c : bool[] constant %two = i64[] {2} %s = Loop (%two, none) {body = " +
             nested + "} output %c, %s }";
  }
  const std::string text =
      "graph { constant %two = i64[] {2} %y = Loop \"outer\" (%two, none) {body = " + nested + "} output %y }";
  expect_refused("forty loops in each other", ErrorKind::over_budget, "", [&] { run(text, 2 * kSecond); });
}

}  // namespace
}  // namespace tessera::test::hostile_loop_test
