// A connection's bytes, plain or over TLS.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tessera::serve {

using Socket = boost::asio::ip::tcp::socket;
using ErrorCode = boost::system::error_code;

// All calls and callbacks on the socket's executor, a strand.
class Transport {
 public:
  using Done = std::function<void(const ErrorCode&, std::size_t)>;

  virtual ~Transport() = default;
  virtual Socket& socket() = 0;
  virtual void handshake(Done done) = 0;
  virtual void read_some(boost::asio::mutable_buffer to, Done done) = 0;
  virtual void write(std::vector<boost::asio::const_buffer> from, Done done) = 0;
  // The common name of the client's certificate, "" without one.
  virtual std::string certificate_name() const { return {}; }
};

class TlsContext;
std::unique_ptr<Transport> make_plain_transport(Socket socket);
std::unique_ptr<Transport> make_tls_transport(Socket socket, TlsContext& context);

}  // namespace tessera::serve
