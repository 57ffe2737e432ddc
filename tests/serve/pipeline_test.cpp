#include "serve/core/models/pipeline.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <future>

#include "serve/core/models/repository.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "tessera/graph.h"

namespace tessera::serve::pipeline_test {
namespace {

constexpr const char* kWords = R"({
  "pre_tokenizer": {"type": "Whitespace"},
  "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "good": 1, "bad": 2}}
})";

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

// A repository with the model `m`, its configuration and the files beside it.
struct Served {
  Served(const Model& model, const std::string& config, const std::map<std::string, std::string>& files = {}) {
    std::filesystem::create_directories(folder / "m" / "1");
    model.save(folder / "m" / "1" / "model.onnx");
    write(folder / "m" / "config.toml", config);
    for (const auto& [name, text] : files) write(folder / "m" / name, text);
    repository = std::make_unique<Repository>(arbiter, folder.path());
    repository->load_all();
  }

  Outcome ask(const std::string& name, Tensor tensor) {
    std::promise<Outcome> promise;
    auto call = std::make_shared<Call>();
    call->arrival_ns = Clock::steady().now_ns();
    call->request.model = "m";
    call->request.inputs.push_back({name, tensor.dtype(), tensor.shape(), tensor, {}});
    call->done = [&promise](Outcome outcome) { promise.set_value(std::move(outcome)); };
    repository->submit(call);
    return promise.get_future().get();
  }
  std::string reason() const { return repository->index().at(0).reason; }

  test::TemporaryFolder folder;
  Arbiter arbiter;
  std::unique_ptr<Repository> repository;
};

Tensor output(const Outcome& outcome, const std::string& name) {
  EXPECT_FALSE(outcome.failure) << outcome.failure->what();
  for (const OutputTensor& tensor : outcome.response.outputs) {
    if (tensor.name == name) return tensor.tensor;
  }
  ADD_FAILURE() << "no output " << name;
  return {};
}

template <typename T>
std::vector<T> values(const Tensor& tensor) {
  return {tensor.values<T>().begin(), tensor.values<T>().end()};
}

Tensor texts(std::initializer_list<std::string> list) {
  return Tensor::from<std::string>({static_cast<std::int64_t>(list.size())}, list);
}

// Vectors of tokens, [n, tokens, 2]: unknown (9, 9), good (3, 0), bad (0, 4).
Model token_vectors() {
  NetBuilder net("vectors");
  const NetValue ids = net.input("input_ids", DType::i64, {std::string("batch"), std::string("tokens")});
  const NetValue table = net.constant(Tensor::from<float>({3, 2}, {9, 9, 3, 0, 0, 4}));
  net.output("states", net.add("Gather", {table, ids}));
  return net.build();
}

TEST(Pipeline, MakesVectorsOfTexts) {
  Served served(token_vectors(), "[before]\nkind = \"text\"\n[after]\nkind = \"embedding\"\nnormalise = false",
                {{"tokenizer.json", kWords}});
  const Outcome outcome = served.ask("text", texts({"good bad", "bad"}));
  const Tensor embedding = output(outcome, "embedding");
  EXPECT_EQ(embedding.shape(), (Shape{2, 2}));
  EXPECT_EQ(values<float>(embedding).at(0), 1.5f);
  EXPECT_EQ(values<float>(embedding).at(1), 2.0f);
  const auto statistics = served.repository->find("m")->statistics();
  EXPECT_EQ(statistics.success.count, 1u);
}

TEST(Pipeline, NamesTheLargestElementsOfATextsRow) {
  NetBuilder net("classifier");
  const NetValue ids = net.input("input_ids", DType::i64, {std::string("batch"), std::string("tokens")});
  const NetValue table = net.constant(Tensor::from<float>({3, 2}, {0, 0, 3, 0, 0, 4}));
  const NetValue axis = net.constant(Tensor::from<std::int64_t>({1}, {1}));
  net.output("scores", net.add("ReduceSum", {net.add("Gather", {table, ids}), axis}, {{"keepdims", std::int64_t{0}}}));
  Served served(
      net.build(),
      "[before]\nkind = \"text\"\n[after]\nkind = \"labels\"\nlabels = \"names.txt\"\ntop = 1\nsoftmax = true",
      {{"tokenizer.json", kWords}, {"names.txt", "praise\ncomplaint\n"}});
  const Outcome outcome = served.ask("text", texts({"good", "bad"}));
  EXPECT_THAT(values<std::string>(output(outcome, "label")), testing::ElementsAre("praise", "complaint"));
  EXPECT_NEAR(values<float>(output(outcome, "score")).at(0), 1 / (1 + std::exp(-3.0)), 1e-6);
}

TEST(Pipeline, ReadsTextByGreedyDecoding) {
  NetBuilder net("reader");
  const NetValue x = net.input("x", DType::f32, {std::string("batch"), std::string("positions"), std::int64_t{4}});
  net.output("scores", net.relu(x));
  Served served(net.build(), "[after]\nkind = \"ctc\"\ncharacters = \"letters.txt\"", {{"letters.txt", "a\nb"}});
  // a a blank a b space: repetitions are one character unless a blank stands between them.
  Tensor scores(DType::f32, {1, 6, 4});
  std::ranges::fill(scores.mutable_values<float>(), 0.0f);
  const std::vector<std::size_t> best{1, 1, 0, 1, 2, 3};
  for (std::size_t i = 0; i < best.size(); ++i) scores.mutable_values<float>()[4 * i + best[i]] = 0.5f;
  const Outcome outcome = served.ask("x", scores);
  EXPECT_THAT(values<std::string>(output(outcome, "text")), testing::ElementsAre("aab "));
  EXPECT_THAT(values<float>(output(outcome, "confidence")), testing::ElementsAre(0.5f));
}

TEST(Pipeline, LeavesOneBoxOfThoseThatOverlap) {
  NetBuilder net("detector");
  const NetValue x = net.input("x", DType::f32, {std::int64_t{1}, std::string("n"), std::int64_t{7}});
  net.output("found", net.add("Identity", {x}));
  Served served(net.build(), "[after]\nkind = \"detection\"\nobjectness = true\nlabels = \"names.txt\"",
                {{"names.txt", "cat\ndog"}});
  const Tensor boxes = Tensor::from<float>({1, 4, 7}, {10, 10, 8,  8, 1, 0.5f, 0,     //
                                                       10, 11, 8,  8, 1, 0.9f, 0,     //
                                                       10, 11, 8,  8, 1, 0,    0.6f,  //
                                                       40, 40, 20, 4, 1, 0,    0.1f});
  const Outcome outcome = served.ask("x", boxes);
  EXPECT_THAT(values<std::string>(output(outcome, "label")), testing::ElementsAre("cat", "dog"));
  EXPECT_THAT(values<float>(output(outcome, "score")), testing::ElementsAre(0.9f, 0.6f));
  EXPECT_THAT(values<float>(output(outcome, "box")), testing::ElementsAre(6, 7, 14, 15, 6, 7, 14, 15));
}

// The header of a PGM file (https://netpbm.sourceforge.net/doc/pgm.html) with these sides, and nothing behind it.
Tensor cut_off_picture(int width, int height) {
  const std::string text = fmt::format("P5 {} {} 255\n", width, height);
  Tensor bytes(DType::u8, {static_cast<std::int64_t>(text.size())});
  std::ranges::copy(text, bytes.mutable_values<std::uint8_t>().begin());
  return bytes;
}

TEST(Pipeline, RefusesPicturesThatAreTooLarge) {
  NetBuilder net("grey");
  net.output("y", net.relu(net.input("x", DType::f32,
                                     {std::string("batch"), std::int64_t{1}, std::int64_t{8}, std::int64_t{8}})));
  Served served(net.build(), "[before]\nkind = \"picture\"");
  const Outcome large = served.ask("image", cut_off_picture(30000, 30000));
  ASSERT_TRUE(large.failure);
  EXPECT_EQ(large.failure->reason(), Reason::too_large);
  EXPECT_THAT(large.failure->what(), testing::HasSubstr("too large: picture of 30000 x 30000 pixels"));
  const Outcome damaged = served.ask("image", cut_off_picture(30, 30));
  ASSERT_TRUE(damaged.failure);
  EXPECT_EQ(damaged.failure->reason(), Reason::bad_request);
}

TEST(Pipeline, MistakesAreTold) {
  const std::map<std::string, std::string> files{{"tokenizer.json", kWords}};
  EXPECT_THAT(Served(token_vectors(), "[before]\nkind = \"sound\"", files).reason(),
              testing::HasSubstr("text, picture"));
  EXPECT_THAT(Served(token_vectors(), "[before]\nkind = \"text\"\nwide = 3", files).reason(),
              testing::HasSubstr("unknown key 'wide'"));
  EXPECT_THAT(Served(token_vectors(), "[before]\nkind = \"picture\"", files).reason(),
              testing::HasSubstr("four dimensions"));
  EXPECT_THAT(Served(token_vectors(), "[after]\nkind = \"ctc\"", files).reason(),
              testing::HasSubstr("no property 'character'"));
  EXPECT_THAT(Served(token_vectors(), "[after]\nkind = \"embedding\"\noutput = \"other\"", files).reason(),
              testing::HasSubstr("no output 'other'"));
  EXPECT_THAT(Served(token_vectors(), "[before]\nkind = \"text\"\ntokenizer = \"../t.json\"", files).reason(),
              testing::Not(testing::IsEmpty()));
  Served served(token_vectors(), "[before]\nkind = \"text\"", files);
  EXPECT_THROW(served.ask("text", Tensor::from<float>({1}, {1})), Failure);
  EXPECT_TRUE(served.ask("text", Tensor(DType::string, {0})).failure);
}

}  // namespace
}  // namespace tessera::serve::pipeline_test
