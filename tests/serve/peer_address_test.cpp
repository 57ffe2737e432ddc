#include "serve/limits/peer_address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

namespace tessera::serve::peer_address_test {
namespace {

TEST(PeerAddress, IsReadFromTheTextsOfGrpc) {
  EXPECT_EQ(parse_peer("ipv4:127.0.0.1:8001"), (PeerAddress{"127.0.0.1", 8001}));
  EXPECT_EQ(parse_peer("ipv6:%5B::1%5D:8001"), (PeerAddress{"::1", 8001}));
  EXPECT_EQ(parse_peer("ipv6:[2001:db8::7]:65535"), (PeerAddress{"2001:db8::7", 65535}));
  EXPECT_EQ(parse_peer("ipv6:%5B::ffff:10.0.0.1%5D:5"), (PeerAddress{"10.0.0.1", 5}));
  for (const char* const other : {"", "unix:/run/x", "ipv4:", "ipv4:127.0.0.1", "ipv4:127.0.0.1:x"})
    EXPECT_EQ(parse_peer(other), (PeerAddress{other, 0})) << other;
}

TEST(PeerAddress, IsReadFromTheAddressOfASocket) {
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(17);
  four.sin_addr.s_addr = htonl(0x7f000001);
  EXPECT_EQ(to_peer(reinterpret_cast<const sockaddr&>(four)), (PeerAddress{"127.0.0.1", 17}));
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(18);
  ASSERT_EQ(::inet_pton(AF_INET6, "::ffff:10.0.0.1", &six.sin6_addr), 1);
  EXPECT_EQ(to_peer(reinterpret_cast<const sockaddr&>(six)), (PeerAddress{"10.0.0.1", 18}));
}

}  // namespace
}  // namespace tessera::serve::peer_address_test
