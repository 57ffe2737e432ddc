// Who is at the other end of a connection.
#pragma once

#include <compare>
#include <string>
#include <string_view>

struct sockaddr;

namespace tessera::serve {

struct PeerAddress {
  std::string ip;  // "127.0.0.1" or "::1"; an IPv4 address that came by IPv6 as an IPv4 address
  int port = 0;
  friend auto operator<=>(const PeerAddress&, const PeerAddress&) = default;
};

// Reads gRPC's text "ipv4:127.0.0.1:80" or "ipv6:%5B::1%5D:80"; the text itself as the address for any other.
PeerAddress parse_peer(std::string_view text);
// The part of an IP address by which callers are counted: of IPv6 the network of 64 bits, whose addresses are all its
// owner's.
std::string network_of(const std::string& ip);
PeerAddress to_peer(const sockaddr& address);

}  // namespace tessera::serve
