#include "serve/core/operations/access.h"

#include <gtest/gtest.h>

#include "serve/core/operations/digest.h"
#include "serve/program/server_options.h"
#include "serve/protocol/failure.h"
#include "support/expect_error.h"

namespace tessera::serve::access_test {
namespace {

template <typename Call>
Reason reason_of(const Call& call) {
  try {
    call();
  } catch (const Failure& failure) {
    return failure.reason();
  }
  return Reason::internal;
}

TEST(Access, RolesModelsAndRates) {
  Access access({{"alice", sha256("a token of alice"), "", {Role::infer}, {"public*", "one"}, {2, 0}},
                 {"boss", "", "boss.example", {Role::manage, Role::read}, {}, {}}});
  EXPECT_EQ(access.identify("Bearer a token of alice", ""), "alice");
  EXPECT_EQ(access.identify("", "boss.example"), "boss");
  for (const char* header : {"", "Bearer ", "Bearer a token of alicf", "Basic a token of alice", "a token of alice"})
    EXPECT_EQ(reason_of([&] { access.identify(header, "other.example"); }), Reason::unauthenticated) << header;
  access.check("alice", Role::infer, "public_model");
  access.check("alice", Role::infer, "one");
  EXPECT_EQ(reason_of([&] { access.check("alice", Role::infer, "ones"); }), Reason::forbidden);
  EXPECT_EQ(reason_of([&] { access.check("alice", Role::manage, "one"); }), Reason::forbidden);
  EXPECT_EQ(reason_of([&] { access.check("boss", Role::infer, "one"); }), Reason::forbidden);
  access.begin("alice");
  access.begin("alice");
  EXPECT_EQ(reason_of([&] { access.begin("alice"); }), Reason::rate_limited);
}

TEST(Access, WithoutKeysEverybodyMayDoEverything) {
  Access access({});
  EXPECT_TRUE(access.is_open());
  access.check(access.identify("", ""), Role::manage, "any");
}

TEST(ServerOptions, ReadsKeysAndLimits) {
  ServerOptions options;
  parse_server_config("http = \"0.0.0.0:80\"\n[limits]\nbody_mib = 2\n[key.alice]\ntoken_sha256 = \"" + sha256("x") +
                          "\"\nroles = [\"infer\", \"read\"]\nmodels = \"m*\"",
                      "server.toml", options);
  EXPECT_EQ(options.http, "0.0.0.0:80");
  EXPECT_EQ(options.limits.body_bytes, 2 << 20);
  EXPECT_FALSE(options.reflection.has_value());
  ASSERT_EQ(options.keys.size(), 1u);
  EXPECT_EQ(options.keys[0].models, std::vector<std::string>{"m*"});
  const auto refused = [&](const std::string& text, const std::string& message) {
    test::expect_error_containing(ErrorKind::invalid_argument, message,
                                  [&] { parse_server_config(text, "server.toml", options); });
  };
  refused("[key.bob]\nroles = [\"infer\"]", "neither token_sha256");
  refused("[key.bob]\ntoken_sha256 = \"12\"\nroles = [\"infer\"]", "64 hexadecimal digits");
  refused("[key.bob]\ncertificate = \"b\"\nroles = [\"admin\"]", "no role");
  refused("[key.bob]\ncertificate = \"b\"", "no roles");
  refused("[tls]\ncertificate = \"a.pem\"", "both certificate and key");
  refused("htpp = \"x\"", "htpp");
  refused("[limits]\nbody_mib = 0", "body_mib in [limits] of server.toml is 0, expected 1 to");
  refused("[limits]\nall_bodies_mib = -5", "all_bodies_mib");
  refused("[limits]\nconnections = 0", "connections");
  refused("[limits]\nheader_bytes = 10", "header_bytes in [limits] of server.toml is 10, expected 1024 to");
  refused("[limits]\nheader_seconds = -1", "header_seconds");
  refused("[limits]\nstall_seconds = 0", "stall_seconds");
  refused("[limits]\npeer_requests_in_flight = -1", "peer_requests_in_flight of [limits] of server.toml is negative");
  refused("[key.bob]\ncertificate = \"b\"\nroles = [\"infer\"]\nrequests_per_second = -1",
          "requests_per_second of key 'bob' in server.toml is negative");
  refused("[tracing]\nprotocol = \"http/protobuf\"", "expected \"http/json\" or \"grpc\"");
  refused("[access_log]\nmost_files = 0", "most_files in [access_log] of server.toml is 0, expected 1 to");
  refused("threads = 0", "threads in server.toml is 0, expected 1 to 256");
  refused("[cache]\nmost_mib = -1", "most_mib in [cache] of server.toml is -1, expected 0 to");
  refused("[audit]\nfile = \"a\"\nmost_mib = 0", "most_mib in [audit] of server.toml is 0, expected 1 to");
}

}  // namespace
}  // namespace tessera::serve::access_test
