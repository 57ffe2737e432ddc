// Einsum that becomes products of matrices.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runtime/session/random_inputs.h"
#include "support/pass_context.h"
#include "support/tolerance.h"
#include "tessera/session.h"

namespace tessera::passes::multiply_einsums_test {
namespace {

std::string graph(const std::string& equation, const std::string& a, const std::string& b = "",
                  const std::string& type = "f32") {
  const std::string second = b == "-" ? "" : fmt::format("input %b : {}[{}] ", type, b);
  return fmt::format("graph {{ input %a : {}[{}] {}%y = Einsum (%a{}) {{equation = \"{}\"}} output %y }}", type, a,
                     second, b == "-" ? "" : ", %b", equation);
}

TEST(MultiplyEinsums, OfOneAndTwoOperands) {
  test::expect_rewritten(graph("bij,bjk->bik", "2, 3, 5", "2, 5, 7"), "multiply_einsums",
                         {"%? = MatMul (%a, %b)", "%y = Identity (%?)"});
  test::expect_rewritten(graph("ij->ji", "3, 5", "-"), "multiply_einsums",
                         {"%? = Transpose (%a) {perm = [1, 0]}", "%y = Identity (%?)"});
  test::expect_rewritten(graph("bqhd,bkhd->bhqk", "2, 3, 4, 5", "2, 7, 4, 5"), "multiply_einsums",
                         {"%? = Transpose (%a) {perm = [0, 2, 1, 3]}", "%? = Transpose (%b) {perm = [0, 2, 3, 1]}",
                          "%? = MatMul (%?, %?)", "%y = Identity (%?)"});
}

void expect_reference(const Model& model) {
  const NamedValues inputs = runtime::random_inputs(model, 1);
  SessionOptions by_definition;
  by_definition.device = "reference";
  const Tensor want = Session(model, by_definition).run(inputs).at("y").tensor();
  for (const int threads : {1, 2, 3}) {
    SessionOptions options;
    options.threads = threads;
    const Tensor have = Session(model, options).run(inputs).at("y").tensor();
    EXPECT_TRUE(test::close_to(have, want, test::Tolerance::epsilons(want.dtype(), 100))) << threads << " threads";
  }
}

TEST(MultiplyEinsums, AgreesWithTheDefinition) {
  const std::vector<std::vector<std::string>> cases = {
      {"bhqd,bhkd->bhqk", "2, 4, 3, 5", "2, 4, 7, 5"},
      {"bhqk,bkhd->bqhd", "2, 4, 3, 7", "2, 7, 4, 5"},
      {"bhwqc,hkc->bhwqk", "2, 3, 4, 5, 6", "3, 7, 6"},
      {"bnc,chw->bnhw", "2, 3, 5", "5, 4, 7"},
      {"i,j->ij", "3", "5"},
      {"i,j->ji", "3", "5"},
      {"i,i->", "7", "7"},
      {"i,i", "1", "7"},
      {"ij->", "3, 5", "-"},
      {"ij", "3, 5", "-"},
      {"ba", "3, 5", "-"},
      {"i...->...", "3, 5, 2", "-"},
      {"...ij->...ji", "3, 5, 2, 4", "-"},
      {"...ij,...jk->...ik", "2, 1, 3, 5", "4, 5, 7"},
      {"...j,...j->...", "2, 1, 3", "5, 3"},
      {"...ij,jk->i...k", "2, 4, 3, 5", "5, 7"},
      {"ij,ij->i", "3, 5", "3, 5"},
      {"ij,ij->ij", "3, 5", "3, 5"},
      {"ij,jk->ki", "3, 5", "5, 7"},
      {"ij,kl->k", "3, 5", "4, 7"},
      {"ijab,jkab->kib", "3, 5, 2, 4", "5, 7, 2, 4"},
      {"ijab,jkcab->kicb", "3, 5, 2, 4", "5, 7, 3, 2, 4"},
      {"ij,jk->ik", "3, 1", "5, 7"},
      {"ij,jk->ik", "1, 5", "1, 1"},
      {"ii,ij->j", "1, 1", "5, 7"},
      {"ij,jk->ik", "0, 5", "5, 7"},
      {"ij,jk->ik", "3, 0", "0, 7"},
      {"bii->b", "2, 3, 3", "-"},
      {",ij->ji", "", "3, 4"},
  };
  for (const std::string type : {"f32", "f64", "f16"}) {
    for (const std::vector<std::string>& each : cases) {
      const std::string text = graph(each[0], each[1], each[2], type);
      SCOPED_TRACE(text);
      expect_reference(Model(std::make_shared<const ir::Graph>(test::parsed(text))));
    }
  }
}

// Operands have the sizes of their letters.
std::string of_letters(const std::string& equation, const std::string& type = "f32") {
  static constexpr std::string_view kSizes = "2357463529";  // of a, b, c …
  std::string inputs, operands;
  int count = 0;
  std::string dims;
  const auto add = [&] {
    inputs += fmt::format("input %x{} : {}[{}] ", count, type, dims);
    operands += fmt::format("{}%x{}", count == 0 ? "" : ", ", count);
    ++count;
    dims.clear();
  };
  for (const char c : equation.substr(0, equation.find("->"))) {
    if (c == ',') add();
    else dims += fmt::format("{}{}", dims.empty() ? "" : ", ", kSizes[static_cast<std::size_t>(c - 'a')]);
  }
  add();
  return fmt::format("graph {{ {}%y = Einsum ({}) {{equation = \"{}\"}} output %y }}", inputs, operands, equation);
}

void expect_no_einsum(const std::string& text) {
  SCOPED_TRACE(text);
  for (const std::string& op : test::ops_of(multiply_einsums(test::parsed(text), test::cpu_pass_context())))
    EXPECT_NE(op, "Einsum");
  expect_reference(Model(std::make_shared<const ir::Graph>(test::parsed(text))));
}

TEST(MultiplyEinsums, OfManyOperandsAndDiagonals) {
  for (const std::string equation :
       {"ab,bc,cd->ad", "ab,cd,bc->ad", "abd,acd,ad->abc", "ab,a,b->", "ab,bc,cd,de->ae", "a,b,c->abc", "ab,ab,ab->ab",
        "aab->b", "aa->", "abab->ba", "aaa->a", "aba,bc->ca", "aa,aa,ab->b"})
    for (const std::string type : {"f32", "i32", "i64"}) expect_no_einsum(of_letters(equation, type));
  expect_no_einsum(graph("bii->b", "2, 3, 3", "-"));
  expect_no_einsum(graph("...ii->...i", "2, 3, 4, 4", "-", "f64"));
  expect_no_einsum(graph("ii,ij->j", "1, 5", "5, 7"));
}

TEST(MultiplyEinsums, LeavesUnknownSizesAndLargeProducts) {
  test::expect_left_alone(graph("ij,jk->ik", "n, 3", "3, 4"), "multiply_einsums");
  test::expect_left_alone(graph("ij,jk->ik", "2, 3", "3, 4", "i8"), "multiply_einsums");
  // Whatever two are multiplied first, there is more between than before and behind.
  test::expect_left_alone(
      "graph { input %a : f32[20, 20, 20] input %b : f32[20, 20, 20] input %c : f32[20, 20, 20] %y = Einsum (%a, %b, "
      "%c) {equation = \"iab,jac,kbc->ijk\"} output %y }",
      "multiply_einsums");
}

}  // namespace
}  // namespace tessera::passes::multiply_einsums_test
