// Attention that models spell out: what the pass makes of it, as text, and that outputs stay the same.
#include <gtest/gtest.h>

#include "backends/cpu/cpu_device.h"
#include "ir/text.h"
#include "models/models.h"
#include "plan/choose_kernel.h"
#include "runtime/run/evaluate.h"
#include "support/pass_context.h"

namespace tessera::passes::fuse_attention_test {
namespace {

using test::nodes_of;
using test::parsed;

PassContext context() {
  PassContext result;
  result.keeps_composite = [](const ir::Graph& graph, const ir::Node& node) {
    return plan::may_accept(backends::cpu_device(), graph, node);
  };
  return result;
}

ir::Graph fused(const std::string& text) {
  return fuse_attention(parsed(text), context());
}

using Lines = std::vector<std::string>;

void expect_same_outputs(const Model& model) {
  test::expect_same_outputs(model, "fuse_attention");
}

void expect_fused(const std::string& text, const Lines& nodes) {
  SCOPED_TRACE(text);
  EXPECT_EQ(nodes_of(fused(text)), nodes);
  expect_same_outputs(Model(std::make_shared<const ir::Graph>(parsed(text))));
}

void expect_unchanged(const std::string& text) {
  SCOPED_TRACE(text);
  EXPECT_EQ(ir::print(fused(text)), ir::print(parsed(text)));
}

const std::string kHeads =
    "graph { input %q : f32[2, 3, 5, 4] input %k : f32[2, 3, 7, 4] input %v : f32[2, 3, 7, 6] constant %half = f32[] "
    "{0.5} constant %two = f32[1] {2} "
    "constant %zero = f32[] {0} constant %lowest = f32[] {-3.4028235e38} ";
const std::string kTurned = "%t = Transpose (%k) {perm = [0, 1, 3, 2]} ";
const std::string kEnd = "%p = Softmax (%e) %y = MatMul (%p, %v) output %y }";

TEST(FuseAttention, ScalesOfScoresQueriesAndKeys) {
  const Lines once{"%y = Attention (%q, %k, %v) {nan_rows = 1, scale = 0.5}"};
  expect_fused(kHeads + kTurned + "%s = MatMul (%q, %t) %e = Mul (%half, %s) " + kEnd, once);
  expect_fused(kHeads + kTurned + "%s = MatMul (%q, %t) %e = Div (%s, %two) " + kEnd, once);
  expect_fused(kHeads + kTurned + "%a = Mul (%q, %half) %e = MatMul (%a, %t) " + kEnd, once);
  expect_fused(kHeads + "%b = Div (%k, %two) %t = Transpose (%b) {perm = [0, 1, 3, 2]} %e = MatMul (%q, %t) " + kEnd,
               once);
  expect_fused(kHeads + kTurned + "%a = Mul (%q, %half) %b = Mul (%t, %half) %e = MatMul (%a, %b) " + kEnd,
               {"%y = Attention (%q, %k, %v) {nan_rows = 1, scale = 0.25}"});
  expect_fused(
      kHeads + kTurned + "%a = Mul (%q, %half) %b = Add (%a, %zero) %s = MatMul (%b, %t) %e = Add (%zero, %s) " + kEnd,
      once);
  expect_fused(kHeads + kTurned + "%e = MatMul (%q, %t) %p = Softmax (%e) {axis = 3} %y = MatMul (%p, %v) output %y }",
               {"%y = Attention (%q, %k, %v) {nan_rows = 1, scale = 1.0}"});
}

TEST(FuseAttention, MasksThatAreAdded) {
  const std::string scores = kTurned + "%s = MatMul (%q, %t) %c = Mul (%s, %half) %e = Add (%m, %c) ";
  const Lines masked{"%y = Attention (%q, %k, %v, %m) {nan_rows = 1, scale = 0.5}"};
  for (const std::string shape : {"[7]", "[5, 7]", "[2, 1, 1, 7]", "[2, 3, 5, 7]"})
    expect_fused(kHeads + "input %m : f32" + shape + scores + kEnd, masked);
  expect_fused(kHeads + "input %m : f32[2, 1, 1, 7] input %n : f32[5, 7]" + scores +
                   "%f = Add (%e, %n) %p = Softmax (%f) %y = MatMul (%p, %v) output %y }",
               {"%y = Attention (%q, %k, %v, %m, none, none, none, none, %n) {nan_rows = 1, scale = 0.5}"});
  expect_unchanged(kHeads + "input %m : f32[2, 1, 1, 7] input %n : f32[5, 7]" + scores +
                   "%f = Add (%e, %n) %g = Add (%f, %n) %p = Softmax (%g) %y = MatMul (%p, %v) output %y }");
}

TEST(FuseAttention, MasksThatChoose) {
  const std::string scores = "input %m : bool[5, 7] " + kTurned + "%s = MatMul (%q, %t) %c = Mul (%s, %half) ";
  const std::string replaced = "%y = Attention (%q, %k, %v, none, none, none, none, %?) {nan_rows = 1, scale = 0.5}";
  for (const std::string number : {"lowest", "half"}) {
    expect_fused(kHeads + scores + "%e = Where (%m, %c, %" + number + ") " + kEnd,
                 {"%? = Where (%m, %?, %?)", replaced});
    expect_fused(kHeads + scores + "%e = Where (%m, %" + number + ", %c) " + kEnd,
                 {"%? = Where (%m, %?, %?)", replaced});
  }
}

TEST(FuseAttention, RowsOfNoNumbersThatBecomeZeros) {
  expect_fused(kHeads + kTurned +
                   "%e = MatMul (%q, %t) %s = Softmax (%e) %n = IsNaN (%s) %p = Where (%n, %zero, %s) %y = MatMul (%p, "
                   "%v) output %y }",
               {"%y = Attention (%q, %k, %v) {nan_rows = 2, scale = 1.0}"});
}

TEST(FuseAttention, BoundedScores) {
  expect_fused(kHeads + kTurned + "%s = MatMul (%q, %t) %d = Div (%s, %two) %h = Tanh (%d) %e = Mul (%h, %two) " + kEnd,
               {"%y = Attention (%q, %k, %v) {nan_rows = 1, scale = 1.0, softcap = 2.0}"});
}

TEST(FuseAttention, OtherRanks) {
  expect_fused(
      "graph { input %q : f32[2, 5, 4] input %k : f32[2, 7, 4] input %v : f32[2, 7, 6] %t = Transpose (%k) {perm = [0, "
      "2, 1]} %e = MatMul (%q, %t) " +
          kEnd,
      {"%? = Unsqueeze (%q, %?)", "%? = Unsqueeze (%k, %?)", "%? = Unsqueeze (%v, %?)",
       "%? = Attention (%?, %?, %?) {nan_rows = 1, scale = 1.0}", "%y = Squeeze (%?, %?)"});
  expect_fused(
      "graph { input %q : f32[5, 4] input %k : f32[7, 4] input %v : f32[7, 6] %t = Transpose (%k) %e = MatMul (%q, "
      "%t) " +
          kEnd,
      {"%? = Unsqueeze (%q, %?)", "%? = Unsqueeze (%k, %?)", "%? = Unsqueeze (%v, %?)",
       "%? = Attention (%?, %?, %?) {nan_rows = 1, scale = 1.0}", "%y = Squeeze (%?, %?)"});
}

const std::string kPacked =
    "graph { input %x : f32[batch, seq, 12] input %z : f32[batch, seq, 12] input %w : f32[batch, seq, 18] constant %n "
    "= i64[4] {0, 0, 3, 4} constant %o = i64[4] {0, 0, 3, 6} "
    "constant %r = i64[3] {0, 0, 18} constant %two = f32[] {2} %1 = Reshape (%x, %n) %2 = Reshape (%z, %n) %3 = "
    "Reshape (%w, %o) "
    "%q = Transpose (%1) {perm = [0, 2, 1, 3]} %v = Transpose (%3) {perm = [0, 2, 1, 3]} ";
const std::string kMerge =
    "%p = Softmax (%e) %h = MatMul (%p, %v) %4 = Transpose (%h) {perm = [0, 2, 1, 3]} %y = Reshape (%4, %r) output %y "
    "}";
const Lines kPackedResult{"%y = Attention (%x, %z, %w) {kv_num_heads = 3, nan_rows = 1, q_num_heads = 3, scale = 0.5}"};

TEST(FuseAttention, HeadsStayWhereTheyLie) {
  expect_fused(kPacked + "%t = Transpose (%2) {perm = [0, 2, 3, 1]} %s = MatMul (%q, %t) %e = Div (%s, %two) " + kMerge,
               kPackedResult);
  const std::string turned_twice =
      "%k = Transpose (%2) {perm = [0, 2, 1, 3]} %t = Transpose (%k) {perm = [0, 1, 3, 2]} %a = Div (%q, %two) %e = "
      "MatMul (%a, %t) ";
  expect_fused(kPacked + turned_twice + kMerge, kPackedResult);
  // Another use of the result before its heads are merged.
  expect_fused(kPacked + turned_twice + "%p = Softmax (%e) %h = MatMul (%p, %v) output %h }",
               {"%? = Attention (%x, %z, %w) {kv_num_heads = 3, nan_rows = 1, q_num_heads = 3, scale = 0.5}",
                "%? = Reshape (%?, %?)", "%h = Transpose (%?) {perm = [0, 2, 1, 3]}"});
}

// Q, K and V of one product, as timm and PaddleOCR spell it.
TEST(FuseAttention, PartsOfOneProduct) {
  const std::string start =
                        "graph { input %x : f32[batch, seq, 36] constant %n = i64[5] {0, 0, 3, 3, 4} constant %r = "
                        "i64[3] {0, 0, 12} constant %two = f32[] {2} "
                        "constant %0 = i64[1] {0} constant %1 = i64[1] {1} constant %2 = i64[1] {2} constant %3 = "
                        "i64[1] {3} constant %i = i64[] {0} constant %j = i64[] {1} constant %l = i64[] {2} "
                        "%5 = Reshape (%x, %n) %6 = Transpose (%5) {perm = [2, 0, 3, 1, 4]} ",
                    end =
                        "%a = Div (%q, %two) %t = Transpose (%k) {perm = [0, 1, 3, 2]} %e = MatMul (%a, %t) %p = "
                        "Softmax (%e) %h = MatMul (%p, %v) %4 = Transpose (%h) {perm = [0, 2, 1, 3]} "
                        "%y = Reshape (%4, %r) output %y }";
  const Lines result{"%? = Slice (%x, %?, %?, %?)", "%? = Slice (%x, %?, %?, %?)", "%? = Slice (%x, %?, %?, %?)",
                     "%y = Attention (%?, %?, %?) {kv_num_heads = 3, nan_rows = 1, q_num_heads = 3, scale = 0.5}"};
  expect_fused(start + "%q = Gather (%6, %j) %k = Gather (%6, %i) %v = Gather (%6, %l) " + end, result);
  expect_fused(start +
                   "%7 = Slice (%6, %0, %1, %0) %8 = Slice (%6, %1, %2, %0, %1) %9 = Slice (%6, %2, %3, %0) %q = "
                   "Squeeze (%7, %0) %k = Squeeze (%8, %0) %v = Squeeze (%9, %0) " +
                   end,
               result);
  expect_fused(start +
                   "%7, %8, %9 = Split (%6) {num_outputs = 3} %q = Squeeze (%7, %0) %k = Squeeze (%8, %0) %v = Squeeze "
                   "(%9, %0) " +
                   end,
               result);
}

// As torch exports scaled_dot_product_attention.
TEST(FuseAttention, KeysTurnedInBatches) {
  const std::string text =
      "graph { input %q : f32[2, 3, 5, 4] input %k : f32[2, 3, 7, 4] input %v : f32[2, 3, 7, 6] input %m : f32[2, 1, "
      "5, 7] constant %root = f32[] {0.5} "
      "constant %b = i64[3] {-1, 7, 4} constant %n = i64[4] {2, 3, 4, 7} %1 = Reshape (%k, %b) %2 = Transpose (%1) "
      "{perm = [0, 2, 1]} %3 = Reshape (%2, %n) "
      "%4 = Mul (%q, %root) %5 = Mul (%3, %root) %s = MatMul (%4, %5) %e = Add (%s, %m) " +
      kEnd;
  expect_fused(text, {"%y = Attention (%q, %k, %v, %m) {nan_rows = 1, scale = 0.25}"});
}

TEST(FuseAttention, HeadsOfKeysAndValuesThatAreRepeated) {
  const auto repeated = [](const std::string& name, const std::string& to) {
    return "%" + to + "1 = Unsqueeze (%" + name + ", %axis) %" + to + "2 = Expand (%" + to + "1, %group) %" + to +
           " = Reshape (%" + to + "2, %all) ";
  };
  const std::string text =
      "graph { input %q : f32[2, 6, 5, 4] input %x : f32[2, 2, 7, 4] input %z : f32[2, 2, 7, 4] constant %axis = "
      "i64[1] {2} constant %group = i64[5] {2, 2, 3, 7, 4} "
      "constant %all = i64[4] {2, 6, 7, 4} " +
      repeated("x", "k") + repeated("z", "v") + kTurned + "%e = MatMul (%q, %t) " + kEnd;
  expect_fused(text, {"%y = Attention (%q, %x, %z) {nan_rows = 1, scale = 1.0}"});
}

TEST(FuseAttention, ConstantMasksThatAreCausalOrNothing) {
  const std::string start = "graph { input %q : f32[2, 3, 2, 4] input %k : f32[2, 3, 3, 4] input %v : f32[2, 3, 3, 6] ",
                    end = kTurned + "%s = MatMul (%q, %t) %e = Add (%s, %m) " + kEnd;
  expect_fused(start + "constant %m = f32[1, 2, 3] {0, -1e30, -inf, 0, 0, -3e38} " + end,
               {"%y = Attention (%q, %k, %v) {is_causal = 1, nan_rows = 1, scale = 1.0}"});
  expect_fused(start + "constant %m = f32[2, 3] {0, 0, 0, 0, 0, 0} " + end,
               {"%y = Attention (%q, %k, %v) {nan_rows = 1, scale = 1.0}"});
  expect_fused(start + "constant %m = f32[2, 3] {0, -1e30, -1e30, 0, -1e30, -1e30} " + end,
               {"%y = Attention (%q, %k, %v, %m) {nan_rows = 1, scale = 1.0}"});
  expect_fused(start + "constant %m = f32[2, 3] {0, -1, -1, 0, 0, -1} " + end,
               {"%y = Attention (%q, %k, %v, %m) {nan_rows = 1, scale = 1.0}"});
}

TEST(FuseAttention, LeavesWhatItCannotTake) {
  const std::string product = "%e = MatMul (%q, %t) ";
  expect_unchanged(kHeads + kTurned + product + "%p = Softmax (%e) {axis = 2} %y = MatMul (%p, %v) output %y }");
  expect_unchanged(kHeads + kTurned + product +
                   "%p = Softmax (%e) %y = MatMul (%p, %v) output %y, %p }");  // the weights are wanted
  expect_unchanged(kHeads + "input %t : f32[2, 3, 4, 7] " + product +
                   kEnd);  // few queries do not pay for another order of the keys
  expect_unchanged(kHeads + "input %m : f32[2, 3, 5, 1] " + kTurned + "%s = MatMul (%q, %t) %e = Add (%s, %m) " + kEnd);
  expect_unchanged(kHeads + "input %w : f32[7, 6] " + kTurned + product +
                   "%p = Softmax (%e) %y = MatMul (%p, %w) output %y }");
  expect_unchanged(
      "graph { input %q : f32[*] input %k : f32[*] input %v : f32[*] input %m : f32[7] %s = MatMul (%q, %k) %e = Add "
      "(%s, %m) " +
      kEnd);
  PassContext no_kernel;
  const std::string plain = kHeads + kTurned + product + kEnd;
  EXPECT_EQ(ir::print(fuse_attention(parsed(plain), no_kernel)), ir::print(parsed(plain)));
}

TEST(FuseAttention, EveryLayerOfTransformers) {
  const PassContext with_evaluator{.evaluate =
                                       [](const ir::Node& node, std::span<const Value> inputs) {
                                         return runtime::evaluate_node(backends::cpu_device(), node, inputs, {});
                                       },
                                   .keeps_composite = context().keeps_composite};
  for (const std::string name : {"bert_base", "vit_b_16", "gpt2"}) {
    models::BuildOptions options;
    options.fill_weights = false;
    options.dims = {{"batch", 1}};
    if (name != "vit_b_16") options.dims["seq"] = 16;
    const ir::Graph graph = run_pipeline(models::build_model(name, options), with_evaluator, {});
    int packed = 0, causal = 0, masked = 0, softmax = 0;
    for (const ir::NodeId id : graph.order()) {
      const ir::Node& node = graph.node(id);
      packed += node.op == "Attention" && node.attributes.contains("q_num_heads") ? 1 : 0;
      causal += node.op == "Attention" && node.attributes.contains("is_causal") ? 1 : 0;
      masked += node.op == "Attention" && node.inputs.size() > 3 ? 1 : 0;
      softmax += node.op == "Softmax" ? 1 : 0;
    }
    EXPECT_EQ(packed, 12) << name;
    EXPECT_EQ(causal, name == "gpt2" ? 12 : 0) << name;
    EXPECT_EQ(masked, name == "bert_base" ? 12 : 0) << name;
    EXPECT_EQ(softmax, 0) << name;
  }
}

TEST(FuseAttention, ModelsComputeTheSame) {
  models::BuildOptions options;
  options.dims = {{"batch", 2}, {"seq", 19}};
  expect_same_outputs(Model(std::make_shared<const ir::Graph>(models::build_model("bert_mini", options))));
}

}  // namespace
}  // namespace tessera::passes::fuse_attention_test
