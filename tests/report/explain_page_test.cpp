#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/models.h"
#include "report/explain.h"
#include "report/svg.h"

namespace tessera::test::explain_page_test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(ExplainPage, HasAMarkALayerAndNeedsNoNetwork) {
  report::ExplainOptions options;
  for (const char* name : {"a100-40-sxm", "l4"}) options.devices.push_back(*cost::find_built_in_profile(name));
  options.precision = cost::Precision::f16;
  const Model model(std::make_shared<const ir::Graph>(models::build_model("resnet18", {.dims = {{"batch", 4}}, .fill_weights = false})));
  const report::Explanation explanation = report::explain(model, "<b>resnet18</b>", options);
  const std::string page = report::explanation_html(explanation);
  std::size_t layers = 0;
  for (const cost::Layer& layer : explanation.devices[0].evaluation.layers) layers += layer.estimate.operations > 0 ? 1 : 0;
  EXPECT_GT(layers, 20u);
  EXPECT_EQ(count(page, "class=\"mark dot"), 2 * layers);  // once for wide and once for narrow screens
  EXPECT_EQ(count(page, "class=\"mark step"), 2 * explanation.memory.live_bytes.size());
  EXPECT_THAT(page, Not(HasSubstr("http")));
  EXPECT_THAT(page, Not(HasSubstr("<b>resnet18")));
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;resnet18"));
  EXPECT_THAT(page, HasSubstr("The three things to do"));
  EXPECT_THAT(page, HasSubstr("NVIDIA L4"));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
}

TEST(Svg, TextIsEscaped) {
  EXPECT_EQ(report::html_text("a<b>&\"'\x1b"), "a&lt;b&gt;&amp;&quot;&#39;\\x1B");
}

TEST(Svg, ScalesAndTicks) {
  const report::Scale log(1, 1000, 0, 300, true);
  EXPECT_DOUBLE_EQ(log(10), 100);
  EXPECT_EQ(log.ticks(10), (std::vector<double>{1, 10, 100, 1000}));
  EXPECT_EQ(log.ticks(2), (std::vector<double>{1, 100}));
  const report::Scale linear(0, 7, 100, 0, false);
  EXPECT_DOUBLE_EQ(linear(3.5), 50);
  EXPECT_EQ(linear.ticks(4), (std::vector<double>{0, 2, 4, 6}));
}

}  // namespace
}  // namespace tessera::test::explain_page_test
