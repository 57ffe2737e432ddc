// The messages that one rank writes to another: a header of fixed size, then `bytes` bytes of payload. All ranks of a
// group run the same version on machines of the same byte order, which the greeting checks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tessera::dist {

inline constexpr std::uint32_t kRankMagic = 0x4B525354, kRankVersion = 1;  // "TSRK"
inline constexpr std::int64_t kMostReasonBytes = 4096, kMostMessageBytes = std::int64_t{1} << 40;

enum class RankMessageKind : std::uint32_t {
  greeting,  // the first message each way: `number` is the number of ranks, `name` the host, `step` the process
  exchange,  // the payload of the exchange `name`, the `number`th of that name
  alive,     // nothing has to be sent, but the rank is there: in exchange `name`
  failed,    // the rank stops; the payload says why
  goodbye,   // the rank has ended as it should
};

struct RankHeader {
  std::uint32_t magic = kRankMagic, version = kRankVersion;
  RankMessageKind kind = RankMessageKind::alive;
  std::uint32_t rank = 0;  // of the sender
  std::int64_t number = 0, bytes = 0, step = 0;
  std::array<char, 56> name{};  // ends with a zero

  void set_name(std::string_view text) {
    name = {};
    text.copy(name.data(), name.size() - 1);
  }
  std::string_view name_text() const {
    const std::string_view all(name.data(), name.size());
    return all.substr(0, all.find('\0'));
  }
};
static_assert(sizeof(RankHeader) == 96);

// Reads a header from the bytes of one. Throws Error(failed) that says what is wrong with it: other magic or version,
// a kind that does not exist, a sender that is not `rank`, a size that the kind does not allow, a name without an end.
RankHeader read_rank_header(std::span<const std::byte, sizeof(RankHeader)> bytes, std::uint32_t rank);

}  // namespace tessera::dist
