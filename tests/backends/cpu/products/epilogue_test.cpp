#include "backends/cpu/products/epilogue.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "backends/cpu/element_wise/element_wise_unary.h"
#include "ops/op_table.h"

namespace tessera::backends::cpu::epilogue_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

FusedForm form_of(std::string_view activation) {
  return row_activation(activation, {}).form;
}

TEST(Epilogue, TheTableOfActivationsSaysWhatProductsApplyThemselves) {
  EXPECT_EQ(form_of("Relu"), FusedForm::above_zero);
  EXPECT_EQ(form_of("Clip"), FusedForm::bounds);
  EXPECT_EQ(form_of("HardSwish"), FusedForm::hard_swish);
  EXPECT_EQ(form_of("Gelu"), FusedForm::function);
  EXPECT_EQ(row_activation("Cube", {}).function, nullptr);
}

TEST(Epilogue, ParametersAreThoseOfTheActivation) {
  const float bounds[] = {-1.5f, 6};
  const RowActivation clip = row_activation("Clip", bounds);
  EXPECT_EQ(clip.parameters.a, -1.5f);
  EXPECT_EQ(clip.parameters.b, 6);
  float row[] = {-kInfinity, 0, 7};
  clip(row, 3);
  EXPECT_EQ(row[0], -1.5f);
  EXPECT_EQ(row[1], 0);
  EXPECT_EQ(row[2], 6);
}

// Each line of the table is one entry of one operator; GeluTanh is an activation alone.
TEST(Epilogue, EntriesOfOneOperandAreOfOperatorsThatThereAre) {
  std::set<std::string> names;
  for (const KernelEntry& entry : unary_kernels()) {
    EXPECT_NE(ops::find_op(entry.op), nullptr) << entry.op;
    EXPECT_TRUE(names.insert(std::string(entry.name)).second) << entry.name;
    EXPECT_TRUE(entry.name.starts_with("cpu_")) << entry.name;
    EXPECT_NE(entry.op, "GeluTanh");
  }
  EXPECT_EQ(names.size(), 38u);
}

}  // namespace
}  // namespace tessera::backends::cpu::epilogue_test
