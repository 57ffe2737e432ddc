// Sessions whose kernels are chosen by measuring, and the file that keeps the choices.
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "backends/cpu/cpu_device.h"
#include "base/cpu_info.h"
#include "ops/core/builder.h"
#include "runtime/session/tuning_file.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"
#include "support/tolerance.h"
#include "tessera/log.h"
#include "tessera/session.h"
#include "tessera/version.h"

namespace tessera::runtime::tuning_test {
namespace {

const backends::DeviceProperties& device() {
  return backends::cpu_device().properties();
}

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kWinograd = "cpu_channels_last_winograd";
constexpr const char* kDirect = "cpu_channels_last_conv";

class TuningFile : public testing::Test {
 protected:
  TuningFile() {
    // A convolution that can be done in two ways; the first is the one that the table prefers.
    auto graph = std::make_shared<ir::Graph>();
    ops::GraphBuilder builder(*graph);
    const ir::ValueId x = graph->add_input("x", ir::ValueType::tensor(DType::f32, Shape{1, 24, 16, 16}));
    const ir::ValueId y = builder.add("Conv", {x, builder.constant(test::random_tensor(DType::f32, {20, 24, 3, 3}, 1))},
                                      {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}});
    graph->value(y).name = "y";
    graph->add_output(y);
    model_.emplace(graph);
  }

  SessionOptions tuned() {
    SessionOptions options;
    options.threads = 1;
    options.tune = true;
    options.tuning_file = file_.string();
    options.tuning_progress = [this](std::string_view, double) { measured_ = true; };
    return options;
  }
  std::string plan(const SessionOptions& options) { return Session(*model_, options).describe_plan(inputs_, true); }
  Json read() const { return Json::parse(std::ifstream(file_)); }
  void write(const Json& json) const { std::ofstream(file_) << json.dump(); }
  // The session measures and plans, with one warning that says why nothing is kept.
  void expect_unkept(const SessionOptions& options, const std::string& reason) {
    std::vector<std::string> warnings;
    set_log_handler([&](LogLevel, std::string_view message) { warnings.emplace_back(message); });
    measured_ = false;
    plan(options);
    set_log_handler({});
    EXPECT_TRUE(measured_) << reason;
    ASSERT_EQ(warnings.size(), 1u) << reason;
    EXPECT_THAT(warnings[0],
                testing::StartsWith("the measured choices of kernels hold for this session and are not kept: "));
    EXPECT_THAT(warnings[0], HasSubstr(reason));
  }
  // Makes the file say that this kernel is the fastest.
  void forge(const std::string& kernel) {
    Json json = read();
    for (auto& [key, choice] : json["choices"].items()) choice["kernel"] = kernel;
    write(json);
  }

  test::TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "deeper" / "tuning.json";
  std::optional<Model> model_;
  NamedValues inputs_{{"x", test::random_tensor(DType::f32, {1, 24, 16, 16}, 2)}};
  bool measured_ = false;
};

TEST_F(TuningFile, IsWrittenWithEveryTimeAndReadBack) {
  plan(tuned());
  EXPECT_TRUE(measured_);
  const Json json = read();
  EXPECT_EQ(json["measured_on"], (Json{{"device", base::cpu_info().model_name},
                                       {"instruction_set", base::isa_name(base::cpu_info())},
                                       {"tessera", TESSERA_VERSION}}));
  ASSERT_EQ(json["choices"].size(), 1u);
  const auto [key, choice] = *json["choices"].items().begin();
  EXPECT_THAT(key, testing::StartsWith("tessera::ChannelsLastConv {"));
  EXPECT_THAT(key, HasSubstr("f32[1, 16, 16, 24], f32[20, 24, 3, 3] constant"));
  EXPECT_THAT(key, testing::EndsWith(", 1 thread"));
  EXPECT_TRUE(choice["seconds"].contains(kWinograd) && choice["seconds"].contains(kDirect)) << choice;
  const plan::TuningTable table = load_tuning(file_, device());
  EXPECT_EQ(table.at(key).fastest, choice["kernel"]);
  EXPECT_EQ(table.at(key).seconds.at(kDirect), choice["seconds"][kDirect]);
}

TEST_F(TuningFile, ItsChoiceIsTakenWithoutMeasuring) {
  const Tensor plain = Session(*model_).run(inputs_).at("y").tensor();
  EXPECT_THAT(plan({}), HasSubstr(kWinograd));
  plan(tuned());
  for (const char* kernel : {kDirect, kWinograd}) {
    forge(kernel);
    measured_ = false;
    const std::string text = plan(tuned());
    EXPECT_THAT(text, HasSubstr(fmt::format("{:<36}", kernel)));
    if (kernel == std::string_view(kDirect)) {
      EXPECT_THAT(text, HasSubstr("passed over cpu_channels_last_winograd: measured "));
    }
    EXPECT_FALSE(measured_);
    EXPECT_TRUE(test::close_to(Session(*model_, tuned()).run(inputs_).at("y").tensor(), plain,
                               test::Tolerance::epsilons(DType::f32, 500)));
  }
  // Without being asked for, it has no say.
  forge(kDirect);
  SessionOptions untuned = tuned();
  untuned.tune = false;
  EXPECT_THAT(plan(untuned), Not(HasSubstr(kDirect)));
}

TEST_F(TuningFile, OfAnotherMachineOrVersionCountsAsEmpty) {
  plan(tuned());
  const Json ours = read()["measured_on"];
  for (const char* what : {"device", "instruction_set", "tessera"}) {
    forge("a kernel of theirs");
    Json theirs = read();
    theirs["measured_on"][what] = "another";
    write(theirs);
    EXPECT_TRUE(load_tuning(file_, device()).empty());
    measured_ = false;
    plan(tuned());
    EXPECT_TRUE(measured_) << what;
    EXPECT_EQ(read()["measured_on"], ours);
    EXPECT_THAT(read()["choices"].dump(), Not(HasSubstr("theirs")));
  }
}

TEST_F(TuningFile, AKernelThatIsNotThereIsMeasuredAnew) {
  plan(tuned());
  forge("cpu_unheard_of");
  measured_ = false;
  EXPECT_THAT(plan(tuned()), Not(HasSubstr("unheard_of")));
  EXPECT_TRUE(measured_);
  EXPECT_THAT(read()["choices"].dump(), Not(HasSubstr("unheard_of")));
}

TEST_F(TuningFile, KeepsWhatOthersHaveAdded) {
  plan(tuned());
  save_tuning({{"another node", {"cpu_something", {{"cpu_something", 0.5}}}}}, file_, device());
  EXPECT_EQ(read()["choices"].size(), 2u);
  EXPECT_EQ(load_tuning(file_, device()).at("another node").seconds.at("cpu_something"), 0.5);
}

TEST_F(TuningFile, ADamagedOneIsAnError) {
  plan(tuned());
  const std::string whole = read().dump();
  for (const std::string& text :
       {whole.substr(0, whole.size() / 2), std::string("[]"), std::string(), std::string(R"({"choices": {}})")}) {
    std::ofstream(file_) << text;
    try {
      plan(tuned());
      ADD_FAILURE() << "no error for " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      EXPECT_THAT(error.message(), HasSubstr("'" + file_.string() + "' is no table of measured kernels ("));
      EXPECT_THAT(error.message(), testing::EndsWith("; delete it to measure anew"));
    }
  }
}

TEST_F(TuningFile, WhereNoneCanBeWrittenIsSaidBeforeMeasuring) {
  for (const std::string& path :
       {std::string("/proc/nowhere/table.json"), "/" + std::string(5000, 'a') + "/table.json"}) {
    SessionOptions options = tuned();
    options.tuning_file = path;
    EXPECT_THROW(Session(*model_, options), Error) << path.substr(0, 40);
  }
}

TEST_F(TuningFile, LiesInTheUsersCacheFolder) {
  setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  SessionOptions options = tuned();
  options.tuning_file.clear();
  plan(options);
  EXPECT_EQ(tuning_path(device()).parent_path(), folder_ / "tessera");
  EXPECT_THAT(tuning_path(device()).filename().string(),
              testing::MatchesRegex("tuning-[A-Za-z0-9_.+-]+-" TESSERA_VERSION "\\.json"));
  EXPECT_TRUE(std::filesystem::exists(tuning_path(device())));
  setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
  expect_unkept(options, "cannot");
  setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  for (const std::string& text : {std::string(), std::string("{"), std::string("[]")}) {
    const std::filesystem::path file = tuning_path(device());
    std::ofstream(file) << text;
    expect_unkept(options, "'" + file.string() + "' is no table of measured kernels (");
    EXPECT_EQ(std::filesystem::file_size(file), text.size());  // left as it was, for the user to look at
  }
  const char* given = std::getenv("HOME");
  const std::string home = given != nullptr ? given : "";
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  expect_unkept(options, "neither XDG_CACHE_HOME nor HOME says where measured choices of kernels are kept");
  if (given != nullptr) setenv("HOME", home.c_str(), 1);
}

}  // namespace
}  // namespace tessera::runtime::tuning_test
