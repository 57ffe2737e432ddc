#include "ir/text_literal.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/numbers/half.h"

namespace tessera::ir {
namespace {

constexpr int kComplexParts = 2;

// --- real numbers, as the bits of their type ---

double decode_real(DType type, std::uint64_t bits) {
  switch (type) {
    case DType::f64:
      return std::bit_cast<double>(bits);
    case DType::f32:
      return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    case DType::f16:
      return static_cast<double>(base::to_float(f16_t{static_cast<std::uint16_t>(bits)}));
    case DType::bf16:
      return static_cast<double>(base::to_float(bf16_t{static_cast<std::uint16_t>(bits)}));
    default:
      return static_cast<double>(base::small_float_to_float(type, static_cast<std::uint8_t>(bits)));
  }
}

std::uint64_t encode_real(DType type, double value) {
  switch (type) {
    case DType::f64:
      return std::bit_cast<std::uint64_t>(value);
    case DType::f32:
      return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    case DType::f16:
      return base::to_f16(value).bits;
    case DType::bf16:
      return base::to_bf16(value).bits;
    // Numbers too large saturate; an infinity stays one where the format has it.
    default:
      return base::float_to_small_float(type, static_cast<float>(value), !std::isinf(value));
  }
}

std::uint64_t usual_nan(DType type) {
  return encode_real(type, std::numeric_limits<double>::quiet_NaN());
}

template <typename T>
std::string shortest(T value) {
  char buffer[64];
  const std::to_chars_result result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, result.ptr);
}

std::string format_real(DType type, std::uint64_t bits) {
  const double value = decode_real(type, bits);
  if (std::isnan(value)) return bits == usual_nan(type) ? "nan" : fmt::format("nan(0x{:x})", bits);
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return type == DType::f64 ? shortest(value) : shortest(static_cast<float>(value));
}

template <typename T>
T convert(Scanner& scanner, std::string_view number) {
  const std::string_view digits = number.starts_with('+') ? number.substr(1) : number;
  T value{};
  const std::from_chars_result result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (result.ec == std::errc::result_out_of_range) scanner.fail("the number {} is out of range", number);
  if (result.ec != std::errc{} || result.ptr != digits.data() + digits.size())
    scanner.fail("'{}' is not a number of the expected kind", number.substr(0, 40));
  return value;
}

std::uint64_t read_nan_bits(Scanner& scanner, DType type, std::string_view number) {
  std::uint64_t bits = 0;
  const std::string_view digits = number.size() > 7 && number.starts_with("nan(0x") && number.ends_with(')')
                                      ? number.substr(6, number.size() - 7)
                                      : "";
  const std::from_chars_result result = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
  if (digits.empty() || result.ec != std::errc{} || result.ptr != digits.data() + digits.size())
    scanner.fail("expected nan(0x…) with hexadecimal digits");
  const int width = bits_of(type);
  if ((width < 64 && (bits >> width) != 0) || !std::isnan(decode_real(type, bits)))
    scanner.fail("0x{:x} is not a NaN of {}", bits, name_of(type));
  return bits;
}

std::uint64_t read_real(Scanner& scanner, DType type, std::string_view number) {
  if (number.starts_with("nan(")) return read_nan_bits(scanner, type, number);
  if (number == "nan") {
    if (!std::isnan(decode_real(type, usual_nan(type)))) scanner.fail("{} has no NaN", name_of(type));
    return usual_nan(type);
  }
  if (number == "inf" || number == "-inf") {
    const double infinity =
        number == "inf" ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
    const std::uint64_t bits = encode_real(type, infinity);
    if (decode_real(type, bits) != infinity) scanner.fail("{} has no infinity", name_of(type));
    return bits;
  }
  if (type == DType::f32) return std::bit_cast<std::uint32_t>(convert<float>(scanner, number));
  return encode_real(type, convert<double>(scanner, number));
}

// --- elements of tensors ---

// Element i of the storage as raw bits; sub-byte elements are packed low bits first.
std::uint64_t bits_at(const Tensor& tensor, int width, std::int64_t i) {
  const auto* bytes = static_cast<const std::uint8_t*>(tensor.raw());
  if (width < 8) {
    const std::int64_t bit = i * width;
    return (static_cast<unsigned>(bytes[bit / 8]) >> (bit % 8)) & ((1U << width) - 1);
  }
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes + i * (width / 8), static_cast<std::size_t>(width / 8));  // little-endian hosts only
  return bits;
}

std::int64_t sign_extended(std::uint64_t bits, int width) {
  const int unused = 64 - width;
  return static_cast<std::int64_t>(bits << unused) >> unused;
}

std::string format_element(const Tensor& tensor, std::int64_t i) {
  const DType type = tensor.dtype();
  if (type == DType::string) return quoted(tensor.data<std::string>()[i]);
  if (is_complex(type)) {
    const DType part = type == DType::c64 ? DType::f32 : DType::f64;
    const int width = bits_of(part);
    return fmt::format("({}, {})", format_real(part, bits_at(tensor, width, 2 * i)),
                       format_real(part, bits_at(tensor, width, 2 * i + 1)));
  }
  const int width = bits_of(type);
  const std::uint64_t bits = bits_at(tensor, width, i);
  if (type == DType::boolean) return bits != 0 ? "true" : "false";
  if (is_float(type)) return format_real(type, bits);
  return is_signed_integer(type) ? std::to_string(sign_extended(bits, width)) : std::to_string(bits);
}

std::uint64_t read_integer_bits(Scanner& scanner, DType type, std::string_view number) {
  const int width = bits_of(type);
  if (is_signed_integer(type)) {
    const auto value = convert<std::int64_t>(scanner, number);
    if (sign_extended(static_cast<std::uint64_t>(value), width) != value)
      scanner.fail("{} does not fit into {}", number, name_of(type));
    return static_cast<std::uint64_t>(value);
  }
  const auto value = convert<std::uint64_t>(scanner, number);
  if (width < 64 && (value >> width) != 0) scanner.fail("{} does not fit into {}", number, name_of(type));
  return value;
}

// A buffer for elements as they are read: it grows with the text, whatever the shape claims.
class ElementBuffer {
 public:
  explicit ElementBuffer(DType type) : type_(type), width_(bits_of(type)) {}

  void read_one(Scanner& scanner) {
    ++count_;
    if (type_ == DType::string) return strings_.push_back(scanner.string("a string"));
    if (is_complex(type_)) return read_complex(scanner);
    if (type_ == DType::boolean) {
      const bool value = scanner.accept_word("true");
      if (!value && !scanner.accept_word("false")) scanner.fail_expected("true or false");
      return append(value ? 1 : 0, width_);
    }
    const std::string_view number = scanner.number();
    append(is_float(type_) ? read_real(scanner, type_, number) : read_integer_bits(scanner, type_, number), width_);
  }

  Tensor finish(Scanner& scanner, const Shape& shape) const {
    std::int64_t expected = 0;
    try {
      expected = byte_count(type_, shape) >= 0 ? element_count(shape) : 0;
    } catch (const Error& error) {
      scanner.fail("{}", error.message());
    }
    if (expected != count_)
      scanner.fail("a tensor of shape {} has {} elements, but {} are given", to_string(shape), expected, count_);
    Tensor tensor(type_, shape);
    if (type_ == DType::string) std::copy(strings_.begin(), strings_.end(), tensor.mutable_data<std::string>());
    else if (!bytes_.empty()) std::memcpy(tensor.mutable_raw(), bytes_.data(), bytes_.size());
    return tensor;
  }

 private:
  void read_complex(Scanner& scanner) {
    const DType part = type_ == DType::c64 ? DType::f32 : DType::f64;
    scanner.expect('(', "before a complex number");
    for (int i = 0; i < kComplexParts; ++i) {
      if (i > 0) scanner.expect(',', "between the parts of a complex number");
      append(read_real(scanner, part, scanner.number()), bits_of(part));
    }
    scanner.expect(')', "after a complex number");
  }

  void append(std::uint64_t bits, int width) {
    if (width < 8) {
      const int shift = static_cast<int>((count_ - 1) * width % 8);
      if (shift == 0) bytes_.push_back(0);
      bytes_.back() = static_cast<std::uint8_t>(bytes_.back() | ((bits & ((1U << width) - 1)) << shift));
      return;
    }
    for (int byte = 0; byte < width / 8; ++byte) bytes_.push_back(static_cast<std::uint8_t>(bits >> (8 * byte)));
  }

  DType type_;
  int width_;
  std::int64_t count_ = 0;
  std::vector<std::uint8_t> bytes_;
  std::vector<std::string> strings_;
};

// --- types ---

std::string format_dim(const Dim& dim) {
  if (dim.is_symbol()) return is_plain_dim_name(dim.name()) ? dim.name() : quoted(dim.name());
  return to_string(dim);
}

Dim read_dim(Scanner& scanner) {
  if (scanner.accept('?')) return {};
  const char next = scanner.peek();
  if (next == '"') {
    const std::string name = scanner.string("a dimension");
    if (name.empty()) scanner.fail("a dimension has an empty name");
    return Dim::symbol(name);
  }
  if (next == '-' || (next >= '0' && next <= '9')) {
    const std::int64_t size = read_integer(scanner, scanner.number());
    if (size < 0) scanner.fail("negative dimension {}", size);
    return size;
  }
  return Dim::symbol(std::string(scanner.word("a dimension")));
}

template <typename ReadOne>
void read_dims(Scanner& scanner, const ReadOne& read_one) {
  if (scanner.accept(']')) return;
  do {
    read_one();
  } while (scanner.accept(','));
  scanner.expect(']', "after dimensions");
}

}  // namespace

std::string format_real_attribute(float value) {
  std::string text = format_real(DType::f32, std::bit_cast<std::uint32_t>(value));
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

float read_real_attribute(Scanner& scanner, std::string_view number) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(read_real(scanner, DType::f32, number)));
}

std::int64_t read_integer(Scanner& scanner, std::string_view number) {
  return convert<std::int64_t>(scanner, number);
}

DType read_dtype(Scanner& scanner) {
  const std::string_view name = scanner.peek_word();
  const std::optional<DType> type = name == "undefined" ? DType::undefined : dtype_from_name(name);
  if (name.empty() || !type) scanner.fail_expected("a type");
  scanner.word("a type");
  return *type;
}

std::string format_type(const ValueType& type) {
  const std::string element = type.element ? format_type(*type.element) : "?";
  switch (type.kind) {
    case ValueType::Kind::tensor:
      break;
    case ValueType::Kind::sequence:
      return "seq(" + element + ")";
    case ValueType::Kind::optional:
      return "optional(" + element + ")";
    case ValueType::Kind::map:
      return fmt::format("map({}, {})", name_of(type.dtype), element);
  }
  std::string text(name_of(type.dtype));
  if (!type.dims) return text + "[*]";
  text += '[';
  for (std::size_t i = 0; i < type.dims->size(); ++i) text += (i > 0 ? ", " : "") + format_dim((*type.dims)[i]);
  return text + ']';
}

ValueType read_type(Scanner& scanner, int depth) {
  if (depth > kMaxTextDepth) scanner.fail("types are nested deeper than {}", kMaxTextDepth);
  auto element = [&] {
    ValueType type = read_type(scanner, depth + 1);
    scanner.expect(')', "after an element type");
    return type;
  };
  if (scanner.accept_text("seq(")) return ValueType::sequence(element());
  if (scanner.accept_text("optional(")) return ValueType::optional(element());
  if (scanner.accept_text("map(")) {
    const DType key = read_dtype(scanner);
    scanner.expect(',', "after the key type of a map");
    return ValueType::map(key, element());
  }
  const DType dtype = read_dtype(scanner);
  scanner.expect('[', "before dimensions");
  if (scanner.accept('*')) {
    scanner.expect(']', "after an unknown rank");
    return ValueType::tensor(dtype);
  }
  Dims dims;
  read_dims(scanner, [&] { dims.push_back(read_dim(scanner)); });
  return ValueType::tensor(dtype, std::move(dims));
}

std::string format_tensor(const Tensor& tensor, std::optional<std::int64_t> max_elements) {
  if (!tensor.has_value()) return "none";
  std::string text = fmt::format("{}{} {{", name_of(tensor.dtype()), to_string(tensor.shape()));
  const std::int64_t shown = max_elements ? std::min(*max_elements, tensor.elements()) : tensor.elements();
  for (std::int64_t i = 0; i < shown; ++i) {
    if (i > 0) text += ", ";
    text += format_element(tensor, i);
  }
  if (shown < tensor.elements()) text += shown > 0 ? ", ..." : "...";
  return text + '}';
}

Tensor read_tensor(Scanner& scanner) {
  if (scanner.accept_word("none")) return {};
  const DType type = read_dtype(scanner);
  if (type == DType::undefined) scanner.fail("a tensor needs an element type");
  scanner.expect('[', "before dimensions");
  Shape shape;
  read_dims(scanner, [&] {
    shape.push_back(read_integer(scanner, scanner.number()));
    if (shape.back() < 0) scanner.fail("negative dimension {}", shape.back());
  });
  scanner.expect('{', "before elements");
  ElementBuffer elements(type);
  if (!scanner.accept('}')) {
    do {
      if (scanner.accept_text("...")) scanner.fail("elements were left out when this was printed");
      elements.read_one(scanner);
    } while (scanner.accept(','));
    scanner.expect('}', "after elements");
  }
  return elements.finish(scanner, shape);
}

}  // namespace tessera::ir
