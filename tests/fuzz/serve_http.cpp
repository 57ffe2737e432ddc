// The bytes that a client sends on one connection: requests behind each other, with chunks, extensions and trailers.
// The first byte chooses into what pieces the network cuts them. They are read once as a whole and once in pieces, the
// way a session does: both must see the same requests, however the bytes come, or one would be smuggled.
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <optional>

#include "serve/http/request_parser.h"
#include "target.h"

namespace tessera::fuzz {
namespace {

namespace http = boost::beast::http;

constexpr std::size_t kHeaderBytes = 512, kMostBody = 2048;

struct Seen {
  std::vector<std::string> requests;  // method, target and body
  int refused = 0;                    // the status, or 0 where more bytes may come
  bool waits_in_header = false;
};

class Reader {
 public:
  void read(std::string_view bytes) {
    received_ += bytes;
    while (seen_.refused == 0 && !received_.empty() && read_some()) {
    }
    seen_.waits_in_header = seen_.refused == 0 && parser_ && !parser_->is_header_done();
  }
  const Seen& seen() const { return seen_; }

 private:
  // Returns false where more bytes are needed.
  bool read_some() {
    if (body_left_) return fill_body();
    if (!parser_) parser_.emplace(kHeaderBytes), parser_->body_limit(kMostBody);
    boost::system::error_code error;
    const std::size_t used = parser_->put(boost::asio::buffer(received_), error);
    received_.erase(0, used);
    if (error == http::error::need_more) {
      if (received_.size() > kHeaderBytes) seen_.refused = 431;
      return false;
    }
    if (error) {
      seen_.refused = parser_->mistake(error).status;
      return false;
    }
    if (parser_->body().size() > kMostBody) finding("a body is larger than it may be");
    if (parser_->is_header_done() && !header_is_checked_) check_header();
    if (seen_.refused == 0 && parser_->is_done()) end(std::string(parser_->body().take().bytes));
    return true;
  }

  void check_header() {
    header_is_checked_ = true;
    parser_->eager(true);
    const auto length = parser_->content_length();
    if (parser_->is_done() || !length) return;
    if (*length > kMostBody) seen_.refused = 413;
    else body_left_ = static_cast<std::size_t>(*length);
  }

  bool fill_body() {
    const std::size_t taken = std::min(*body_left_, received_.size());
    body_.append(received_, 0, taken);
    received_.erase(0, taken);
    *body_left_ -= taken;
    if (*body_left_ > 0) return false;
    end(std::exchange(body_, {}));
    return true;
  }

  void end(const std::string& body) {
    for (const auto& field : parser_->fields()) {
      if (field.name_string().size() + field.value().size() > kHeaderBytes) finding("a field is larger than a header");
    }
    seen_.requests.push_back(std::string(parser_->method()) + ' ' + std::string(parser_->target()) + ' ' + body);
    parser_.reset();
    body_left_.reset();
    header_is_checked_ = false;
  }

  std::optional<serve::RequestParser> parser_;
  std::string received_, body_;
  std::optional<std::size_t> body_left_;
  bool header_is_checked_ = false;
  Seen seen_;
};

Seen read_in_pieces(std::string_view bytes, std::size_t piece) {
  Reader reader;
  for (std::size_t at = 0; at < bytes.size() && reader.seen().refused == 0; at += piece)
    reader.read(bytes.substr(at, piece));
  return reader.seen();
}

}  // namespace

void serve_http(std::span<const std::byte> input) {
  const auto [tag, rest] = split_tag(input);
  const std::string_view bytes(reinterpret_cast<const char*>(rest.data()), rest.size());
  const Seen whole = read_in_pieces(bytes, bytes.size() + 1), pieces = read_in_pieces(bytes, tag % 61 + 1);
  const std::size_t common = std::min(whole.requests.size(), pieces.requests.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (whole.requests[i] != pieces.requests[i]) finding("a request is read in two ways");
  }
  // Lines without an end are refused by their length, which shows at different times; what is wrong in a header may
  // show when it has come to its end.
  if (whole.refused == 431 || pieces.refused == 431 || whole.waits_in_header || pieces.waits_in_header) return;
  if (whole.requests.size() != pieces.requests.size() || (whole.refused != 0) != (pieces.refused != 0))
    finding("bytes make " + std::to_string(whole.requests.size()) + " requests as a whole (status " +
            std::to_string(whole.refused) + "), and " + std::to_string(pieces.requests.size()) + " in pieces (status " +
            std::to_string(pieces.refused) + ")");
}

}  // namespace tessera::fuzz
