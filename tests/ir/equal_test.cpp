#include <gtest/gtest.h>

#include <limits>

#include "ir/text.h"

namespace tessera::test::equal_test {
namespace {

const std::string kText =
    "graph \"g\" {\n"
    "  metadata \"k\" = \"v\"\n"
    "  input %x : f32[n, 2]\n"
    "  constant %c = f32[2] {1, nan}\n"
    "  constant %unused = i64[] {5}\n"
    "  variable %s = f32[] {0} update %z\n"
    "  %y = Add \"a\" (%x, %c) {axis = 1, scale = nan} : f32[n, 2]\n"
    "  %z = If (%s) captures (%y) {body = graph { input %y : f32[n, 2] output %y }}\n"
    "  output %y\n"
    "}\n";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(StructurallyEqual, IgnoresHandles) {
  const ir::Graph graph = ir::parse(kText);
  ir::Graph other =
      ir::parse(replaced(replaced(kText, "  constant %c = f32[2] {1, nan}\n", ""), "  constant %unused = i64[] {5}\n",
                         "  constant %unused = i64[] {5}\n  constant %c = f32[2] {1, nan}\n"));
  EXPECT_TRUE(structurally_equal(graph, other));
  other.remove_node(other.add_node({"Relu", "", {other.inputs()[0]}, {other.add_value("gone")}, {}, 0}));
  EXPECT_TRUE(structurally_equal(graph, other));
}

TEST(StructurallyEqual, SeesEveryDifference) {
  const ir::Graph graph = ir::parse(kText);
  const std::pair<const char*, const char*> changes[] = {{"\"g\"", "\"h\""},
                                                         {"\"v\"", "\"w\""},
                                                         {"[n, 2]", "[m, 2]"},
                                                         {"{1, nan}", "{1, 0}"},
                                                         {"{5}", "{6}"},
                                                         {"%unused", "%other"},
                                                         {"{0}", "{1}"},
                                                         {" update %z", ""},
                                                         {"update %z", "update %s"},
                                                         {"\"a\"", "\"b\""},
                                                         {"= Add", "= Sub"},
                                                         {"(%x, %c)", "(%c, %x)"},
                                                         {"axis = 1", "axis = 2"},
                                                         {"axis = 1", "axis = 1.0"},
                                                         {"axis = 1", "also = 1"},
                                                         {"scale = nan", "scale = nan(0x7fc00001)"},
                                                         {": f32[n, 2]\n  %z", ": f32[*]\n  %z"},
                                                         {"captures (%y)", "captures (%x)"},
                                                         {"(%s) captures (%y)", "(%s, %y)"},
                                                         {"output %y }", "output %y, %y }"},
                                                         {"output %y\n", "output %x\n"}};
  for (const auto& [from, to] : changes) {
    const ir::Graph other = ir::parse(replaced(kText, from, to));
    EXPECT_FALSE(structurally_equal(graph, other)) << from << " → " << to;
    EXPECT_FALSE(structurally_equal(other, graph)) << from << " → " << to;
  }
}

}  // namespace
}  // namespace tessera::test::equal_test
