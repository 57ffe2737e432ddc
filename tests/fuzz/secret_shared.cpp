// Files of shares, and what a peer may send. The first byte says which: a file whose digest is made right first, a file
// as it is, or a peer's bytes, to a process that has the share `kSeedShare` would have.
#include <sodium.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "protect/secret_shared/peer_connection.h"
#include "protect/secret_shared/share_file.h"
#include "target.h"
#include "tessera/error.h"

namespace tessera::fuzz {
namespace {

constexpr std::size_t kUsed = 16, kDigest = 32, kBody = 64;

void make_digest_right(std::span<std::byte> bytes) {
  if (bytes.size() < kBody) return;
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, 32);
  for (const std::span<std::byte> part :
       {bytes.first(kUsed), bytes.subspan(kUsed + 8, kDigest - kUsed - 8), bytes.subspan(kBody)})
    crypto_generichash_update(&state, reinterpret_cast<const std::uint8_t*>(part.data()), part.size());
  crypto_generichash_final(&state, reinterpret_cast<std::uint8_t*>(bytes.data() + kDigest), 32);
}

// A peer whose messages are zeros: what is computed is wrong, and must not be out of bounds.
class SilentPeer : public protect::PeerChannel {
 public:
  void exchange(std::span<const protect::Word>, std::span<protect::Word> other) override {
    std::ranges::fill(other, protect::Word{0});
  }
};

void read_and_compute(std::span<const std::byte> bytes) {
  constexpr std::int64_t kMostWork = 1 << 22;  // so that an input takes no seconds
  const protect::ShareFile file = protect::read_share_file(bytes);
  std::int64_t work = element_count(file.program.input_shape);
  for (const protect::SharedStep& step : file.program.steps)
    work += step.inputs() + step.outputs() * std::min<std::int64_t>(step.y.kernel * step.x.kernel, kMostWork) *
                                (step.weights() > 0 ? step.channels / step.groups : 1);
  if (work > kMostWork) return;
  SilentPeer peer;
  const protect::Words input(static_cast<std::size_t>(element_count(file.program.input_shape)));
  protect::compute_shared(file.program, file.party, file.weights, input, file.material(0), peer);
}

void meet_peer(std::span<const std::byte> bytes) {
  constexpr std::size_t kMostBytes = 16384;  // which a socket holds until it is read
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return;
  const std::span<const std::byte> said = bytes.first(std::min(bytes.size(), kMostBytes));
  protect::PeerSocket socket(ends[0], 0.05);
  const bool is_sent = ::send(ends[1], said.data(), said.size(), MSG_NOSIGNAL) == static_cast<::ssize_t>(said.size());
  ::shutdown(ends[1], SHUT_WR);
  try {
    protect::SecureChannel channel(std::move(socket), {});
    if (is_sent) {
      protect::Words words(8);
      channel.exchange(words, words);
      finding("a message of a peer that does not know the key was taken for authentic");
    }
  } catch (const Error&) {
  }
  ::close(ends[1]);
}

void secret_shared(std::span<const std::byte> input) {
  const auto [tag, rest] = split_tag(input);
  if (tag % 3 == 2) return meet_peer(rest);
  std::vector<std::byte> bytes(rest.begin(), rest.end());
  if (tag % 3 == 0) make_digest_right(bytes);
  try {
    read_and_compute(bytes);
  } catch (const Error&) {
  }
}

constexpr Target kTargets[] = {{"secret_shared", secret_shared, {}}};

}  // namespace

std::span<const Target> secret_shared_targets() {
  return kTargets;
}

}  // namespace tessera::fuzz
