// Secrets leave the process's memory when they are no longer used. A process of its own looks for them in all of its
// memory, since others may have been left by what made the files.
#include "protect/secret.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "protect/key_file.h"
#include "protect/protected_files.h"
#include "protect/secret_shared/shared_pair.h"
#include "protect/slots.h"
#include "support/random_tensor.h"
#include "tessera/secret_shared.h"

extern char** environ;

namespace tessera::test::secret_test {
namespace {

constexpr const char* kChild = "TESSERA_TEST_SECRETS_IN";
constexpr std::uint8_t kMask = 0x5A;
// A secret to look for in memory, masked so that the search does not find its own copy.
using Masked = std::array<std::uint8_t, 24>;

Masked mask(const void* bytes) {
  Masked masked;
  const auto* from = static_cast<const std::uint8_t*>(bytes);
  for (std::size_t i = 0; i < masked.size(); ++i) masked[i] = from[i] ^ kMask;
  return masked;
}

// How often it stands in the writable memory of this process, whatever locks or guards it.
int count_in_memory(const Masked& wanted) {
  const int memory = ::open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  std::ifstream maps("/proc/self/maps");
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> ranges;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char rights[5] = {};
    if (std::sscanf(line.c_str(), "%zx-%zx %4s", &begin, &end, rights) == 3 && rights[1] == 'w')
      ranges.emplace_back(begin, end);
  }
  int found = 0;
  std::vector<std::uint8_t> block((std::size_t{1} << 20) + wanted.size());
  const auto own = reinterpret_cast<std::uintptr_t>(block.data());
  for (const auto& [begin, end] : ranges) {
    for (std::uintptr_t at = begin; at < end; at += std::size_t{1} << 20) {
      const ::ssize_t got =
          ::pread(memory, block.data(), std::min<std::size_t>(block.size(), end - at), static_cast<::off_t>(at));
      for (::ssize_t i = 0; i + static_cast<::ssize_t>(wanted.size()) <= got; ++i) {
        if ((block[static_cast<std::size_t>(i)] ^ kMask) != wanted[0]) continue;
        const std::uintptr_t place = at + static_cast<std::uintptr_t>(i);
        if (place >= own && place < own + block.size()) continue;
        found += std::equal(wanted.begin(), wanted.end(), block.begin() + i,
                            [](std::uint8_t a, std::uint8_t b) { return a == (b ^ kMask); })
                     ? 1
                     : 0;
      }
    }
    std::ranges::fill(block, std::uint8_t{0});
  }
  ::close(memory);
  return found;
}

// Bytes of weights that are not all alike.
Masked masked_weights(const Model& model) {
  for (std::size_t i = 0; i < model.graph().value_count(); ++i) {
    const Tensor* const constant = model.graph().constant({static_cast<std::int32_t>(i)});
    if (constant == nullptr || constant->bytes() < 4096) continue;
    return mask(static_cast<const std::byte*>(constant->raw()) + 1024);
  }
  ADD_FAILURE() << "the model has no weights";
  return {};
}

TEST(Secret, IsNotInMemoryBehindItsUse) {
  Masked masked{};
  {
    const protect::Secret secret = protect::Secret::random(32);
    masked = mask(secret.data());
    EXPECT_EQ(count_in_memory(masked), 1);
  }
  EXPECT_EQ(count_in_memory(masked), 0);
}

TEST(SecretMemory, IsWipedAndLeftOutOfDumps) {
  protect::SecretMemory memory(10'000);
  ASSERT_NE(memory.data(), nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 4096, 0U);
  std::fill_n(memory.data(), memory.size(), std::byte{7});
  memory.wipe(100, 200);
  EXPECT_EQ(memory.data()[99], std::byte{7});
  EXPECT_EQ(memory.data()[100], std::byte{0});
  EXPECT_EQ(memory.data()[299], std::byte{0});
  EXPECT_EQ(memory.data()[300], std::byte{7});
  std::ifstream maps("/proc/self/smaps");
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  bool inside = false, left_out = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%zx-%zx ", &from, &to) == 2 && line.find('-') < 20)
      inside = begin >= from && begin < to;
    if (inside && line.starts_with("VmFlags:")) left_out = line.find(" dd") != std::string::npos;
  }
  EXPECT_TRUE(left_out);
}

// The process of its own: the key, the password and the weights of a protected model.
TEST(SecretChild, FindsNothingAfterTheModelIsGone) {
  const char* const folder = std::getenv(kChild);
  if (folder == nullptr) GTEST_SKIP() << "for the process that SecretsOfAModel starts";
  const std::filesystem::path in = folder;
  Masked key{}, file_key{}, weights{};
  {
    const protect::Key read = protect::read_key_file(in / "keys" / "model.key");
    key = mask(read.bytes.data());
    const auto file = std::make_shared<std::vector<std::byte>>(bytes_of_file(in / "model.tsr"));
    Tensor aligned(DType::u8, {static_cast<std::int64_t>(file->size())});
    std::memcpy(aligned.mutable_raw(), file->data(), file->size());
    const io::Container container({static_cast<const std::byte*>(aligned.raw()), file->size()}, aligned.owner());
    file_key = mask(protect::unwrap_by_key(protect::protection_of(container), read).data());
  }
  {
    const auto by = make_model_key({.file = (in / "keys/model.key").string()});
    const Model model = Model::load(in / "model.tsr", {}, by);
    Session session(model);
    session.run(runtime::random_inputs(model, 1));
    weights = masked_weights(model);
    EXPECT_GE(count_in_memory(key), 1);
    EXPECT_GE(count_in_memory(file_key), 1);
    EXPECT_GE(count_in_memory(weights), 1);
  }
  EXPECT_EQ(count_in_memory(key), 0);
  EXPECT_EQ(count_in_memory(file_key), 0);
  EXPECT_EQ(count_in_memory(weights), 0);
}

// Reads a part of a file of shares so that no copy of it stays in memory.
Masked masked_part(const std::filesystem::path& path, ::off_t offset) {
  std::uint8_t part[sizeof(Masked)];
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(::pread(file, part, sizeof(part), offset), static_cast<::ssize_t>(sizeof(part)));
  ::close(file);
  const Masked masked = mask(part);
  ::explicit_bzero(part, sizeof(part));
  return masked;
}

// Another one: the key of a pair of shares, and a party's seed.
TEST(SecretChild, FindsNoKeysOfSharesAfterTheirUse) {
  const char* const folder = std::getenv(kChild);
  if (folder == nullptr) GTEST_SKIP() << "for the process that SecretsOfShares starts";
  constexpr ::off_t kMessageKey = 96, kSeed = 128;  // share_file.h
  const std::filesystem::path first = std::filesystem::path(folder) / "a", second = std::filesystem::path(folder) / "b";
  const Model model(std::make_shared<const ir::Graph>(models::build_model("lenet5", {.dims = {{"batch", 1}}})));
  share_model(model, first, second, 1);
  const Masked key = masked_part(first, kMessageKey), seed_a = masked_part(first, kSeed),
               seed_b = masked_part(second, kSeed);
  const auto expect_none = [&] {
    for (const Masked& each : {key, seed_a, seed_b}) EXPECT_EQ(count_in_memory(each), 0);
  };
  expect_none();  // of what made the files
  {
    const protect::LockedShareFile file(first);
    EXPECT_EQ(count_in_memory(key), 1);
    EXPECT_EQ(count_in_memory(seed_a), 1);
    EXPECT_EQ(count_in_memory(seed_b), 0);
  }
  expect_none();
  const TensorShares shares = share_tensor(random_tensor(DType::f32, {1, 1, 28, 28}, 1, 0, 1));
  const std::string peer = free_address();
  const auto compute = [&](const std::filesystem::path& file, const Tensor& share) {
    run_secret_shared(file, peer, share, {20});
  };
  std::thread other([&] { compute(second, shares.second); });
  compute(first, shares.first);
  other.join();
  expect_none();
}

class SecretsOfAModel : public ProtectedFiles {
 protected:
  void succeeds_alone(const std::string& test) const;
};
using SecretsOfShares = SecretsOfAModel;

TEST_F(SecretsOfAModel, AreGoneFromTheProcessThatUsedIt) {
  make();
  succeeds_alone("FindsNothingAfterTheModelIsGone");
}

TEST_F(SecretsOfShares, AreGoneFromTheProcessThatUsedThem) {
  succeeds_alone("FindsNoKeysOfSharesAfterTheirUse");
}

// Runs a test of SecretChild in a process of its own.
void SecretsOfAModel::succeeds_alone(const std::string& test) const {
  const std::string variable = std::string(kChild) + "=" + folder.path().string();
  std::vector<char*> environment;
  for (char** each = environ; *each != nullptr; ++each) environment.push_back(*each);
  environment.push_back(const_cast<char*>(variable.c_str()));
  environment.push_back(nullptr);
  std::string program = std::filesystem::read_symlink("/proc/self/exe").string(),
              filter = "--gtest_filter=SecretChild." + test;
  char* const arguments[] = {program.data(), filter.data(), nullptr};
  ::pid_t process = -1;
  ASSERT_EQ(::posix_spawn(&process, program.c_str(), nullptr, nullptr, arguments, environment.data()), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(process, &status, 0), process);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace tessera::test::secret_test
