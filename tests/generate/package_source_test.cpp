// Language models in packages: the same bits as from the weights that they were made of, and packings that are used.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "generate/language_source.h"
#include "generate/language_step.h"
#include "io/file.h"
#include "support/expect_error.h"
#include "support/gguf_bytes.h"
#include "support/temporary_folder.h"
#include "support/tiny_language_model.h"
#include "tessera/generate.h"

namespace tessera::generate::package_source_test {
namespace {

using io::GgufType;
using test::expect_error_containing;
using test::GgufBytes;
using test::TinyLanguageModel;

constexpr std::int64_t kVocabulary = 61;

// A GGUF file of a tiny model with a tokenizer of single characters.
std::string gguf_of(const TinyLanguageModel& model) {
  GgufBytes file;
  file.header(model.weights.size(), model.numbers.size() + 6);
  file.key("general.architecture", GgufType::string).text(model.name);
  for (const auto& [key, value] : model.numbers)
    file.key(model.name + "." + key, GgufType::u32).number(static_cast<std::uint32_t>(value));
  file.key("tokenizer.ggml.model", GgufType::string).text("llama");
  file.key("tokenizer.ggml.tokens", GgufType::array).list(GgufType::string, kVocabulary);
  for (std::int64_t i = 0; i < kVocabulary; ++i)
    file.text(i == 0 ? "<unk>" : std::string(1, static_cast<char>('0' + i)));
  file.key("tokenizer.ggml.scores", GgufType::array).list(GgufType::f32, kVocabulary);
  for (std::int64_t i = 0; i < kVocabulary; ++i) file.number(0.0F);
  file.key("tokenizer.ggml.unknown_token_id", GgufType::u32).number(std::uint32_t{0});
  file.key("split.count", GgufType::u32).number(std::uint32_t{1});  // says nothing of a package
  std::string data;
  for (const auto& [name, weight] : model.weights) {
    const bool is_float = weight.format == base::BlockFormat::f32;
    std::vector<std::uint64_t> dimensions{static_cast<std::uint64_t>(weight.columns)};
    if (weight.rows > 1) dimensions.push_back(static_cast<std::uint64_t>(weight.rows));
    file.tensor(name, dimensions, is_float ? 0 : 8, data.size());
    data.append(static_cast<const char*>(weight.tensor.raw()), static_cast<std::size_t>(weight.tensor.bytes()));
    data.resize((data.size() + 31) / 32 * 32, '\0');
  }
  file.contents(0);
  return file.data + data;
}

struct PackageSource : testing::TestWithParam<base::BlockFormat> {
  PackageSource() {
    test::TinySizes sizes;
    if (GetParam() != base::BlockFormat::f32) sizes.hidden = 96, sizes.wide = 160, sizes.head_size = 24;
    sizes.format = GetParam();
    const std::string bytes = gguf_of(test::tiny_language_model("llama", sizes));
    std::ofstream(gguf, std::ios::binary) << bytes;
  }
  const test::TemporaryFolder folder;
  const std::filesystem::path gguf = folder / "m.gguf", package = folder / "m.tsr";
};

TEST_P(PackageSource, GivesTheBitsOfTheFileThatItWasMadeOf) {
  const LanguagePackageReport report = optimise_language_model(gguf, package);
  EXPECT_EQ(report.weights, 21);
  EXPECT_EQ(report.packings, GetParam() == base::BlockFormat::f32 ? 0 : 15);  // vectors and the table are not packed
  std::vector<std::int64_t> prompt(50);
  for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<std::int64_t>(i * i * 7 + 3) % kVocabulary;
  for (const bool exact : {false, true}) {
    const LanguageModelOptions options{.exact = exact};
    const auto before = LanguageModel::load(gguf, options), after = LanguageModel::load(package, options);
    EXPECT_EQ(before.logits(prompt), after.logits(prompt));
    EXPECT_EQ(before.encode("0123"), after.encode("0123"));
    EXPECT_EQ(after.architecture(), "llama");
  }
  // A package of a package is the same one.
  const std::filesystem::path again = folder / "again.tsr";
  optimise_language_model(package, again);
  EXPECT_EQ(io::read_file(again, 1 << 24), io::read_file(package, 1 << 24));
}

TEST_P(PackageSource, DamagedWeightsGiveNoAnswer) {
  optimise_language_model(gguf, package);
  const std::vector<std::byte> whole = io::read_file(package, 1 << 24);
  int refused = 0;
  for (std::size_t at = whole.size() / 3; at < whole.size(); at += whole.size() / 17) {
    std::vector<std::byte> damaged = whole;
    damaged[at] ^= std::byte{1};
    std::ofstream(package, std::ios::binary)
        .write(reinterpret_cast<const char*>(damaged.data()), static_cast<std::streamsize>(damaged.size()));
    const std::vector<std::int64_t> prompt{1, 2, 3};
    try {
      LanguageModel::load(package).logits(prompt);  // the byte is one that nobody reads
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_model) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 3);
}

TEST_P(PackageSource, OtherNamesAreRefused) {
  expect_error_containing(ErrorKind::invalid_argument, "ends in .tsr",
                          [&] { optimise_language_model(gguf, folder / "m.onnx"); });
  EXPECT_FALSE(std::filesystem::exists(folder / "m.onnx"));
}

INSTANTIATE_TEST_SUITE_P(Formats, PackageSource, testing::Values(base::BlockFormat::f32, base::BlockFormat::q8_0),
                         [](const auto& info) { return std::string(base::layout_of(info.param).name); });

}  // namespace
}  // namespace tessera::generate::package_source_test
