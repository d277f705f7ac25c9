#include "tensor/npy_descr.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "tensor/npy_literal.h"

namespace convgrad {
namespace {

constexpr const char* kSupported =
    "use float16, bfloat16, float32 or float64 elements (int32 or int64 for sizes)";

DescrMeaning Reject(std::string code, std::string why, std::string fix = kSupported) {
  DescrMeaning meaning;
  meaning.error_code = std::move(code);
  meaning.why = std::move(why);
  meaning.fix = std::move(fix);
  return meaning;
}

DescrMeaning RejectUnknown() {
  return Reject("npy/dtype", "it is not a type that NumPy writes");
}

// A descr in NumPy's usual form: "<f4" is byte order '<', kind 'f', 4 bytes.
struct PlainDescr {
  char order;  // '<', '>', '|', '=', or '\0'
  char kind;
  std::string_view digits;
};

std::optional<PlainDescr> SplitPlain(std::string_view descr) {
  PlainDescr plain = {};
  const bool has_order = !descr.empty() && std::string_view("<>|=").find(descr[0]) != descr.npos;
  if (has_order) plain.order = descr[0];
  const std::string_view rest = descr.substr(has_order ? 1 : 0);
  if (rest.empty()) return std::nullopt;
  plain.kind = rest[0];
  plain.digits = rest.substr(1);
  return plain;
}

// The element size that the digits give; none for anything but a plain decimal number.
std::optional<uint64_t> SizeOf(std::string_view digits) {
  if (digits.empty() || (digits.size() > 1 && digits[0] == '0')) return std::nullopt;
  uint64_t size = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
  if (end != digits.data() + digits.size()) return std::nullopt;
  return error == std::errc() ? std::optional(size) : std::nullopt;
}

// Types that NumPy can write and we have no use for.
bool IsForeign(char kind, uint64_t size) {
  switch (kind) {
    case 'b': return size == 1;
    case 'i':
    case 'u': return size == 1 || size == 2 || size == 4 || size == 8;
    case 'f': return size == 1 || size == 12 || size == 16;
    case 'g': return size == 2;
    case 'c': return size == 8 || size == 16 || size == 24 || size == 32;
    case 'S':
    case 'a':
    case 'U':
    case 'V': return true;
    default: return false;
  }
}

const char* ForeignHint(char kind, uint64_t size) {
  if (kind == 'g')
    return "the bfloat16 package wrote it: save array.view('<u2') and give --dtype bfloat16";
  if (kind == 'f' && size == 1)
    return "an 8-bit floating-point type: convert it to float16 or float32";
  return kSupported;
}

// Two bytes that NumPy can't name: bfloat16 as void, or an integer view of a 16-bit float.
DescrMeaning InterpretTwoBytes(const PlainDescr& plain, std::optional<DType> view_as) {
  if (plain.kind == 'V' && plain.order == '>') {
    return Reject("npy/dtype-ambiguous",
                  "a big-endian machine wrote 2-byte elements whose order NumPy does not keep",
                  "save them as little-endian float32");
  }
  if (!view_as) {
    return Reject("npy/dtype-ambiguous", "2-byte elements without a floating-point type",
                  "say what they are: --dtype bfloat16 or --dtype float16");
  }
  if (InfoOf(*view_as).bytes != 2) {
    return Reject("npy/dtype-ambiguous",
                  fmt::format("its 2-byte elements can't be {}", InfoOf(*view_as).name),
                  "say what they are: --dtype bfloat16 or --dtype float16");
  }
  DescrMeaning meaning;
  meaning.dtype = *view_as;
  meaning.swapped = plain.order == '>';
  return meaning;
}

std::optional<DType> NumericType(char kind, uint64_t size) {
  for (const DTypeInfo& info : AllDTypes()) {
    const std::string_view written = info.npy_descr;
    if (written[1] == kind && kind != 'V' && static_cast<uint64_t>(info.bytes) == size) {
      return info.dtype;
    }
  }
  return std::nullopt;
}

DescrMeaning InterpretNumeric(DType dtype, char order) {
  DescrMeaning meaning;
  meaning.dtype = dtype;
  meaning.swapped = order == '>';
  if (order != '<' && order != '>')
    meaning.warning = "no byte order is given; little-endian is assumed";
  return meaning;
}

DescrMeaning InterpretSized(const PlainDescr& plain, uint64_t size, std::optional<DType> view_as) {
  if (std::string_view("VSUa").find(plain.kind) != std::string_view::npos && size > INT32_MAX) {
    return Reject("npy/overflow", "the size of an element does not fit 31 bits");
  }
  if (size == 2 && std::string_view("Viu").find(plain.kind) != std::string_view::npos) {
    return InterpretTwoBytes(plain, view_as);
  }
  if (const std::optional<DType> dtype = NumericType(plain.kind, size)) {
    return InterpretNumeric(*dtype, plain.order);
  }
  if (!IsForeign(plain.kind, size)) return RejectUnknown();
  return Reject("npy/dtype-unsupported", "elements of this type can't be computed with",
                ForeignHint(plain.kind, size));
}

// "<f4,<f4", "3f4", "(3,)<f4": records and sub-arrays in NumPy's short form.
bool IsComposedString(std::string_view descr) {
  if (descr.empty()) return false;
  for (const char c : descr) {
    const bool is_word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!is_word && std::string_view("<>|=(), ").find(c) == std::string_view::npos) return false;
  }
  const bool starts_with_count = descr[0] == '(' || (descr[0] >= '0' && descr[0] <= '9');
  return starts_with_count || descr.find(',') != std::string_view::npos;
}

bool IsDate(const PlainDescr& plain) {
  if (plain.kind != 'M' && plain.kind != 'm') return false;
  return plain.digits == "8" || (plain.digits.starts_with("8[") && plain.digits.ends_with(']'));
}

DescrMeaning RejectComposed() {
  return Reject("npy/dtype-unsupported", "records and sub-arrays can't be computed with");
}

// The names of a record's fields, in order: each the first string of an inner tuple.
std::vector<std::string_view> FieldNames(std::string_view record) {
  std::vector<std::string_view> names;
  LiteralLexer lexer(record, true);
  int depth = 0;
  bool tuple_opened = false;
  for (Token token = lexer.Next(); token.kind != TokenKind::kEnd; token = lexer.Next()) {
    if (tuple_opened && depth == 2 && token.kind == TokenKind::kString) names.push_back(token.text);
    if (token.Is('(') || token.Is('[') || token.Is('{')) ++depth;
    if (token.Is(')') || token.Is(']') || token.Is('}')) --depth;
    tuple_opened = token.Is('(');
  }
  return names;
}

bool HasDuplicate(const std::vector<std::string_view>& names) {
  for (size_t at = 0; at < names.size(); ++at) {
    for (size_t other = 0; other < at; ++other) {
      if (names[at] == names[other] && !names[at].empty()) return true;
    }
  }
  return false;
}

bool HasNegative(std::string_view value) {
  LiteralLexer lexer(value, true);
  for (Token token = lexer.Next(); token.kind != TokenKind::kEnd; token = lexer.Next()) {
    if (token.kind == TokenKind::kInteger && token.text[0] == '-') return true;
  }
  return false;
}

}  // namespace

DescrMeaning InterpretDescr(std::string_view descr, std::optional<DType> view_as) {
  if (descr == "bfloat16") {  // written by hand where NumPy has no name for it
    DescrMeaning meaning;
    meaning.dtype = DType::kBFloat16;
    return meaning;
  }
  if (IsComposedString(descr)) return RejectComposed();
  const std::optional<PlainDescr> plain = SplitPlain(descr);
  if (!plain) return RejectUnknown();
  if (plain->kind == 'O' && (plain->digits.empty() || SizeOf(plain->digits))) {
    return Reject("npy/object", "Python objects would have to be unpickled, which is never done");
  }
  if (IsDate(*plain)) return Reject("npy/dtype-unsupported", "dates can't be computed with");
  const std::optional<uint64_t> size = SizeOf(plain->digits);
  return size ? InterpretSized(*plain, *size, view_as) : RejectUnknown();
}

DescrMeaning InterpretComposedDescr(std::string_view value) {
  const bool is_record = value.starts_with('[');
  const bool is_sub_array = value.starts_with('(');
  if (!is_record && !is_sub_array) return RejectUnknown();
  if (HasNegative(value)) return RejectUnknown();
  if (is_record && HasDuplicate(FieldNames(value))) return RejectUnknown();
  return RejectComposed();
}

}  // namespace convgrad
