// Parses one HTTP/1.1 request (RFC 9110, RFC 9112) with a bound on everything that a client may send.
#pragma once

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/fields.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "serve/http/body.h"

namespace tessera::serve {

// Boost.Beast's parser reads the grammar; this class keeps the header and a chunked body, and refuses
//  - a header, a chunk extension or a trailer section above the limit of the header (431),
//  - framing that two readers may understand differently: any Transfer-Encoding but "chunked", one beside
//    Content-Length or in HTTP/1.0, several Content-Length fields (400; RFC 9112, 6.1 to 6.3),
//  - a request of HTTP/1.1 without exactly one Host field, or with one that holds other characters than a host and a
//    port have (400; RFC 9112, 3.2).
// Trailer fields are dropped (RFC 9110, 6.5.1). Not thread-safe.
class RequestParser final : public boost::beast::http::basic_parser<true> {
 public:
  using Fields = boost::beast::http::fields;

  explicit RequestParser(std::size_t header_bytes);

  // After the header. The names of fields are compared without regard to case.
  const Fields& fields() const { return fields_; }
  std::string_view method() const { return method_; }
  std::string_view target() const { return target_; }
  bool is_http_1_0() const { return version_ == 10; }
  // The value of a field, "" without one, and the first one where there are several.
  std::string_view value(std::string_view name) const;

  // The chunked body as far as it has come.
  GrowingBody& body() { return body_; }

  // The error of a request whose parsing ended in `error`: a status of 400, 413 or 431, and a sentence.
  struct Mistake {
    int status = 0;
    std::string text;
  };
  Mistake mistake(const boost::system::error_code& error) const;

 private:
  using ErrorCode = boost::beast::error_code;
  using Text = boost::beast::string_view;

  void on_request_impl(boost::beast::http::verb, Text method, Text target, int version, ErrorCode& error) override;
  void on_response_impl(int, Text, int, ErrorCode&) override {}
  void on_field_impl(boost::beast::http::field, Text name, Text value, ErrorCode& error) override;
  void on_header_impl(ErrorCode& error) override;
  void on_body_init_impl(const boost::optional<std::uint64_t>&, ErrorCode&) override {}
  std::size_t on_body_impl(Text body, ErrorCode& error) override;
  void on_chunk_header_impl(std::uint64_t size, Text extensions, ErrorCode& error) override;
  std::size_t on_chunk_body_impl(std::uint64_t remain, Text body, ErrorCode& error) override;
  void on_finish_impl(ErrorCode&) override {}

  void check_framing();
  void refuse(int status, std::string_view text, ErrorCode& error);

  const std::size_t header_bytes_;
  std::string method_, target_;
  Fields fields_;
  GrowingBody body_;
  std::size_t extension_bytes_ = 0, trailer_bytes_ = 0;
  int version_ = 11;
  bool header_is_over_ = false;
  Mistake mistake_;
};

}  // namespace tessera::serve
