// Licences open on the machine that they are for, and on no other one.
#include "protect/licence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/output_file.h"
#include "protect/obfuscate/symbol_file.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "tessera/obfuscate.h"

namespace tessera::test::licence_test {
namespace {

const std::string kMachine(32, '7'), kOther = std::string(31, '7') + "8";

ops::SymbolTable table() {
  return {std::string(32, 'b'), 5, {{"tessera::_licensed", "LeakyRelu", {{"alpha", 0.1f}}}}};
}

TEST(Licence, OpensOnItsMachineAlone) {
  const std::vector<std::byte> licence = protect::write_licence(table(), kMachine);
  EXPECT_TRUE(protect::is_licence(licence));
  const ops::SymbolTable read = protect::read_licence(licence, kMachine);
  EXPECT_EQ(protect::symbol_text(read), protect::symbol_text(table()));
  test::expect_error_containing(ErrorKind::invalid_argument,
                                "the licence is for another machine; this one is " + kOther,
                                [&] { protect::read_licence(licence, kOther); });
}

TEST(Licence, ShowsNothing) {
  const std::vector<std::byte> licence = protect::write_licence(table(), kMachine),
                               again = protect::write_licence(table(), kMachine);
  const std::string_view text(reinterpret_cast<const char*>(licence.data()), licence.size());
  for (const char* word : {"LeakyRelu", "alpha", "_licensed", "bbbb", "7777"})
    EXPECT_EQ(text.find(word), std::string_view::npos) << word;
  EXPECT_FALSE(std::ranges::equal(std::span(licence).subspan(12), std::span(again).subspan(12)));
}

TEST(Licence, IsRefusedWhenItWasChanged) {
  const std::vector<std::byte> good = protect::write_licence(table(), kMachine);
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::vector<std::byte> bad = good;
    bad[at] ^= std::byte{1};
    EXPECT_THROW(protect::read_licence(bad, kMachine), Error) << at;
    EXPECT_THROW(protect::read_licence(std::span(good).first(at), kMachine), Error) << at;
  }
}

TEST(Licence, NeedsAnIdentifier) {
  for (const std::string& machine :
       {std::string(), std::string("this"), std::string(31, '7'), std::string(33, '7'), std::string(32, 'g')})
    test::expect_error_containing(ErrorKind::invalid_argument, "is no identifier of a machine",
                                  [&] { protect::write_licence(table(), machine); });
}

TEST(Licence, IdentifiesMachinesByAHash) {
  const test::TemporaryFolder folder;
  const auto identifier = [&](const std::string& content) {
    io::write_text(folder / "machine-id", content);
    return protect::machine_identifier_of(folder / "machine-id");
  };
  const std::string id = "0123456789abcdef0123456789abcdef", one = identifier(id + "\n");
  EXPECT_THAT(one, testing::MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(one.size(), 32U);
  EXPECT_NE(one, id);
  EXPECT_EQ(one, identifier(id));
  EXPECT_NE(one, identifier("1" + id.substr(1)));
  for (const std::string& wrong : {std::string(), std::string("uninitialized\n"), std::string(32, '0'), id + "00"})
    test::expect_error_containing(ErrorKind::unsupported, "holds no machine id", [&] { identifier(wrong); });
  test::expect_error_containing(ErrorKind::not_found, "does not exist",
                                [&] { protect::machine_identifier_of(folder / "nothing"); });
}

// A licence opens on one machine: nothing may write its symbols out for others.
TEST(Licence, IsNoFileOfSymbols) {
  const test::TemporaryFolder folder;
  const std::vector<std::byte> licence = protect::write_licence(table(), kMachine);
  io::write_text(folder / "licence", {reinterpret_cast<const char*>(licence.data()), licence.size()});
  const auto refused = [](const auto& call) {
    test::expect_error_containing(ErrorKind::invalid_argument, "is a licence for one machine", call);
  };
  refused([&] { emit_operator_library(folder / "licence", folder / "sources"); });
  refused([&] { tessera::write_licence(folder / "licence", folder / "another", kOther); });
}

}  // namespace
}  // namespace tessera::test::licence_test
