#include "base/text.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera::test::text_test {
namespace {

using base::printable;
using base::shortened;
using base::shown;

TEST(Text, LeavesReadableTextAlone) {
  for (const char* text : {"", "conv_1/weight", "näme", "名前", "a\\b", "🙂"}) {
    EXPECT_EQ(printable(text), text);
    EXPECT_EQ(shown(text), text);
  }
}

TEST(Text, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(printable("\x1b[2J\x07"), "\\x1B[2J\\x07");
  EXPECT_EQ(printable(std::string("a\0b\r\n\t\x7f", 7)), "a\\x00b\\x0D\\x0A\\x09\\x7F");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xC2\\x9B31m")
      << "the one-character form of ESC [";
  EXPECT_EQ(printable("exe.\u202Egnp"), "exe.\\u202Egnp") << "text that runs backwards";
  EXPECT_EQ(printable("a\u2028b"), "a\\u2028b");
}

TEST(Text, EscapesWhatIsNoUtf8) {
  EXPECT_EQ(printable("\xff\xfe"), "\\xFF\\xFE");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xC0\\xAF") << "longer than needed";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xED\\xA0\\x80") << "half of a surrogate pair";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xF4\\x90\\x80\\x80") << "beyond Unicode";
  EXPECT_EQ(printable("\xe5\x90"), "\\xE5\\x90") << "cut short";
}

TEST(Text, ShowsBothEndsOfALongName) {
  const std::string name = std::string(1 << 20, 'a') + "_the_end";
  EXPECT_LE(shown(name).size(), 103U);
  EXPECT_TRUE(shown(name).starts_with("aaaa"));
  EXPECT_TRUE(shown(name).ends_with("_the_end"));
  std::string wide;
  for (int i = 0; i < 200; ++i) wide += "名";
  for (std::size_t most = 0; most < 20; ++most)
    EXPECT_EQ(printable(shortened(wide, most)), shortened(wide, most)) << "cut inside of a character";
}

TEST(Text, MessagesAreShortAndPrintableWhateverIsQuoted) {
  const std::string name(1 << 20, '\x1b');
  const auto message_of = [&] {
    try {
      fail(ErrorKind::failed, "value '{}' is {} of '{}'", name, 7, std::string_view(name));
    } catch (Error& error) {
      error.add_context(name);
      return std::string(error.what());
    }
  }();
  EXPECT_EQ(message_of, printable(message_of));
  EXPECT_LT(message_of.size(), 10'000U);
  EXPECT_NE(message_of.find("' is 7 of '"), std::string::npos);
  const Error long_list(ErrorKind::failed, std::string(1 << 20, 'x'));
  EXPECT_LT(long_list.message().size(), 20'000U);
}

}  // namespace
}  // namespace tessera::test::text_test
