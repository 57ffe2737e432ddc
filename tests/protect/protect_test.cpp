// Protected models: they run like others, say nothing without a key, and go to other keys without being encrypted
// again.
#include "tessera/protect.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "io/package.h"
#include "ir/graph.h"
#include "protect/protected_files.h"
#include "tessera/tessera.h"

namespace tessera::test::protect_test {
namespace {

void expect_identical(const NamedValues& a, const NamedValues& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, value] : a) EXPECT_TRUE(identical(value.tensor(), b.at(name).tensor())) << name;
}

Model with_all_dims(const Model& model, std::int64_t size) {
  std::map<std::string, std::int64_t> dims;
  for (const ValueDescription& input : model.inputs()) {
    for (const std::string& name : input.dim_names) {
      if (!name.empty()) dims[name] = size;
    }
  }
  return dims.empty() ? model : model.with_dims(dims);
}

class ProtectTest : public ProtectedFiles {};

class Nets : public ProtectedFiles, public testing::WithParamInterface<const char*> {};

TEST_P(Nets, GiveTheSameBitsOnCpuAndReference) {
  const Model model = with_all_dims(build(GetParam(), {{"batch", 2}}), 3);
  const std::filesystem::path package = folder / "plain.tsr";
  optimise(model, package);
  protect_model(package, file, options());
  const Model read = load();
  const NamedValues inputs = runtime::random_inputs(model, 1);
  for (const char* device : {"cpu", "reference"}) {
    const NamedValues plain = Session(Model::load(package), {.device = device}).run(inputs);
    expect_identical(plain, Session(read, {.device = device}).run(inputs));
  }
}

// `tests/apps/protect_test.py --all MODELS` does the same with every net that is built.
INSTANTIATE_TEST_SUITE_P(Small, Nets,
                         testing::Values("lenet5", "mlp", "cnn_digits", "conv1d", "gru_classifier", "resnet8",
                                         "unet_small", "transformer_small", "dlrm_small"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(ProtectTest, EncryptsAnUnpackagedModelAsOptimiseWritesIt) {
  const Model model = build("lenet5");
  const ProtectReport report = protect_model(model, file, options());
  EXPECT_EQ(report.file_bytes, static_cast<std::int64_t>(std::filesystem::file_size(file)));
  ASSERT_EQ(report.recipients.size(), 1U);
  EXPECT_FALSE(report.is_signed);
  EXPECT_TRUE(is_protected(file));
  optimise(model, other);
  EXPECT_FALSE(is_protected(other));
  const NamedValues inputs = runtime::random_inputs(model, 1);
  expect_identical(Session(Model::load(other)).run(inputs), Session(load()).run(inputs));
}

TEST_F(ProtectTest, KeepsSymbolicDimensionsAndCodedWeights) {
  const Model model = build("lenet5", {});
  io::write_package(other, model.graph(), {"0", "any", "any", "f32", {}, {}, false}, {}, true);
  protect_model(other, file, options());
  const Model read = load();
  EXPECT_EQ(read.inputs()[0].type, model.inputs()[0].type);
  const Model fixed = read.with_dims({{"batch", 3}});
  const NamedValues inputs = runtime::random_inputs(fixed, 1);
  expect_identical(Session(Model::load(other)).run(inputs), Session(read).run(inputs));
}

TEST_F(ProtectTest, ShowsNoNamesStringsOrWeightsInTheFile) {
  const Model model = build("lenet5");
  make();
  const std::vector<std::byte> bytes = bytes_of_file(file);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::set<std::string> words{"Conv", "Gemm", "onnx", "tessera::", "avx512"};
  for (const ir::NodeId id : model.graph().order()) words.insert(model.graph().node(id).name);
  for (const ValueDescription& value : model.inputs()) words.insert(value.name);
  for (const std::string& word : words) {
    if (word.size() < 4) continue;  // shorter ones stand in any random bytes
    EXPECT_EQ(text.find(word), std::string_view::npos) << word;
  }
  std::size_t weights = 0;
  for (std::size_t i = 0; i < model.graph().value_count(); ++i) {
    const Tensor* const found = model.graph().constant({static_cast<std::int32_t>(i)});
    if (found == nullptr || !model.graph().is_constant({static_cast<std::int32_t>(i)})) continue;
    const Tensor& constant = *found;
    const auto* data = static_cast<const char*>(constant.raw());
    for (std::int64_t at = 0; at + 16 <= constant.bytes(); at += std::max<std::int64_t>(16, constant.bytes() / 16)) {
      EXPECT_EQ(text.find(std::string_view(data + at, 16)), std::string_view::npos);
      ++weights;
    }
  }
  EXPECT_GT(weights, 50U);
}

// Entropy in bits per byte of what lies between the table and the last section.
TEST_F(ProtectTest, IsFullOfRandomBytes) {
  make();
  const std::vector<std::byte> bytes = bytes_of_file(file);
  const std::size_t count = number_at<std::uint32_t>(bytes, 12);
  std::size_t seen = 0;
  std::array<double, 256> counts{};
  for (std::size_t i = 0; i + 1 < count; ++i) {
    const std::size_t entry = kTable + i * kEntry;
    EXPECT_EQ(number_at<std::uint32_t>(bytes, entry + 36), static_cast<std::uint32_t>(io::Codec::sealed));
    const auto offset = number_at<std::uint64_t>(bytes, entry + 40),
               stored = number_at<std::uint64_t>(bytes, entry + 48);
    for (std::size_t at = offset; at < offset + stored; ++at) ++counts[static_cast<std::size_t>(bytes[at])];
    seen += stored;
  }
  double entropy = 0;
  for (const double each : counts) entropy -= each > 0 ? each / seen * std::log2(each / seen) : 0;
  EXPECT_GT(seen, 200'000U);
  EXPECT_GT(entropy, 7.999);
}

TEST_F(ProtectTest, NeverGivesTwoFilesTheSameBytes) {
  make();
  const std::vector<std::byte> first = bytes_of_file(file);
  make();
  const std::vector<std::byte> second = bytes_of_file(file);
  ASSERT_EQ(first.size(), second.size());
  std::size_t equal = 0, from = kTable + 8 * kEntry;
  for (std::size_t i = from; i < first.size(); ++i) equal += first[i] == second[i] ? 1 : 0;
  EXPECT_LT(equal, (first.size() - from) / 128);  // 1 in 256 by chance
}

TEST_F(ProtectTest, OpensForEachRecipientAndForNobodyElse) {
  const std::filesystem::path others = folder / "others", password = folder / "password", wrong = folder / "wrong";
  write_new_keys(others);
  io::write_text(password, "correct horse\n");
  io::write_text(wrong, "battery staple\n");
  protect_model(build("lenet5"), file,
                {.keys = {key(), key("recipient.pub"), {.password_file = password.string()}}, .publisher = {}});
  for (const KeySource& good : {key(), key("recipient.key"), KeySource{.password_file = password.string()},
                                KeySource{.command = "cat '" + (keys / "model.key").string() + "'"}})
    EXPECT_EQ(load(file, good).inputs().size(), 1U);
  const ErrorKind refused = ErrorKind::invalid_argument;
  const auto refuses = [&](const std::string& message, const KeySource& by) {
    expect_error_containing(refused, message, [&] { load(file, by); });
  };
  refuses("the file is not protected for this key; it is for symmetric key ",
          {.file = (others / "model.key").string()});
  refuses("the file is not protected for this recipient", {.file = (others / "recipient.key").string()});
  refuses("the file is not protected for this password", {.password_file = wrong.string()});
  refuses("a key of kind recipient opens no files", key("recipient.pub"));
  refuses("a key of kind publisher-secret opens no files", key("publisher.key"));
  refuses("2 sources of a key, expected one", {.file = "a", .command = "b"});
  expect_error_containing(ErrorKind::failed, "the key command failed with status 3",
                          [&] { load(file, {.command = "exit 3"}); });
  expect_error_containing(ErrorKind::invalid_argument, "the key command prints more than 4096 bytes",
                          [&] { load(file, {.command = "yes"}); });
  expect_error_containing(refused, "the model is protected, and no key is given", [&] { Model::load(file); });
}

TEST_F(ProtectTest, TakesTheDefaultKeyWhereNoneIsGiven) {
  make();
  set_default_model_key(make_model_key(key()));
  EXPECT_EQ(Model::load(file).inputs().size(), 1U);
  verify_package(file);
  set_default_model_key(nullptr);
  EXPECT_THROW(Model::load(file), Error);
}

TEST_F(ProtectTest, IsReadThroughTheCInterface) {
  make();
  tessera_model* model = nullptr;
  tessera_error* error = nullptr;
  const std::string path = file.string(), good = key().file, publisher = key("publisher.key").file;
  ASSERT_EQ(tessera_model_load_protected(path.c_str(), TESSERA_KEY_FILE, good.c_str(), &model, &error), TESSERA_OK);
  EXPECT_EQ(tessera_model_input_count(model), 1U);
  tessera_model_free(model);
  EXPECT_EQ(tessera_model_load_protected(path.c_str(), TESSERA_KEY_FILE, publisher.c_str(), &model, &error),
            TESSERA_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tessera_error_message(error)).find("opens no files"), std::string::npos);
  tessera_error_free(error);
  EXPECT_EQ(tessera_model_load(path.c_str(), &model, &error), TESSERA_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tessera_error_message(error)).find("no key is given"), std::string::npos);
  tessera_error_free(error);
}

TEST_F(ProtectTest, GoesToOtherKeysWithoutBeingEncryptedAgain) {
  make();
  const std::filesystem::path new_keys = folder / "new";
  write_new_keys(new_keys);
  const KeySource new_key{.file = (new_keys / "recipient.key").string()};
  rewrap_model(file, other, key(), {.keys = {{.file = (new_keys / "recipient.pub").string()}}, .publisher = {}});
  EXPECT_EQ(load(other, new_key).inputs().size(), 1U);
  expect_error_containing(ErrorKind::invalid_argument, "the file is not protected for this key; it is for recipient ",
                          [&] { load(other, key()); });
  expect_error_containing(ErrorKind::invalid_argument, "not protected for this recipient",
                          [&] { load(file, new_key); });
  const std::vector<std::byte> before = bytes_of_file(file), after = bytes_of_file(other);
  const std::size_t last = kTable + (number_at<std::uint32_t>(before, 12) - 1) * kEntry;
  const auto end = number_at<std::uint64_t>(before, last + 40);
  EXPECT_TRUE(std::equal(before.begin() + last, before.begin() + last + 40, after.begin() + last));
  EXPECT_TRUE(
      std::equal(before.begin() + kTable + 8 * kEntry, before.begin() + end, after.begin() + kTable + 8 * kEntry));
}

TEST_F(ProtectTest, ProtectsWhatIsMadeFromAProtectedModelForTheSameKeys) {
  make();
  const Model model = load();
  optimise(model, other);
  EXPECT_TRUE(is_protected(other));
  const NamedValues inputs = runtime::random_inputs(model, 1);
  expect_identical(Session(model).run(inputs), Session(load(other, key())).run(inputs));
  const std::string gives_away = "would give it away";
  expect_error_containing(ErrorKind::invalid_argument, gives_away, [&] { model.save(folder / "stolen.onnx"); });
  expect_error_containing(ErrorKind::invalid_argument, "would give a protected model away",
                          [&] { optimise(model, folder / "stolen.onnx"); });
  expect_error_containing(ErrorKind::invalid_argument, gives_away,
                          [&] { io::write_package(folder / "stolen.tsr", model.graph(), {}, {}); });
  EXPECT_FALSE(std::filesystem::exists(folder / "stolen.onnx"));
  EXPECT_FALSE(std::filesystem::exists(folder / "stolen.tsr"));
  expect_error_containing(ErrorKind::invalid_argument, "protected already",
                          [&] { protect_model(file, other, options()); });
}

TEST_F(ProtectTest, SaysWhoPublishedAFile) {
  const std::filesystem::path others = folder / "others", publisher = keys / "publisher.pub";
  write_new_keys(others);
  make();
  expect_error_containing(ErrorKind::invalid_model, "the file has no valid signature of this publisher",
                          [&] { check_signature(file, publisher); });
  ProtectOptions with = options();
  with.publisher = (keys / "publisher.key").string();
  EXPECT_TRUE(protect_model(build("lenet5"), file, with).is_signed);
  check_signature(file, publisher);
  expect_error_containing(ErrorKind::invalid_model, "no valid signature",
                          [&] { check_signature(file, others / "publisher.pub"); });
  // A rotation of keys keeps it.
  rewrap_model(file, other, key(), {.keys = {{.file = (others / "model.key").string()}}, .publisher = {}});
  check_signature(other, publisher);
  // Those who hold the file's key can encrypt, but not sign.
  std::vector<std::byte> bytes = bytes_of_file(file);
  const auto offset = number_at<std::uint64_t>(bytes, kTable + 40);
  bytes[offset] ^= std::byte{1};
  make_checksums_right(bytes);
  write_bytes(other, bytes);
  expect_error_containing(ErrorKind::invalid_model, "no valid signature", [&] { check_signature(other, publisher); });
  bytes[offset] ^= std::byte{1};
  make_checksums_right(bytes);
  bytes[offset] ^= std::byte{1};
  write_bytes(other, bytes);
  expect_error_containing(ErrorKind::invalid_model, "is not what its publisher signed",
                          [&] { check_signature(other, publisher); });
}

}  // namespace
}  // namespace tessera::test::protect_test
