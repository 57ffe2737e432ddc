// What loops carry unchanged becomes a capture.
#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::capture_invariants_test {
namespace {

using test::parsed;

// Of three carried values the second never changes.
std::string loop(const std::string& outputs, const std::string& kept = "%k = Identity (%f)") {
  return "graph { input %x : f32[2] input %w : f32[2] constant %n = i64[] {3} constant %go = bool[] {true} "
         "%p, %q, %r, %s = Loop (%n, %go, %x, %w, %x) {body = graph { input %i : i64[] input %g : bool[] "
         "input %a : f32[2] input %f : f32[2] input %b : f32[2] %h = Identity (%g) %c = Mul (%a, %f) %d = Add (%b, "
         "%f) " +
         kept + " output %h, %c, %k, %d, %c }} " + outputs + " }";
}

ir::Graph captured(const std::string& text) {
  test::expect_same_outputs(Model(std::make_shared<const ir::Graph>(parsed(text))), "capture_invariants", 0);
  return capture_invariants(parsed(text), test::cpu_pass_context());
}

TEST(CaptureInvariants, OfALoop) {
  for (const std::string outputs : {"output %p, %r, %s", "output %p, %q, %r, %s", "%t = Add (%q, %p) output %t, %s"}) {
    const ir::Graph graph = captured(loop(outputs));
    const ir::Node& node = graph.node(graph.order().at(0));
    EXPECT_EQ(node.op, "Loop");
    EXPECT_EQ(node.captures, 1);
    ASSERT_EQ(node.inputs.size(), 5u);
    EXPECT_EQ(graph.value(node.inputs.back()).name, "w");
    EXPECT_EQ(node.outputs.size(), 3u);
    EXPECT_EQ(ir::subgraphs_of(node)[0].second->outputs().size(), 4u);
  }
}

TEST(CaptureInvariants, OfAScan) {
  const ir::Graph graph = captured(
      "graph { input %x : f32[5, 2] input %w : f32[2] input %z : f32[2] "
      "%p, %q, %r = Scan (%w, %z, %x) {num_scan_inputs = 1, body = graph { input %f : f32[2] input %a : f32[2] "
      "input %e : f32[2] %k = Identity (%f) %c = Mul (%e, %f) %d = Add (%a, %c) %o = Identity (%d) output %k, %d, %o "
      "}} "
      "output %p, %q, %r }");
  const ir::Node& node = graph.node(graph.order().at(0));
  EXPECT_EQ(node.captures, 1);
  EXPECT_EQ(node.inputs.size(), 3u);
  EXPECT_EQ(node.outputs.size(), 2u);
}

TEST(CaptureInvariants, LeavesWhatChanges) {
  // Another value's, the same after arithmetic.
  for (const std::string kept : {"%k = Identity (%b)", "%k = Abs (%f)"}) {
    const ir::Graph graph = captured(loop("output %p, %q, %r, %s", kept));
    EXPECT_EQ(graph.node(graph.order().at(0)).captures, 0) << kept;
  }
}

}  // namespace
}  // namespace tessera::passes::capture_invariants_test
