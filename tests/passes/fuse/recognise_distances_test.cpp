// Scans over rows that become squared distances.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::recognise_distances_test {
namespace {

using test::parsed;

// As converters write it: the rows of %x are carried, those of %s are scanned.
std::string scan(const std::string& sum, const std::string& attributes = "", const std::string& columns = "3") {
  return fmt::format(
      "graph {{ input %x : f32[n, 3] input %s : f32[7, {}] %k, %d = Scan (%x, %s) {{num_scan_inputs = 1, {} body = "
      "graph "
      "{{ input %f : f32[n, 3] input %r : f32[{}] constant %axis = i64[1] {{1}} %g = Identity (%f) %c = Sub (%f, %r) "
      "%q = {} %o = Identity (%q) output %g, %o }}}} %t = Transpose (%d) {{perm = [1, 0]}} output %t }}",
      columns, attributes, columns, sum);
}
const std::string kSum = "ReduceSumSquare (%c, %axis) {keepdims = 0}";

std::vector<std::string> rewritten(const std::string& text) {
  const PassContext context = test::cpu_pass_context();
  return test::nodes_of(recognise_distances(capture_invariants(parsed(text), context), context));
}

TEST(RecogniseDistances, OfAScanOverRows) {
  EXPECT_EQ(rewritten(scan(kSum)), std::vector<std::string>{"%t = tessera::SquaredDistances (%x, %s)"});
  test::expect_same_outputs(Model(std::make_shared<const ir::Graph>(parsed(scan(kSum)))), "recognise_distances");
}

TEST(RecogniseDistances, LeavesOtherScans) {
  for (const std::string& text :
       {scan("ReduceSum (%c, %axis) {keepdims = 0}"), scan("ReduceL1 (%c, %axis) {keepdims = 0}"),
        scan(kSum, "scan_input_directions = [1],"), scan(kSum, "", "1")}) {
    for (const std::string& node : rewritten(text))
      EXPECT_EQ(node.find("tessera::SquaredDistances"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace tessera::passes::recognise_distances_test
