// Rows of large stored tables that are widened after they were looked up.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <vector>

#include "support/pass_context.h"

namespace tessera::passes::look_up_stored_rows_test {
namespace {

constexpr int kRows = 512, kColumns = 513;

// A constant of numbers from -50 to 50, or from 0 to 100; of halves in steps of a quarter.
std::string constant(const std::string& name, const std::string& type, int count, int low = -50, double step = 1) {
  std::vector<double> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back((low + i * 7 % 101) * step);
  return fmt::format("constant %{} = {} {{{}}} ", name, type, fmt::join(numbers, ", "));
}
std::string table(const std::string& type) {
  return constant("q", fmt::format("{}[{}, {}]", type, kRows, kColumns), kRows * kColumns, type == "u8" ? 0 : -50);
}
std::string rows(const std::string& name, const std::string& type = "f32", int low = 1) {
  return constant(name, fmt::format("{}[{}, 1]", type, kRows), kRows, low, 1);
}

const std::string kStart = "graph { input %x : i64[batch, 5] constant %far = i64[] {500} %i = Mul (%x, %far) ";

void expect_moved(const std::string& body, std::vector<std::string> nodes) {
  nodes.insert(nodes.begin(), "%i = Mul (%x, %far)");
  nodes.push_back("%y = Identity (%?)");
  test::expect_rewritten(kStart + body + " output %y }", "look_up_stored_rows", nodes, 0);
}
void expect_unchanged(const std::string& body) {
  test::expect_left_alone(kStart + body + " output %y }", "look_up_stored_rows");
}

const std::string kRowsOfTable = "%? = Gather (%?, %i) {axis = 0}", kWidened = "%? = Cast (%?) {to = 1}";

TEST(LookUpStoredRows, CastBytesAndHalves) {
  for (const std::string type : {"i8", "u8", "f16", "bf16"})
    expect_moved(table(type) + "%t = Cast (%q) {to = 1} %y = Gather (%t, %i)", {kRowsOfTable, kWidened});
}

TEST(LookUpStoredRows, ScaledByRow) {
  expect_moved(table("i8") + rows("s") + "%t = Cast (%q) {to = 1} %u = Mul (%t, %s) %y = Gather (%u, %i)",
               {kRowsOfTable, kWidened, kRowsOfTable, "%? = Mul (%?, %?)"});
  expect_moved(table("u8") + rows("s") + rows("z") +
                   "%t = Cast (%q) {to = 1} %v = Sub (%z, %t) %u = Mul (%s, %v) %y = Gather (%u, %i)",
               {kRowsOfTable, kWidened, kRowsOfTable, "%? = Sub (%?, %?)", kRowsOfTable, "%? = Mul (%?, %?)"});
}

TEST(LookUpStoredRows, ScaledByColumnOrAsAWhole) {
  for (const std::string shape : {"[513]", "[1, 513]"}) {
    expect_moved(table("i8") + constant("s", "f32" + shape, kColumns) +
                     "%t = Cast (%q) {to = 1} %u = Mul (%t, %s) %y = Gather (%u, %i)",
                 {kRowsOfTable, kWidened, "%? = Mul (%?, %?)"});
  }
  for (const std::string shape : {"[]", "[1]", "[1, 1]"}) {
    expect_moved(table("i8") + "constant %s = f32" + shape +
                     " {0.5} %t = Cast (%q) {to = 1} %u = Add (%t, %s) %y = Gather (%u, %i) {axis = 0}",
                 {kRowsOfTable, kWidened, "%? = Add (%?, %?)"});
  }
}

TEST(LookUpStoredRows, Dequantised) {
  const std::string dequantise = "%? = DequantizeLinear (%?, %?) {axis = -1}",
                    with_zero = "%? = DequantizeLinear (%?, %?, %?) {axis = -1}";
  expect_moved(table("i8") + "constant %s = f32[] {0.5} %t = DequantizeLinear (%q, %s) %y = Gather (%t, %i)",
               {kRowsOfTable, dequantise});
  expect_moved(
      table("u8") +
          "constant %s = f32[1] {0.5} constant %z = u8[1] {7} %t = DequantizeLinear (%q, %s, %z) %y = Gather (%t, %i)",
      {kRowsOfTable, with_zero});
  expect_moved(table("i8") + constant("s", "f32[513]", kColumns) + constant("z", "i8[513]", kColumns) +
                   "%t = DequantizeLinear (%q, %s, %z) %y = Gather (%t, %i)",
               {kRowsOfTable, with_zero});
  const std::string by_row = table("u8") + constant("s", "f32[512]", kRows);
  expect_moved(by_row + "%t = DequantizeLinear (%q, %s) {axis = 0} %y = Gather (%t, %i)",
               {kRowsOfTable, kWidened, kRowsOfTable, "%? = Mul (%?, %?)"});
  expect_moved(
      by_row + constant("z", "u8[512]", kRows, 0) +
          "%t = DequantizeLinear (%q, %s, %z) {axis = -2} %y = Gather (%t, %i)",
      {kRowsOfTable, kWidened, kRowsOfTable, kWidened, "%? = Sub (%?, %?)", kRowsOfTable, "%? = Mul (%?, %?)"});
}

TEST(LookUpStoredRows, LeavesOthers) {
  expect_unchanged(table("i8") + "%t = Cast (%q) {to = 1} %y = Gather (%t, %i) {axis = 1}");
  expect_unchanged(table("f32") + "%t = Cast (%q) {to = 1} %y = Gather (%t, %i)");
  expect_unchanged(table("i8") + "%t = Cast (%q) {to = 11} %y = Gather (%t, %i)");
  expect_unchanged(constant("q", "i8[501, 2]", 1002) + "%t = Cast (%q) {to = 1} %y = Gather (%t, %i)");  // small
  expect_unchanged(table("i8") + constant("s", "f32[1, 512, 1]", kRows) +
                   "%t = Cast (%q) {to = 1} %u = Mul (%t, %s) %y = Gather (%u, %i)");
  expect_unchanged(table("i8") +
                   "input %s : f32[512, 1] %t = Cast (%q) {to = 1} %u = Mul (%t, %s) %y = Gather (%u, %i)");
  expect_unchanged(table("i8") + "%t = Cast (%q) {to = 1} %u = Relu (%t) %y = Gather (%u, %i)");
}

}  // namespace
}  // namespace tessera::passes::look_up_stored_rows_test
