// Sums of embeddings and the normalisation of them as one operator.
#include <gtest/gtest.h>

#include "support/pass_context.h"

namespace tessera::passes::fuse_embeddings_test {
namespace {

using Lines = std::vector<std::string>;

const std::string kTables =
    "constant %w = f32[3, 4] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12} constant %p = f32[2, 4] {1, 0, -1, 2, 3, 1, 0, 2} "
    "constant %t = f32[2, 4] {0, 1, 0, 1, 2, 0, 2, 0} "
    "constant %g = f32[4] {1, 2, 3, 4} constant %b = f32[4] {-1, 0, 1, 2} ";
// Ids that no random input puts outside the tables.
const std::string kStart = "graph { input %x : f32[batch, 2] input %z : f32[batch, 2] constant %half = f32[] {0.5} " +
                           kTables +
                           "%xg = Greater (%x, %half) %ids = Cast (%xg) {to = 7} %zg = Greater (%z, %half) %parts = "
                           "Cast (%zg) {to = 7} %words = Gather (%w, %ids) ";
const Lines kIds{"%xg = Greater (%x, %half)", "%ids = Cast (%xg) {to = 7}"},
    kBoth{"%xg = Greater (%x, %half)", "%ids = Cast (%xg) {to = 7}", "%zg = Greater (%z, %half)",
          "%parts = Cast (%zg) {to = 7}"};

Lines joined(Lines lines, const Lines& more) {
  lines.insert(lines.end(), more.begin(), more.end());
  return lines;
}
void expect_fused(const std::string& text, const Lines& nodes) {
  test::expect_rewritten(kStart + text, "fuse_embeddings", nodes, 200);
}
void expect_unchanged(const std::string& text) {
  ir::Graph given = test::parsed(text);
  given.remove_dead_and_compact();
  EXPECT_EQ(test::nodes_of(fuse_embeddings(given, test::cpu_pass_context())), test::nodes_of(given)) << text;
}

TEST(FuseEmbeddings, WordsAndTheirPlaces) {
  expect_fused(
      "%s = Add (%words, %p) %y = LayerNormalization (%s, %g, %b) {epsilon = 0.5} output %y }",
      joined(kIds, {"%y = com.microsoft::EmbedLayerNormalization (%ids, none, %w, %p, none, %g, %b) {epsilon = 0.5}"}));
  // Counted, or named by ids that all sequences share.
  expect_fused(
      "constant %zero = i64[] {0} constant %one = i64[] {1} constant %two = i64[] {2} %r = Range (%zero, %two, %one) "
      "%places = Gather (%p, %r) %s = Add (%words, %places) %y = LayerNormalization (%s, %g) output %y }",
      joined(kIds,
             {"%y = com.microsoft::EmbedLayerNormalization (%ids, none, %w, %p, none, %g, %?) {epsilon = 1e-05}"}));
  expect_fused(
      "input %k : f32[1, 2] %kg = Greater (%k, %half) %kc = Cast (%kg) {to = 7} %places = Gather (%p, %kc) %s = Add "
      "(%places, %words) %y = LayerNormalization (%s, %g, %b) output %y }",
      joined(kIds, {"%kg = Greater (%k, %half)", "%kc = Cast (%kg) {to = 7}",
                    "%y = com.microsoft::EmbedLayerNormalization (%ids, none, %w, %p, none, %g, %b, none, %kc) "
                    "{epsilon = 1e-05}"}));
}

TEST(FuseEmbeddings, TokenTypesToo) {
  expect_fused(
      "%types = Gather (%t, %parts) %a = Add (%words, %types) %s = Add (%a, %p) %y = LayerNormalization (%s, %g, %b) "
      "output %y }",
      joined(kBoth,
             {"%y = com.microsoft::EmbedLayerNormalization (%ids, %parts, %w, %p, %t, %g, %b) {epsilon = 1e-05}"}));
  expect_fused(
      "%types = Gather (%t, %parts) %s = Add (%words, %types) %y = LayerNormalization (%s, %g, %b) output %y }",
      joined(kBoth, {"%y = com.microsoft::EmbedLayerNormalization (%ids, none, %w, %t, none, %g, %b, none, %parts) "
                     "{epsilon = 1e-05}"}));
}

TEST(FuseEmbeddings, SumsThatOthersRead) {
  expect_fused(
      "%s = Add (%words, %p) %n = LayerNormalization (%s, %g, %b) %y = Mul (%n, %s) output %y }",
      joined(
          kIds,
          {"%n, none, %s = com.microsoft::EmbedLayerNormalization (%ids, none, %w, %p, none, %g, %b) {epsilon = 1e-05}",
           "%y = Mul (%n, %s)"}));
}

TEST(FuseEmbeddings, LeavesOthers) {
  expect_unchanged(kStart + "%y = LayerNormalization (%words, %g, %b) output %y }");
  expect_unchanged(kStart +
                   "%s = Add (%words, %b) %y = LayerNormalization (%s, %g, %b) output %y }");  // one row for all places
  expect_unchanged(kStart + "%s = Add (%words, %p) %y = RMSNormalization (%s, %g) output %y }");
  expect_unchanged(kStart +
                   "%turned = Gather (%w, %ids) {axis = 1} %s = Add (%words, %p) %y, %m = LayerNormalization (%s, %g, "
                   "%b) output %y, %m, %turned }");
  expect_unchanged(kStart +
                   "input %table : f32[3, 4] %rows = Gather (%table, %ids) %s = Add (%rows, %p) %y = "
                   "LayerNormalization (%s, %g, %b) output %y }");
  // A single column that the sum repeats.
  expect_unchanged(kStart +
                   "constant %narrow = f32[2, 1] {1, 2} %types = Gather (%narrow, %parts) %s = Add (%words, %types) %y "
                   "= LayerNormalization (%s, %g, %b) output %y }");
  expect_unchanged(kStart +
                   "constant %narrow = f32[3, 1] {1, 2, 3} %rows = Gather (%narrow, %ids) %s = Add (%rows, %p) %y = "
                   "LayerNormalization (%s, %g, %b) output %y }");
  const std::string text = kStart + "%s = Add (%words, %p) %y = LayerNormalization (%s, %g, %b) output %y }";
  EXPECT_EQ(fuse_embeddings(test::parsed(text), {}).node_count(),
            test::parsed(text).node_count());  // a device without the kernel
}

}  // namespace
}  // namespace tessera::passes::fuse_embeddings_test
