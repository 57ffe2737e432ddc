#include "dist/rank_message.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace tessera::dist {

RankHeader read_rank_header(std::span<const std::byte, sizeof(RankHeader)> bytes, std::uint32_t rank) {
  RankHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  require(header.magic == kRankMagic, ErrorKind::failed,
          "rank {} sent bytes that are no message (they begin with {:#x}): is another program connected?", rank,
          header.magic);
  require(header.version == kRankVersion, ErrorKind::failed,
          "rank {} runs another version of Tessera (messages {}, here {}): start the same program on all ranks", rank,
          header.version, kRankVersion);
  const auto kind = static_cast<std::uint32_t>(header.kind);
  require(kind <= static_cast<std::uint32_t>(RankMessageKind::goodbye), ErrorKind::failed,
          "rank {} sent a message of the unknown kind {}", rank, kind);
  require(header.rank == rank, ErrorKind::failed, "a message from rank {} says that it is from rank {}", rank,
          header.rank);
  const std::int64_t most = header.kind == RankMessageKind::exchange ? kMostMessageBytes
                            : header.kind == RankMessageKind::failed ? kMostReasonBytes
                                                                     : 0;
  require(header.bytes >= 0 && header.bytes <= most, ErrorKind::failed,
          "a message from rank {} says that it has {} bytes, expected 0 to {}", rank, header.bytes, most);
  require(header.number >= 0, ErrorKind::failed, "a message from rank {} has the number {}", rank, header.number);
  require(std::ranges::find(header.name, '\0') != header.name.end(), ErrorKind::failed,
          "a message from rank {} has a name without an end", rank);
  return header;
}

}  // namespace tessera::dist
