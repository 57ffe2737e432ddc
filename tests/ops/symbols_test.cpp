#include "ops/symbols.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/op_table.h"
#include "support/expect_error.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::symbols_test {
namespace {

ops::SymbolTable table(std::string id, std::string name, std::string op, ir::Attributes attributes = {}) {
  return {std::move(id), 7, {{std::move(name), std::move(op), std::move(attributes)}}};
}

TEST(Symbols, StandForOperatorsWithAttributes) {
  const std::vector<std::int64_t> perm{1, 0};
  ops::add_symbols(table("transposes", "tessera::_transposes", "Transpose", {{"perm", perm}}));
  EXPECT_EQ(ops::find_op("tessera::_transposes"), ops::find_op("Transpose"));
  EXPECT_EQ(ops::find_salt("transposes"), 7U);
  EXPECT_EQ(ops::find_salt("others"), std::nullopt);
  EXPECT_THAT(ops::known_symbol_tables(), testing::Contains("transposes"));
  const Tensor x = Tensor::from<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor expected = run_op_tensor({"Transpose", {x}, {{"perm", perm}}});
  EXPECT_TRUE(identical(run_op_tensor({"tessera::_transposes", {x}}), expected));
}

TEST(Symbols, HoldAttributesThatAreChecked) {
  ops::add_symbols(table("wrong", "tessera::_wrong", "Transpose", {{"perms", std::int64_t{1}}}));
  const ir::ValueType x = ir::ValueType::tensor(DType::f32, ir::Dims{2, 3});
  expect_error(ErrorKind::invalid_model, "has no attribute 'perms'", [&] { infer_op("tessera::_wrong", {x}); });
}

TEST(Symbols, AreKnownOnce) {
  ops::add_symbols(table("once", "tessera::_once", "Relu"));
  ops::add_symbols(table("once", "tessera::_another", "Relu"));  // the same table
  EXPECT_EQ(ops::find_op("tessera::_another"), nullptr);
  expect_error(ErrorKind::invalid_model, "symbol 'tessera::_once' is defined twice",
               [] { ops::add_symbols(table("twice", "tessera::_once", "Neg")); });
  expect_error(ErrorKind::invalid_model, "symbol 'tessera::_nothing' stands for an unknown operator 'Nothing'",
               [] { ops::add_symbols(table("nothing", "tessera::_nothing", "Nothing")); });
  expect_error(ErrorKind::invalid_model, "symbol 'tessera::_chain' stands for an unknown operator 'tessera::_once'",
               [] { ops::add_symbols(table("chain", "tessera::_chain", "tessera::_once")); });
  expect_error(ErrorKind::invalid_model, "'Relu' is not the name of a symbol",
               [] { ops::add_symbols(table("relu", "Relu", "Neg")); });
}

}  // namespace
}  // namespace tessera::test::symbols_test
