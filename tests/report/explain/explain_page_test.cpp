#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "models/models.h"
#include "report/explain/explain.h"
#include "report/explain/explain_words.h"
#include "report/explain/operator_totals.h"
#include "report/html/html_table.h"
#include "report/html/label_placement.h"
#include "report/html/svg.h"

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
  const Model model(std::make_shared<const ir::Graph>(
      models::build_model("resnet18", {.dims = {{"batch", 4}}, .fill_weights = false})));
  const report::Explanation explanation = report::explain(model, "<b>resnet18</b>", options);
  const std::string page = report::explanation_html(explanation);
  std::size_t layers = 0;
  for (const cost::Layer& layer : explanation.devices[0].evaluation.layers)
    layers += layer.estimate.operations > 0 ? 1 : 0;
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

// An explanation of a small net whose layers were "measured" to take one to n milliseconds.
report::Explanation measured_explanation() {
  report::ExplainOptions options;
  options.devices.push_back(*cost::find_built_in_profile("l4"));
  const Model model(std::make_shared<const ir::Graph>(
      models::build_model("lenet5", {.dims = {{"batch", 1}}, .fill_weights = false})));
  report::Explanation explanation = report::explain(model, "lenet5", options);
  report::MeasuredReport measured;
  measured.threads = 2;
  for (const cost::Layer& layer : explanation.devices[0].evaluation.layers) {
    measured.seconds.push_back(1e-3 * static_cast<double>(measured.seconds.size() + 1));
    if (layer.estimate.bound != cost::Bound::none) measured.total_seconds += measured.seconds.back();
  }
  explanation.measured = measured;
  return explanation;
}

TEST(ExplainPage, StatesWhatWasMeasuredFirst) {
  const report::Explanation explanation = measured_explanation();
  const std::string measured = report::time_text(explanation.measured->total_seconds);
  const std::string predicted = report::time_text(explanation.devices[0].evaluation.total.seconds);
  EXPECT_THAT(report::headline(explanation), HasSubstr("lenet5 takes " + measured + " a run on "));
  EXPECT_THAT(report::headline(explanation), HasSubstr("measured with 2 threads (predicted: " + predicted + ")"));
  const std::string text = report::explanation_text(explanation, false);
  EXPECT_LT(text.find("  measured share"), text.find(" predicted   roof"));
  const std::string page = report::explanation_html(explanation);
  EXPECT_LT(page.find("<dt>Measured</dt>"), page.find("<dt>Predicted</dt>"));
  // The slowest layer as measured comes first, whatever was predicted.
  const std::vector<std::size_t> order = report::slowest_first(explanation);
  EXPECT_TRUE(std::ranges::is_sorted(order, std::greater<>()));
}

TEST(ExplainPage, TotalsByTypeAddUp) {
  const report::Explanation explanation = measured_explanation();
  const std::vector<report::OperatorTotal> totals = report::operator_totals(explanation);
  double measured = 0, operations = 0;
  for (const report::OperatorTotal& total : totals) measured += total.measured_seconds, operations += total.operations;
  EXPECT_NEAR(measured, explanation.measured->total_seconds, 1e-9);
  EXPECT_NEAR(operations, explanation.devices[0].evaluation.total.operations, 1);
  EXPECT_TRUE(std::ranges::is_sorted(totals, std::greater<>(), &report::OperatorTotal::measured_seconds));
  const auto conv = std::ranges::find(totals, "Conv", &report::OperatorTotal::op);
  ASSERT_NE(conv, totals.end());
  EXPECT_EQ(conv->count, 2);
}

TEST(ExplainPage, SaysWhatThePassesThatChangedItDo) {
  const report::Explanation explanation = measured_explanation();
  ASSERT_FALSE(explanation.optimiser.passes.empty());
  for (const report::PassEffect& pass : explanation.optimiser.passes) EXPECT_GT(pass.summary.size(), 20u) << pass.name;
}

TEST(ExplainWords, ChangesAndUnits) {
  EXPECT_EQ(report::change_text(100, 88), "-12%");
  EXPECT_EQ(report::change_text(1000, 997), "-0.3%");
  EXPECT_EQ(report::change_text(1000, 1000.2), "same");
  EXPECT_EQ(report::change_text(0, 5), "");
  EXPECT_EQ(report::percent(0.0001), "<0.1%");
  EXPECT_EQ(report::time_text(12.3e-6), "12.30 µs");
  EXPECT_EQ(report::operations_text(8.2e9), "8.2 GFLOP");
  EXPECT_EQ(report::rate_text(950), "950 FLOP/s");
  EXPECT_EQ(report::rate_text(2e12, cost::Precision::int8), "2.0 TOP/s");
}

TEST(HtmlTable, EscapesNamesAndCarriesNumbers) {
  report::HtmlTable table{"<label>", {{"<Layer>", report::ColumnKind::name}, {"Time", report::ColumnKind::number}}, {}};
  table.rows.push_back({report::name_cell("<script>"), report::number_cell("1.5 ms", 1.5e-3)});
  table.rows.push_back({report::name_cell(std::string(200, 'a') + "\"end"), {}});
  table.shown = 1;
  const std::string html = report::html_table(table);
  EXPECT_THAT(html, Not(HasSubstr("<script>")));
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;"));
  EXPECT_THAT(html, HasSubstr("aria-label=\"&lt;label&gt;\""));
  EXPECT_THAT(html, HasSubstr("&lt;Layer&gt;"));
  EXPECT_THAT(html, HasSubstr("data-value=\"0.0015\">1.5 ms</td>"));
  EXPECT_THAT(html, HasSubstr("title=\"" + std::string(200, 'a') + "&quot;end\""));
  EXPECT_THAT(html, HasSubstr("class=\"more\""));
  table.shown = 2;
  EXPECT_THAT(report::html_table(table), Not(HasSubstr("class=\"more\"")));
}

TEST(LabelPlacement, LabelsNeitherCoverEachOtherNorLeaveTheFrame) {
  report::LabelPlacement placement({0, 0, 200, 100});
  const std::vector<report::LabelPosition> positions{{100, 50, "end"}, {100, 20, "end"}};
  EXPECT_EQ(placement.place("first", positions), &positions[0]);
  EXPECT_EQ(placement.place("second", positions), &positions[1]);
  EXPECT_EQ(placement.place("third", positions), nullptr);
  EXPECT_EQ(placement.place("a label that is wider than the whole frame", {{0, 90, "start"}}), nullptr);
  // What is to be avoided is covered only where nothing else is left.
  placement.avoid({0, 80, 50, 100});
  const std::vector<report::LabelPosition> others{{0, 95, "start"}, {120, 95, "start"}};
  EXPECT_EQ(placement.place("fourth", others), &others[1]);
  EXPECT_EQ(placement.place("fifth", others), &others[0]);
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
  const std::vector<double> below = report::Scale(-0.5, 0.02, 100, 0, false).ticks(6);
  ASSERT_EQ(below.size(), 6u);
  EXPECT_EQ(below.back(), 0);
}

}  // namespace
}  // namespace tessera::test::explain_page_test
