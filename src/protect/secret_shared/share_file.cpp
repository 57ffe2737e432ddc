#include "protect/secret_shared/share_file.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <system_error>

#include "base/error.h"
#include "io/file.h"
#include "io/package/byte_stream.h"
#include "tessera/secret_shared.h"

namespace tessera::protect {
namespace {

constexpr std::string_view kMagic = "TSRSHARE";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kUsedAt = 16, kDigestAt = 32, kBodyAt = 64, kMessageKeyAt = 96, kSeedAt = 128, kSecretsEnd = 160;
constexpr std::uint64_t kMostRuns = 1 << 20;
constexpr std::int64_t kMostFileBytes = std::int64_t{4} << 30;

PublicId digest_without_use(std::span<const std::byte> bytes) {
  crypto_generichash_state state;
  PublicId digest{};
  crypto_generichash_init(&state, nullptr, 0, digest.size());
  const auto add = [&](std::span<const std::byte> part) {
    crypto_generichash_update(&state, reinterpret_cast<const std::uint8_t*>(part.data()), part.size());
  };
  add(bytes.first(kUsedAt));
  add(bytes.subspan(kUsedAt + 8, kDigestAt - kUsedAt - 8));
  add(bytes.subspan(kBodyAt));
  crypto_generichash_final(&state, digest.data(), digest.size());
  return digest;
}

void wipe_secrets(std::span<std::byte> file) {
  if (file.size() >= kSecretsEnd) sodium_memzero(file.data() + kMessageKeyAt, kSecretsEnd - kMessageKeyAt);
}

// A whole file in memory that is neither swapped nor dumped, as far as the process may lock so much.
class FileInSecretMemory {
 public:
  explicit FileInSecretMemory(const std::filesystem::path& path) : FileInSecretMemory(io::InputFile::open(path)) {}
  ~FileInSecretMemory() { wipe_secrets(bytes()); }
  FileInSecretMemory(const FileInSecretMemory&) = delete;
  FileInSecretMemory& operator=(const FileInSecretMemory&) = delete;
  std::span<std::byte> bytes() const { return {memory_.data(), memory_.size()}; }

 private:
  explicit FileInSecretMemory(io::InputFile file) : memory_(checked_size(file)) { file.read(bytes()); }
  static std::size_t checked_size(const io::InputFile& file) {
    require(file.bytes() <= kMostFileBytes, ErrorKind::over_budget, "the file has {} bytes, a share has at most {}",
            file.bytes(), kMostFileBytes);
    return static_cast<std::size_t>(file.bytes());
  }

  SecretMemory memory_;
};

// The masks of weights and biases that a seed gives a party.
void draw_masks(const SharedStep& step, Keystream& stream, MaskedWeights& weights) {
  if (step.weights() == 0) return;
  weights.mask = stream.words(static_cast<std::size_t>(step.weights()));
  weights.bias_masks = stream.words(static_cast<std::size_t>(step.features));
}

void add_words(io::ByteWriter& out, const Words& words) {
  out.raw(std::as_bytes(std::span(words)));
}

Words read_words(io::ByteReader& in, std::uint64_t count) {
  const std::span<const std::byte> bytes = in.bytes(static_cast<std::size_t>(count * sizeof(Word)));
  Words words(static_cast<std::size_t>(count));
  if (count > 0) std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

// The identity and key that both files begin with.
struct CommonSecrets {
  PublicId pair;
  Secret message_key;
};

std::vector<std::byte> file_bytes(int party, std::uint64_t runs, const CommonSecrets& common, const Secret& seed,
                                  std::span<const std::byte> program, const Words& masked, const Words& corrections) {
  io::ByteWriter out;
  out.raw(std::as_bytes(std::span(kMagic)));
  out.u32(kVersion);
  out.u32(static_cast<std::uint32_t>(party));
  out.u64(0);
  out.u64(runs);
  out.pad_to(kBodyAt);
  out.raw(std::as_bytes(std::span(common.pair)));
  out.pad_to(kSecretsEnd);
  out.u32(static_cast<std::uint32_t>(program.size()));
  out.raw(program);
  add_words(out, masked);
  add_words(out, corrections);
  std::vector<std::byte> bytes = out.take();
  // Not before, because a vector that grows leaves copies behind.
  std::memcpy(bytes.data() + kMessageKeyAt, common.message_key.data(), kSeedBytes);
  std::memcpy(bytes.data() + kSeedAt, seed.data(), kSeedBytes);
  const PublicId digest = digest_without_use(bytes);
  std::memcpy(bytes.data() + kDigestAt, digest.data(), digest.size());
  return bytes;
}

// value − mask for each value.
Words mask_all(const std::vector<double>& values, int fraction_bits, const Words& first, const Words& second,
               Words& sum_of_masks) {
  Words masked(values.size());
  sum_of_masks.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    require(std::abs(values[i]) <= kMostShared, ErrorKind::invalid_argument,
            "a weight of {}, expected magnitudes up to {}", values[i], kMostShared);
    sum_of_masks[i] = first[i] + second[i];
    masked[i] = to_fixed_point(values[i], fraction_bits) - sum_of_masks[i];
  }
  return masked;
}

}  // namespace

Word to_fixed_point(double value, int fraction_bits) {
  return static_cast<Word>(std::llround(std::ldexp(value, fraction_bits)));
}

double from_fixed_point(Word value) {
  return std::ldexp(static_cast<double>(static_cast<std::int64_t>(value)), -kSharedFractionBits);
}

Material ShareFile::material(std::uint64_t run) const {
  const std::size_t each = corrections.size() / static_cast<std::size_t>(runs);
  return {party, seed, run, std::span(corrections).subspan(static_cast<std::size_t>(run) * each, each)};
}

DealtFiles deal_files(const SharedNet& net, std::uint64_t runs) {
  require(runs >= 1 && runs <= kMostRuns, ErrorKind::invalid_argument, "{} runs, expected 1 to {}", runs, kMostRuns);
  const Secret seeds[2] = {Secret::random(kSeedBytes), Secret::random(kSeedBytes)};
  CommonSecrets common{{}, Secret::random(kSeedBytes)};
  randombytes_buf(common.pair.data(), common.pair.size());
  const std::vector<std::byte> program = write_program(net.program);
  Keystream streams[2] = {{seeds[0], kWeightsPurpose}, {seeds[1], kWeightsPurpose}};
  Words masked;
  std::vector<Words> masks(net.program.steps.size());
  for (std::size_t i = 0; i < net.program.steps.size(); ++i) {
    MaskedWeights drawn[2];
    for (int party = 0; party < 2; ++party) draw_masks(net.program.steps[i], streams[party], drawn[party]);
    const Words weights = mask_all(net.weights[i].weights, kSharedFractionBits, drawn[0].mask, drawn[1].mask, masks[i]);
    Words ignored;
    const Words biases =
        mask_all(net.weights[i].biases, 2 * kSharedFractionBits, drawn[0].bias_masks, drawn[1].bias_masks, ignored);
    masked.insert(masked.end(), weights.begin(), weights.end());
    masked.insert(masked.end(), biases.begin(), biases.end());
  }
  const std::uint64_t words = corrections_of(net.program);
  require(static_cast<double>(words) * static_cast<double>(runs) * 8 < static_cast<double>(kMostFileBytes / 2),
          ErrorKind::over_budget, "{} runs need {} random numbers each, which is more than a file of 2 GiB holds", runs,
          words);
  Words corrections;
  for (std::uint64_t run = 0; run < runs; ++run) {
    const Words of_run = deal(net.program, masks, seeds[0], seeds[1], run);
    corrections.insert(corrections.end(), of_run.begin(), of_run.end());
  }
  return {file_bytes(0, runs, common, seeds[0], program, masked, {}),
          file_bytes(1, runs, common, seeds[1], program, masked, corrections)};
}

DealtFiles::~DealtFiles() {
  wipe_secrets(first);
  wipe_secrets(second);
}

ShareFile read_share_file(std::span<const std::byte> bytes) {
  io::ByteReader in(bytes);
  const bool is_share =
      bytes.size() >= kBodyAt && std::ranges::equal(in.bytes(kMagic.size()), std::as_bytes(std::span(kMagic)));
  require(is_share, ErrorKind::invalid_model,
          "this is no share of a model; 'tessera protect MODEL --secret-shares A B' makes two");
  const std::uint32_t version = in.u32(), party = in.u32();
  require(version == kVersion, ErrorKind::unsupported, "a share of version {}, expected {}", version, kVersion);
  require(party <= 1, ErrorKind::invalid_model, "the share of party {}, expected 0 or 1", party);
  ShareFile file;
  file.party = static_cast<int>(party);
  file.used = in.u64();
  file.runs = in.u64();
  require(file.runs >= 1 && file.runs <= kMostRuns && file.used <= file.runs, ErrorKind::invalid_model,
          "{} of {} runs are used, expected 1 to {} runs", file.used, file.runs, kMostRuns);
  const PublicId digest = digest_without_use(bytes);
  require(std::memcmp(in.bytes(digest.size()).data(), digest.data(), digest.size()) == 0, ErrorKind::invalid_model,
          "the file was changed or cut off");
  std::memcpy(file.pair.data(), in.bytes(file.pair.size()).data(), file.pair.size());
  for (Secret* const secret : {&file.message_key, &file.seed}) {
    *secret = Secret(kSeedBytes);
    std::memcpy(secret->data(), in.bytes(kSeedBytes).data(), kSeedBytes);
  }
  file.program = read_program(in.bytes(in.u32()));
  Keystream stream(file.seed, kWeightsPurpose);
  for (const SharedStep& step : file.program.steps) {
    MaskedWeights& weights = file.weights.emplace_back();
    if (step.weights() == 0) continue;
    weights.masked = read_words(in, static_cast<std::uint64_t>(step.weights()));
    weights.masked_biases = read_words(in, static_cast<std::uint64_t>(step.features));
    draw_masks(step, stream, weights);
  }
  if (file.party == 1) file.corrections = read_words(in, corrections_of(file.program) * file.runs);
  require(in.done(), ErrorKind::invalid_model, "there are bytes behind the random numbers");
  return file;
}

LockedShareFile::LockedShareFile(const std::filesystem::path& path) {
  require(std::filesystem::exists(path), ErrorKind::not_found, "'{}' does not exist", path.string());
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  require(descriptor_ >= 0, ErrorKind::io,
          "'{}' cannot be written, but each run has to mark its random numbers as used: {}", path.string(),
          std::generic_category().message(errno));
  try {
    require(::flock(descriptor_, LOCK_EX | LOCK_NB) == 0, ErrorKind::invalid_argument,
            "'{}' is in use by another process; each of the two parties needs a file of its own", path.string());
    content_ = read_share_file(FileInSecretMemory(path).bytes());
  } catch (Error& error) {
    ::close(descriptor_);
    error.add_context("file " + path.string());
    throw;
  }
}

LockedShareFile::~LockedShareFile() {
  ::close(descriptor_);
}

void LockedShareFile::use(std::uint64_t run) {
  content_.used = run + 1;
  const bool is_written =
      ::pwrite(descriptor_, &content_.used, sizeof(content_.used), kUsedAt) == sizeof(content_.used) &&
      ::fdatasync(descriptor_) == 0;
  require(is_written, ErrorKind::io, "the file of shares cannot be written: {}",
          std::generic_category().message(errno));
}

}  // namespace tessera::protect
