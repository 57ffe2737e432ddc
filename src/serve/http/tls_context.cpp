#include "serve/http/tls_context.h"

#include <fmt/format.h>

#include <boost/asio/ssl/context.hpp>

#include "base/error.h"
#include "serve/core/operations/log.h"
#include "tessera/clock.h"

namespace tessera::serve {
namespace ssl = boost::asio::ssl;
namespace {

constexpr std::int64_t kLookNs = 1'000'000'000;

std::shared_ptr<ssl::context> read_files(const TlsFiles& files) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  boost::system::error_code error;
  const auto check = [&](const std::string& file, const char* what) {
    require_usable(!error, what, file, error.message());
  };
  context->use_certificate_chain_file(files.certificate, error);
  check(files.certificate, "the certificate");
  context->use_private_key_file(files.key, ssl::context::pem, error);
  check(files.key, "the private key");
  require(SSL_CTX_check_private_key(context->native_handle()) == 1, ErrorKind::invalid_argument,
          "the private key {} does not belong to the certificate {}", files.key, files.certificate);
  if (files.client_authorities.empty()) return context;
  context->load_verify_file(files.client_authorities, error);
  check(files.client_authorities, "the file of client authorities");
  context->set_verify_mode(ssl::verify_peer | (files.require_certificate ? ssl::verify_fail_if_no_peer_cert : 0));
  const unsigned char id[] = "tessera-serve";
  SSL_CTX_set_session_id_context(context->native_handle(), id, sizeof(id) - 1);
  return context;
}

}  // namespace

void require_usable(bool usable, std::string_view what, const std::string& file, const std::string& why) {
  std::error_code ignored;
  require(usable || std::filesystem::exists(file, ignored), ErrorKind::not_found, "{} {} does not exist", what, file);
  require(usable, ErrorKind::invalid_argument, "{} {} cannot be used: {}", what, file, why);
}

TlsContext::TlsContext(TlsFiles files) : files_(std::move(files)) {
  signature_ = signature();
  context_ = read_files(files_);
}

std::string TlsContext::signature() const {
  std::string text;
  for (const std::string& file : {files_.certificate, files_.key, files_.client_authorities}) {
    std::error_code error;
    text += fmt::format("{} ", std::filesystem::last_write_time(file, error).time_since_epoch().count());
  }
  return text;
}

std::shared_ptr<ssl::context> TlsContext::current() {
  const std::lock_guard lock(mutex_);
  const std::int64_t now_ns = Clock::steady().now_ns();
  if (now_ns < looked_ns_ + kLookNs) return context_;
  looked_ns_ = now_ns;
  const std::string found = signature();
  if (found == signature_) return context_;
  try {
    context_ = read_files(files_);
    log(Level::info, "certificates read anew");
  } catch (const Error& error) {
    log(Level::error, "new certificates cannot be used; the old ones stay", {{"why", error.what()}});
  }
  signature_ = found;
  return context_;
}

}  // namespace tessera::serve
