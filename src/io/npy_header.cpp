#include "io/npy_header.h"

#include <charconv>

#include "base/error.h"

namespace tessera::io {
namespace {

constexpr std::size_t kMaxRank = 64;  // numpy's own limit

// Reads the few Python literals that the format allows; anything else is an error.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  NpyHeader parse() {
    expect('{');
    while (!accept('}')) {
      parse_entry(text_literal());
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    check(at_ == text_.size(), "text after the closing brace");
    check(has_descr_ && has_order_ && has_shape_, "'descr', 'fortran_order' or 'shape' is missing");
    return header_;
  }

 private:
  static void check(bool condition, std::string_view problem) {
    require(condition, ErrorKind::invalid_argument, "malformed .npy header: {}", problem);
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }

  bool accept(char wanted) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  void expect(char wanted) {
    if (accept(wanted)) return;
    const std::string found = at_ < text_.size() ? fmt::format("'{}'", text_[at_]) : "its end";
    fail(ErrorKind::invalid_argument, "malformed .npy header: expected '{}', found {}", wanted, found);
  }

  std::string_view text_literal() {
    skip_space();
    check(at_ < text_.size() && (text_[at_] == '\'' || text_[at_] == '"'), "expected a string");
    const char quote = text_[at_++];
    const std::size_t end = text_.find(quote, at_);
    check(end != std::string_view::npos, "a string without an end");
    const std::string_view literal = text_.substr(at_, end - at_);
    at_ = end + 1;
    return literal;
  }

  void parse_entry(std::string_view key) {
    expect(':');
    bool* seen = key == "descr"           ? &has_descr_
                 : key == "fortran_order" ? &has_order_
                 : key == "shape"         ? &has_shape_
                                          : nullptr;
    if (seen == nullptr) fail(ErrorKind::invalid_argument, "malformed .npy header: unknown key '{}'", key);
    check(!*seen, "a key stands twice");
    *seen = true;
    if (seen == &has_descr_) return parse_descr();
    if (seen == &has_order_) return parse_order();
    parse_shape();
  }

  void parse_order() {
    skip_space();
    header_.fortran_order = text_.substr(at_).starts_with("True");
    check(header_.fortran_order || text_.substr(at_).starts_with("False"), "'fortran_order' is neither True nor False");
    at_ += header_.fortran_order ? 4 : 5;
  }

  void parse_shape() {
    expect('(');
    while (!accept(')')) {
      check(header_.shape.size() < kMaxRank, "more than 64 dimensions");
      header_.shape.push_back(dimension());
      if (accept(',')) continue;
      check(header_.shape.size() > 1, "'shape' is not a tuple");
      expect(')');
      break;
    }
  }

  std::int64_t dimension() {
    skip_space();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    check(error == std::errc(), "a dimension is not a 64-bit integer");
    require(value >= 0, ErrorKind::invalid_argument, "malformed .npy header: negative dimension {}", value);
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }

  void parse_descr() {
    skip_space();
    require(at_ < text_.size() && text_[at_] != '[', ErrorKind::unsupported,
            "structured .npy arrays are not supported; save each field as an array of its own");
    const std::string_view descr = text_literal();
    check(descr.size() >= 2, "'descr' is too short");
    require(descr[1] != 'O', ErrorKind::unsupported,
            "object arrays are refused: they hold pickled Python code; save numbers or strings");
    check(std::string_view("<>|").find(descr[0]) != std::string_view::npos, "'descr' does not begin with <, > or |");
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(descr.data() + 2, descr.data() + descr.size(), size);
    check(error == std::errc() && end == descr.data() + descr.size() && size >= 0 && size < (1 << 30),
          "the size in 'descr' is not a small number");
    header_.kind = descr[1];
    header_.item_bytes = descr[1] == 'U' ? 4 * size : size;
    header_.big_endian = descr[0] == '>';
    header_.dtype = dtype_of_descr(descr, size);
    const std::int64_t unit = header_.kind == 'c'                          ? size / 2
                              : header_.kind == 'U'                        ? 4
                              : header_.kind == 'S' || header_.kind == 'V' ? 1
                                                                           : size;
    check(descr[0] != '|' || unit == 1, "'descr' gives no byte order");
  }

  static DType dtype_of_descr(std::string_view descr, std::int64_t size) {
    struct Row {
      char kind;
      std::int64_t size;
      DType dtype;
    };
    static constexpr Row rows[] = {
        {'b', 1, DType::boolean},
        {'i', 1, DType::i8},
        {'i', 2, DType::i16},
        {'i', 4, DType::i32},
        {'i', 8, DType::i64},
        {'u', 1, DType::u8},
        {'u', 2, DType::u16},
        {'u', 4, DType::u32},
        {'u', 8, DType::u64},
        {'f', 2, DType::f16},
        {'f', 4, DType::f32},
        {'f', 8, DType::f64},
        {'c', 8, DType::c64},
        {'c', 16, DType::c128},
        // As ml_dtypes writes them (npy_raw.h); one of its types calls itself a float of one byte.
        {'V', 2, DType::bf16},
        {'V', 1, DType::u8},
        {'f', 1, DType::f8e5m2},
    };
    if (descr[1] == 'U' || descr[1] == 'S') return DType::string;
    for (const Row& row : rows) {
      if (row.kind == descr[1] && row.size == size) return row.dtype;
    }
    require(
        descr[1] != 'V', ErrorKind::unsupported,
        "the .npy element type '{}' is raw bytes without a meaning; of such types those of ml_dtypes are read, which "
        "have one or two bytes",
        descr);
    fail(ErrorKind::unsupported, "the .npy element type '{}' is not supported", descr);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  NpyHeader header_;
  bool has_descr_ = false, has_order_ = false, has_shape_ = false;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text) {
  return Parser(text).parse();
}

}  // namespace tessera::io
