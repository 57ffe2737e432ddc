#include "serve/protocol/content_coding.h"

#include <gtest/gtest.h>

#include "serve/protocol/failure.h"

namespace tessera::serve::content_coding_test {
namespace {

Reason refused(std::string_view coding, std::string_view body, std::int64_t most) {
  try {
    decode_content(coding, body, most);
  } catch (const Failure& failure) {
    return failure.reason();
  }
  return Reason::internal;
}

TEST(ContentCoding, RoundTripsAndStopsABombAtTheLimit) {
  const std::string zeros(std::size_t{1} << 24, '\0');
  for (const char* coding : {"gzip", "deflate"}) {
    const std::string coded = encode_content(coding, zeros);
    EXPECT_LT(coded.size(), zeros.size() / 100);
    EXPECT_EQ(decode_content(coding, coded, 1 << 24), zeros);
    EXPECT_EQ(refused(coding, coded, (1 << 24) - 1), Reason::too_large);
    EXPECT_EQ(refused(coding, coded.substr(0, coded.size() - 1), 1 << 24), Reason::bad_request);
    EXPECT_EQ(refused(coding, coded + "x", 1 << 24), Reason::bad_request);
  }
  EXPECT_EQ(refused("gzip", "no gzip", 100), Reason::bad_request);
  EXPECT_EQ(refused("gzip", "", 100), Reason::bad_request);
  EXPECT_EQ(refused("br", "", 100), Reason::unsupported);
}

}  // namespace
}  // namespace tessera::serve::content_coding_test
