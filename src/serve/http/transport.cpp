#include "serve/http/transport.h"

#include <openssl/x509.h>

#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>

#include "serve/http/tls_context.h"

namespace tessera::serve {
namespace asio = boost::asio;
namespace {

class PlainTransport final : public Transport {
 public:
  explicit PlainTransport(Socket socket) : socket_(std::move(socket)) {}
  Socket& socket() override { return socket_; }
  void handshake(Done done) override { done({}, 0); }
  void read_some(asio::mutable_buffer to, Done done) override { socket_.async_read_some(to, std::move(done)); }
  void write(std::vector<asio::const_buffer> from, Done done) override {
    asio::async_write(socket_, std::move(from), std::move(done));
  }

 private:
  Socket socket_;
};

class TlsTransport final : public Transport {
 public:
  TlsTransport(Socket socket, std::shared_ptr<asio::ssl::context> context)
      : context_(std::move(context)), stream_(std::move(socket), *context_) {}
  Socket& socket() override { return stream_.next_layer(); }
  void handshake(Done done) override {
    stream_.async_handshake(asio::ssl::stream_base::server,
                            [done = std::move(done)](const ErrorCode& error) { done(error, 0); });
  }
  void read_some(asio::mutable_buffer to, Done done) override { stream_.async_read_some(to, std::move(done)); }
  void write(std::vector<asio::const_buffer> from, Done done) override {
    asio::async_write(stream_, std::move(from), std::move(done));
  }
  std::string certificate_name() const override {
    SSL* const ssl = const_cast<asio::ssl::stream<Socket>&>(stream_).native_handle();
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(SSL_get1_peer_certificate(ssl), &X509_free);
    if (!certificate || SSL_get_verify_result(ssl) != X509_V_OK) return {};
    X509_NAME* const subject = X509_get_subject_name(certificate.get());
    const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (at < 0) return {};
    const ASN1_STRING* const name = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
    std::string text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name)),
                     static_cast<std::size_t>(ASN1_STRING_length(name)));
    return text.find('\0') == std::string::npos ? text : std::string{};
  }

 private:
  std::shared_ptr<asio::ssl::context> context_;  // outlives the stream, whatever is read anew
  asio::ssl::stream<Socket> stream_;
};

}  // namespace

std::unique_ptr<Transport> make_plain_transport(Socket socket) {
  return std::make_unique<PlainTransport>(std::move(socket));
}

std::unique_ptr<Transport> make_tls_transport(Socket socket, TlsContext& context) {
  return std::make_unique<TlsTransport>(std::move(socket), context.current());
}

}  // namespace tessera::serve
