// Certificates of a TLS server, read anew when their files change.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace boost::asio::ssl {
class context;
}

namespace tessera::serve {

struct TlsFiles {
  std::string certificate, key;      // PEM; the certificate with its chain
  std::string client_authorities;    // PEM of those that sign clients' certificates; "": no client has one
  bool require_certificate = false;  // refuse clients without one

  bool is_on() const { return !certificate.empty(); }
};

// Throws Error(not_found) where the file is missing and Error(invalid_argument) where, for this reason, it cannot be
// used. `what` it is: "the certificate".
void require_usable(bool usable, std::string_view what, const std::string& file, const std::string& why);

// Thread-safe.
class TlsContext {
 public:
  // Throws Error(invalid_argument) for files that cannot be used.
  explicit TlsContext(TlsFiles files);

  // TLS 1.2 and 1.3. Looks at the files at most once a second; where new ones cannot be used, the old ones stay, and
  // the log says why.
  std::shared_ptr<boost::asio::ssl::context> current();

 private:
  std::string signature() const;

  const TlsFiles files_;
  std::mutex mutex_;
  std::shared_ptr<boost::asio::ssl::context> context_;
  std::string signature_;
  std::int64_t looked_ns_ = 0;
};

}  // namespace tessera::serve
