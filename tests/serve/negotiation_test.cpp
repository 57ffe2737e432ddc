#include "serve/http/negotiation.h"

#include <gtest/gtest.h>

namespace tessera::serve::negotiation_test {
namespace {

constexpr std::size_t kLong = 10'000;

TEST(Negotiation, CodingsAreTakenByNameAndWeight) {
  const auto coding = [](std::string_view accepted) {
    const char* const wanted = wanted_coding(kLong, accepted);
    return std::string(wanted != nullptr ? wanted : "none");
  };
  EXPECT_EQ(coding("gzip"), "gzip");
  EXPECT_EQ(coding("deflate, gzip"), "gzip");
  EXPECT_EQ(coding("GZIP;q=0.5 , deflate;q=0.1"), "gzip");
  EXPECT_EQ(coding("gzip;q=0.1, deflate;q=0.5"), "deflate");
  EXPECT_EQ(coding("gzip;q=0, deflate"), "deflate");
  EXPECT_EQ(coding("gzip;q=0, *"), "deflate");
  EXPECT_EQ(coding("*"), "gzip");
  for (const char* const accepted :
       {"", "gzip;q=0", "gzip; q=0.000", "*;q=0", "xgzip", "gzipped", "identity", "br", ",", ";q=1"})
    EXPECT_EQ(coding(accepted), "none") << accepted;
  EXPECT_EQ(wanted_coding(100, "gzip"), nullptr);
}

TEST(Negotiation, HostsStandWithoutTheirPort) {
  EXPECT_EQ(host_name("Models.Example:8000"), "models.example");
  EXPECT_EQ(host_name("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(host_name("[::1]:8000"), "::1");
  EXPECT_EQ(host_name(""), "");
  EXPECT_TRUE(is_address("127.0.0.1"));
  EXPECT_TRUE(is_address("::1"));
  EXPECT_FALSE(is_address("127.0.0.1.example"));
  EXPECT_FALSE(is_address("localhost"));
}

TEST(Negotiation, FormsAreWhatBrowsersSendUnasked) {
  for (const char* const type : {"text/plain", "Text/Plain; charset=utf-8", "multipart/form-data; boundary=x",
                                 "application/x-www-form-urlencoded"})
    EXPECT_TRUE(is_form(type)) << type;
  for (const char* const type : {"", "application/json", "application/octet-stream", "text/plainer"})
    EXPECT_FALSE(is_form(type)) << type;
}

}  // namespace
}  // namespace tessera::serve::negotiation_test
