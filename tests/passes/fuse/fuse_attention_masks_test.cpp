// What numbers of masks mean in attention that is spelt out stays what it is when the pass makes one node of it: rows
// with none, one and all of their keys masked, for every spelling of a mask, in results and in gradients.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backends/cpu/cpu_device.h"
#include "ops/core/builder.h"
#include "passes/training/differentiate.h"
#include "support/pass_context.h"
#include "support/random_tensor.h"
#include "tessera/session.h"

namespace tessera::passes::fuse_attention_masks_test {
namespace {

using test::parsed;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNumbers[] = {-1e4f, -65504, -1e9f, std::numeric_limits<float>::lowest(), -kInfinity};

// From scores %s to masked ones %e. Inputs: %m and %c are bool, true where a key is masked; %f is what is added.
struct Spelling {
  const char *name, *nodes;
};
constexpr Spelling kSpellings[] = {
    {"chosen", "%e = Where (%m, %N, %s) "},
    {"kept", "%n = Not (%m) %e = Where (%n, %s, %N) "},
    {"choice added", "%w = Where (%m, %N, %zero) %e = Add (%s, %w) "},
    {"product added", "%g = Cast (%m) {to = 1} %w = Mul (%g, %N) %e = Add (%w, %s) "},
    {"difference added",
     "%g = Not (%m) %h = Cast (%g) {to = 1} %w = Sub (%one, %h) %x = Mul (%w, %N) %e = Add (%s, %x) "},
    {"added", "%e = Add (%s, %f) "},
    {"causal chosen, padding added", "%a = Where (%c, %N, %s) %e = Add (%a, %f) "},
    {"padding added, causal chosen", "%a = Add (%s, %f) %e = Where (%c, %N, %a) "},
    {"both added", "%w = Where (%c, %N, %zero) %a = Add (%s, %f) %e = Add (%a, %w) "},
    {"both chosen", "%a = Where (%c, %N, %s) %e = Where (%m, %half, %a) "},
};
constexpr const char* kEnds[] = {
    "%p = Softmax (%e) ",
    "%r = Softmax (%e) %u = IsNaN (%r) %p = Where (%u, %zero, %r) ",
};

struct Sizes {
  int rank;
  std::int64_t queries, keys;
};

std::string text_of(const Spelling& spelling, const char* end, float number, const Sizes& sizes, float scale) {
  const std::string heads = sizes.rank == 4 ? "2, 2, " : "3, ",
                    mask = fmt::format("[{}{}, {}]", sizes.rank == 4 ? "2, 1, " : "3, ", sizes.queries, sizes.keys),
                    turn = sizes.rank == 4 ? "[0, 1, 3, 2]" : "[0, 2, 1]";
  return fmt::format(
             "graph {{ input %q : f32[{0}{1}, 4] input %k : f32[{0}{2}, 4] input %v : f32[{0}{2}, 6] input %m : "
             "bool{3} "
             "input %f : f32{3} input %c : bool[{1}, {2}] constant %N = f32[] {{{4}}} constant %half = f32[] {{0.5}} "
             "constant %one = f32[] {{1}} constant %zero = f32[] {{0}} constant %scale = f32[] {{{5}}} "
             "%t = Transpose (%k) {{perm = {6}}} %d = MatMul (%q, %t) %s = Mul (%d, %scale) ",
             heads, sizes.queries, sizes.keys, mask, std::isinf(number) ? "-inf" : fmt::format("{:.9g}", number), scale,
             turn) +
         spelling.nodes + end + "%y = MatMul (%p, %v) output %y }";
}

// Products of these are whole numbers, so that no order of sums changes them.
Tensor whole_numbers(const Shape& shape, std::uint64_t seed) {
  Tensor result = test::random_tensor(DType::f32, shape, seed, -3, 3);
  for (float& each : std::span(result.mutable_data<float>(), static_cast<std::size_t>(result.elements())))
    each = std::round(each);
  return result;
}

// Rows by turns: all keys are masked, none, one, about half.
Tensor masked_keys(const Shape& shape, std::uint64_t seed) {
  const Tensor random = test::random_tensor(DType::f32, shape, seed);
  Tensor result(DType::boolean, shape);
  const std::int64_t keys = shape.back();
  for (std::int64_t i = 0; i < result.elements(); ++i) {
    const std::int64_t row = i / keys % 4, key = i % keys;
    result.mutable_data<bool>()[i] =
        row == 0 || (row == 2 && key == keys / 2) || (row == 3 && random.data<float>()[i] > 0);
  }
  return result;
}

NamedValues inputs_for(const Sizes& sizes, float number) {
  const Shape heads = sizes.rank == 4 ? Shape{2, 2} : Shape{3};
  const auto with = [](Shape shape, std::int64_t rows, std::int64_t columns) {
    shape.insert(shape.end(), {rows, columns});
    return shape;
  };
  const Tensor mask = masked_keys(with(sizes.rank == 4 ? Shape{2, 1} : heads, sizes.queries, sizes.keys), 4);
  Tensor added(DType::f32, mask.shape());
  for (std::int64_t i = 0; i < mask.elements(); ++i) added.mutable_data<float>()[i] = mask.data<bool>()[i] ? number : 0;
  Tensor causal(DType::boolean, {sizes.queries, sizes.keys});
  for (std::int64_t i = 0; i < causal.elements(); ++i)
    causal.mutable_data<bool>()[i] = i % sizes.keys > i / sizes.keys + 1;
  return {{"q", whole_numbers(with(heads, sizes.queries, 4), 1)},
          {"k", whole_numbers(with(heads, sizes.keys, 4), 2)},
          {"v", test::random_tensor(DType::f32, with(heads, sizes.keys, 6), 3)},
          {"m", mask},
          {"f", added},
          {"c", causal}};
}

void expect_equal(const Tensor& got, const Tensor& want, float tolerance) {
  ASSERT_EQ(got.shape(), want.shape());
  for (std::int64_t i = 0; i < want.elements(); ++i) {
    const float a = got.data<float>()[i], b = want.data<float>()[i];
    if (std::isnan(b)) ASSERT_TRUE(std::isnan(a)) << "element " << i << " is " << a << ", expected NaN";
    else ASSERT_NEAR(a, b, tolerance) << "element " << i;
  }
}

PassContext context() {
  PassContext result = test::cpu_pass_context();
  return result;
}

NamedValues run(const ir::Graph& graph, const NamedValues& inputs, const char* device, bool fuses) {
  SessionOptions options;
  options.device = device;
  if (!fuses) options.without_passes = {"fuse_attention"};
  return Session(Model(std::make_shared<const ir::Graph>(graph)), options).run(inputs);
}

template <typename Check>
void for_each_case(std::span<const Sizes> all_sizes, const Check& check) {
  for (const Spelling& spelling : kSpellings) {
    for (const char* end : kEnds) {
      for (const float number : kNumbers) {
        for (const float scale : {0.25f, 16.0f}) {
          for (const Sizes& sizes : all_sizes) {
            SCOPED_TRACE(fmt::format("{}, {}, number {}, scale {}, rank {}, {} queries, {} keys", spelling.name,
                                     end == kEnds[0] ? "plain" : "guarded", number, scale, sizes.rank, sizes.queries,
                                     sizes.keys));
            check(parsed(text_of(spelling, end, number, sizes, scale)), inputs_for(sizes, number));
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

constexpr Sizes kSizes[] = {{3, 1, 7}, {4, 1, 5}, {3, 5, 7}, {4, 6, 9}};

TEST(FuseAttentionMasks, ResultsStay) {
  for_each_case(kSizes, [](const ir::Graph& graph, const NamedValues& inputs) {
    const ir::Graph made = fuse_attention(graph, context());
    ASSERT_TRUE(std::ranges::any_of(made.order(), [&](ir::NodeId id) { return made.node(id).op == "Attention"; }));
    const Tensor want = run(graph, inputs, "reference", false).at("y").tensor();
    for (const char* device : {"reference", "cpu"}) {
      SCOPED_TRACE(device);
      expect_equal(run(graph, inputs, device, true).at("y").tensor(), want, 1e-6f);
    }
    expect_equal(run(graph, inputs, "cpu", false).at("y").tensor(), want, 1e-6f);
  });
}

// Panels and blocks of queries and keys.
TEST(FuseAttentionMasks, ResultsOfManyKeysStay) {
  constexpr Sizes kMany[] = {{4, 40, 1100}};
  for (const Spelling& spelling : kSpellings) {
    for (const float number : {-1e9f, -kInfinity}) {
      SCOPED_TRACE(fmt::format("{}, number {}", spelling.name, number));
      const ir::Graph graph = parsed(text_of(spelling, kEnds[0], number, kMany[0], 16));
      const NamedValues inputs = inputs_for(kMany[0], number);
      const Tensor want = run(graph, inputs, "reference", false).at("y").tensor();
      expect_equal(run(graph, inputs, "cpu", true).at("y").tensor(), want, 1e-5f);
    }
  }
}

// The graph with the gradients of the sum of y's elements, weighted, as outputs "gradient q" ….
ir::Graph with_gradients(ir::Graph graph) {
  ops::GraphBuilder builder(graph);
  const ir::ValueId y = graph.outputs()[0];
  const Shape shape = *graph.value(y).type.shape();
  const ir::ValueId weighted = builder.add("Mul", {y, builder.constant(whole_numbers(shape, 9))});
  std::vector<ir::ValueId> xs;
  for (const ir::ValueId input : graph.inputs()) {
    if (const std::string& name = graph.value(input).name; name == "q" || name == "k" || name == "v" || name == "f")
      xs.push_back(input);
  }
  const std::vector<ir::ValueId> gradients = build_gradients(graph, weighted, xs);
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const ir::ValueId gradient = builder.add("Identity", {gradients[i]});
    graph.value(gradient).name = "gradient " + graph.value(xs[i]).name;
    graph.add_output(gradient);
  }
  return graph;
}

// Where NaN is guarded, the gradient of what is spelt out is NaN, and that of the node is 0.
TEST(FuseAttentionMasks, GradientsStay) {
  for (const bool has_mask_gradient : {false, true}) {
    constexpr Sizes kFew[] = {{4, 1, 5}, {3, 5, 7}};
    for_each_case(kFew, [&](ir::Graph graph, NamedValues inputs) {
      if (graph.node_count() == 0) return;
      const bool is_guarded =
          std::ranges::any_of(graph.order(), [&](ir::NodeId id) { return graph.node(id).op == "IsNaN"; });
      if (is_guarded) return;
      if (!has_mask_gradient) {
        // The mask as a constant is no longer an input that may be asked for.
        for (const ir::ValueId input : graph.inputs()) {
          if (graph.value(input).name != "f") continue;
          graph.value(input).name = "not asked for";
          inputs.emplace("not asked for", inputs.at("f"));
          inputs.erase("f");
          break;
        }
      }
      const ir::Graph composed = with_gradients(graph), fused = with_gradients(fuse_attention(graph, context()));
      const NamedValues want = run(composed, inputs, "reference", false);
      for (const char* device : {"reference", "cpu"}) {
        SCOPED_TRACE(device);
        const NamedValues got = run(fused, inputs, device, false);
        for (const auto& [name, value] : want) {
          SCOPED_TRACE(name);
          expect_equal(got.at(name).tensor(), value.tensor(), 2e-4f);
        }
      }
    });
  }
}

// Values that are not finite where nobody looks: 0 times NaN is NaN in the graph, and so it is in the node.
TEST(FuseAttentionMasks, ValuesThatAreNotFinite) {
  for (const Sizes& sizes : {Sizes{4, 1, 5}, Sizes{4, 6, 9}, Sizes{4, 40, 1100}}) {
    SCOPED_TRACE(fmt::format("{} queries, {} keys", sizes.queries, sizes.keys));
    const ir::Graph graph = parsed(text_of(kSpellings[0], kEnds[0], -1e9f, sizes, 1));
    NamedValues inputs = inputs_for(sizes, -1e9f);
    Tensor& values = inputs.at("v").tensor();
    values.mutable_data<float>()[1] = std::numeric_limits<float>::quiet_NaN();
    values.mutable_data<float>()[values.elements() - 1] = kInfinity;
    const Tensor want = run(graph, inputs, "reference", false).at("y").tensor();
    for (const char* device : {"reference", "cpu"}) {
      SCOPED_TRACE(device);
      const Tensor got = run(graph, inputs, device, true).at("y").tensor();
      for (std::int64_t i = 0; i < want.elements(); ++i) {
        const float a = got.data<float>()[i], b = want.data<float>()[i];
        if (std::isfinite(b)) ASSERT_NEAR(a, b, 1e-5f) << i;
        else ASSERT_TRUE(std::isnan(a) ? std::isnan(b) : a == b) << i << ": " << a << ", expected " << b;
      }
    }
  }
}

// A row whose keys are all masked gets equal weights where a number replaces its scores.
TEST(FuseAttentionMasks, ARowOfMaskedKeysGetsTheMeanOfTheValues) {
  const ir::Graph graph = parsed(text_of(kSpellings[0], kEnds[0], -1e9f, {4, 1, 5}, 30));
  const NamedValues inputs = inputs_for({4, 1, 5}, -1e9f);
  const Tensor& values = inputs.at("v").tensor();
  for (const char* device : {"reference", "cpu"}) {
    const Tensor got = run(graph, inputs, device, true).at("y").tensor();
    for (std::int64_t head = 0; head < 2; ++head) {  // of the first batch: all keys are masked
      for (std::int64_t e = 0; e < 6; ++e) {
        float mean = 0;
        for (std::int64_t key = 0; key < 5; ++key) mean += values.data<float>()[(head * 5 + key) * 6 + e] / 5;
        EXPECT_NEAR(got.data<float>()[head * 6 + e], mean, 1e-6f) << device;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::passes::fuse_attention_masks_test
