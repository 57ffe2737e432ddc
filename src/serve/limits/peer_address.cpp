#include "serve/limits/peer_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace tessera::serve {
namespace {

std::string plain_ip(std::string ip) {
  constexpr std::string_view kMapped = "::ffff:";
  if (ip.starts_with(kMapped) && ip.find('.') != std::string::npos) ip.erase(0, kMapped.size());
  return ip;
}

}  // namespace

PeerAddress parse_peer(std::string_view text) {
  const std::size_t scheme = text.find(':'), colon = text.rfind(':');
  const PeerAddress other{std::string(text), 0};
  if (!(text.starts_with("ipv4:") || text.starts_with("ipv6:")) || scheme == colon) return other;
  PeerAddress peer;
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data() + colon + 1, end, peer.port).ptr != end) return other;
  std::string_view host = text.substr(scheme + 1, colon - scheme - 1);
  for (const std::string_view bracket : {"%5B", "["}) {
    if (host.starts_with(bracket)) host.remove_prefix(bracket.size());
  }
  for (const std::string_view bracket : {"%5D", "]"}) {
    if (host.ends_with(bracket)) host.remove_suffix(bracket.size());
  }
  peer.ip = plain_ip(std::string(host));
  return peer;
}

std::string network_of(const std::string& ip) {
  in6_addr six{};
  if (::inet_pton(AF_INET6, ip.c_str(), &six) != 1) return ip;
  std::fill(six.s6_addr + 8, six.s6_addr + 16, std::uint8_t{0});
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET6, &six, text.data(), text.size());
  return std::string(text.data()) + "/64";
}

PeerAddress to_peer(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.sa_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &four.sin_addr, text.data(), text.size());
    return {text.data(), ntohs(four.sin_port)};
  }
  if (address.sa_family == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
    ::inet_ntop(AF_INET6, &six.sin6_addr, text.data(), text.size());
    return {plain_ip(text.data()), ntohs(six.sin6_port)};
  }
  return {"unknown", 0};
}

}  // namespace tessera::serve
