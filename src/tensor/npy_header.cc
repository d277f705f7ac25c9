#include "tensor/npy_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>

#include "base/checked.h"
#include "tensor/npy_descr.h"
#include "tensor/npy_literal.h"
#include "tensor/tensor.h"

namespace convgrad {
namespace {

constexpr std::array<std::string_view, 3> kKeys = {"descr", "fortran_order", "shape"};
enum Key { kDescr, kFortranOrder, kShape };

constexpr const char* kRewrite = "write the file again with numpy.save";

// The text of one key's value.
struct Value {
  bool present = false;
  Token first;            // its first, often only, token
  std::string_view text;  // all of it
  int64_t at = 0;         // in the header's text
};

class HeaderParser {
 public:
  HeaderParser(std::string_view text, const NpyHeaderSource& source)
      : text_(text), source_(source) {}

  NpyHeader Parse(const NpyReadOptions& options) {
    CheckCharacters();
    try {
      ParseDictionary();
      CheckKeysComplete();
      NpyHeader header;
      header.major = source_.major;
      header.data_offset = source_.text_offset + static_cast<int64_t>(text_.size());
      SetType(header, options);
      SetFortranOrder(header);
      SetShape(header);
      return header;
    } catch (const LiteralSyntaxError& error) {
      FailSyntax(error.at, error.why);
    }
  }

 private:
  [[noreturn]] void Fail(const char* code, int64_t at, const std::string& why,
                         const std::string& fix = kRewrite) const {
    ThrowNpy(source_.name, code, source_.text_offset + at, why, fix);
  }
  [[noreturn]] void FailSyntax(int64_t at, const std::string& why) const {
    Fail("npy/header-syntax", at, fmt::format("the header is not a plain dictionary: {}", why));
  }

  void CheckCharacters() const;
  void ParseDictionary();
  Key ParseKey(const Token& token) const;
  void CheckKeysComplete() const;
  void SetType(NpyHeader& header, const NpyReadOptions& options) const;
  void SetFortranOrder(NpyHeader& header) const;
  void SetShape(NpyHeader& header) const;
  int64_t ParseDimension(const Token& token) const;
  void CheckTotal(const NpyHeader& header) const;
  LiteralLexer Lexer(int64_t start) const {
    return LiteralLexer(text_, /*allow_long_suffix=*/source_.major < 3, start);
  }

  std::string_view text_;
  const NpyHeaderSource& source_;
  std::array<Value, 3> values_;
};

// Bytes of the well-formed UTF-8 sequence at the start of `text`, 0 if it isn't one.
size_t Utf8SequenceBytes(std::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t bytes = lead >= 0xC2 && lead <= 0xDF   ? 2
                       : (lead & 0xF0) == 0xE0        ? 3
                       : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                      : 0;
  if (bytes == 0 || text.size() < bytes) return 0;
  for (size_t at = 1; at < bytes; ++at) {
    if ((byte(at) & 0xC0) != 0x80) return 0;
  }
  const unsigned second = byte(1);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool surrogate = lead == 0xED && second >= 0xA0;
  const bool beyond = lead == 0xF4 && second >= 0x90;
  return overlong || surrogate || beyond ? 0 : bytes;
}

void HeaderParser::CheckCharacters() const {
  if (source_.major == 3) {
    for (size_t at = 0; at < text_.size();) {
      const size_t bytes = Utf8SequenceBytes(text_.substr(at));
      if (bytes == 0) Fail("npy/header-encoding", at, "the header is not valid UTF-8");
      at += bytes;
    }
  }
  const size_t nul = text_.find('\0');
  if (nul != std::string_view::npos) FailSyntax(nul, "it contains a NUL byte");
}

void HeaderParser::ParseDictionary() {
  LiteralLexer lexer = Lexer(0);
  Token token = lexer.Next();
  if (!token.Is('{')) FailSyntax(token.at, "it does not start with '{'");
  token = lexer.Next();
  while (!token.Is('}')) {
    Value& value = values_[ParseKey(token)];
    token = lexer.Next();
    if (!token.Is(':')) FailSyntax(token.at, "':' is missing after a key");
    value.first = lexer.Next();
    token = SkipValue(lexer, value.first);
    value.present = true;
    value.at = value.first.at;
    value.text = text_.substr(value.at, token.at - value.at);
    if (token.Is(',')) {
      token = lexer.Next();
    } else if (!token.Is('}')) {
      FailSyntax(token.at, "',' or '}' is missing after a value");
    }
  }
  token = lexer.Next();
  if (token.kind != TokenKind::kEnd) FailSyntax(token.at, "something follows the dictionary");
}

Key HeaderParser::ParseKey(const Token& token) const {
  if (token.kind == TokenKind::kEnd || token.kind == TokenKind::kPunctuation) {
    FailSyntax(token.at, "a key is missing");
  }
  for (size_t key = 0; key < kKeys.size(); ++key) {
    if (token.kind != TokenKind::kString || token.text != kKeys[key]) continue;
    if (values_[key].present) {
      Fail("npy/header-keys", token.at, fmt::format("the key '{}' is there twice", kKeys[key]));
    }
    return static_cast<Key>(key);
  }
  Fail("npy/header-keys", token.at,
       fmt::format("{} is none of the keys {}", QuoteForMessage(token.text),
                   fmt::join(kKeys, ", ")));
}

void HeaderParser::CheckKeysComplete() const {
  std::vector<std::string_view> missing;
  for (size_t key = 0; key < kKeys.size(); ++key) {
    if (!values_[key].present) missing.push_back(kKeys[key]);
  }
  if (!missing.empty()) {
    Fail("npy/header-keys", 0, fmt::format("the header lacks {}", fmt::join(missing, ", ")));
  }
}

void HeaderParser::SetType(NpyHeader& header, const NpyReadOptions& options) const {
  const Value& value = values_[kDescr];
  const bool is_string = value.first.kind == TokenKind::kString;
  const DescrMeaning meaning = is_string ? InterpretDescr(value.first.text, options.view_as)
                                         : InterpretComposedDescr(value.text);
  const std::string shown =
      is_string ? QuoteForMessage(value.first.text) : QuoteForMessage(value.text);
  if (!meaning.error_code.empty()) {
    Fail(meaning.error_code.c_str(), value.at, fmt::format("descr {}: {}", shown, meaning.why),
         meaning.fix);
  }
  header.descr = value.first.text;
  header.dtype = meaning.dtype;
  header.swapped = meaning.swapped;
  if (!meaning.warning.empty()) {
    header.warnings.push_back(fmt::format("descr {}: {}", shown, meaning.warning));
  }
}

void HeaderParser::SetFortranOrder(NpyHeader& header) const {
  const Value& value = values_[kFortranOrder];
  const bool is_name = value.first.kind == TokenKind::kName;
  header.fortran_order = is_name && value.first.text == "True";
  if (header.fortran_order || (is_name && value.first.text == "False")) return;
  Fail("npy/fortran-order", value.at,
       fmt::format("fortran_order is {}, not True or False", QuoteForMessage(value.text)));
}

void HeaderParser::SetShape(NpyHeader& header) const {
  const Value& value = values_[kShape];
  LiteralLexer lexer = Lexer(value.at);
  const Token open = lexer.Next();
  if (!open.Is('(')) {
    Fail("npy/shape", value.at,
         fmt::format("shape {} is not a tuple", QuoteForMessage(value.text)));
  }
  bool long_suffix = false, comma_seen = false;
  for (Token token = lexer.Next(); !token.Is(')'); token = lexer.Next()) {
    if (token.Is(',')) {
      comma_seen = true;
      continue;
    }
    if (header.shape.size() == kMaxRank) {
      Fail("npy/rank", value.at, fmt::format("the shape has more than {} dimensions", kMaxRank));
    }
    header.shape.push_back(ParseDimension(token));
    long_suffix |= token.long_suffix;
  }
  if (header.shape.size() == 1 && !comma_seen) {
    Fail("npy/shape", value.at, "the shape is a number in brackets, not a tuple");
  }
  if (long_suffix) header.warnings.push_back("the shape has Python 2's suffix L");
  CheckTotal(header);
}

int64_t HeaderParser::ParseDimension(const Token& token) const {
  const std::string shown = QuoteForMessage(token.text);
  const bool known_name = token.text == "True" || token.text == "False" || token.text == "None";
  if (token.kind == TokenKind::kName && !known_name) {
    FailSyntax(token.at, fmt::format("{} is no literal", shown));
  }
  if (token.kind != TokenKind::kInteger || token.text[0] == '-') {
    Fail("npy/shape", token.at, fmt::format("dimension {} is not a whole number from 0", shown));
  }
  int64_t dimension = 0;
  const auto [end, error] =
      std::from_chars(token.text.data(), token.text.data() + token.text.size(), dimension);
  if (error != std::errc()) {
    Fail("npy/overflow", token.at, fmt::format("dimension {} does not fit 63 bits", shown));
  }
  return dimension;
}

void HeaderParser::CheckTotal(const NpyHeader& header) const {
  Shape factors = header.shape;
  factors.push_back(InfoOf(header.dtype).bytes);
  if (!CheckedProduct(factors)) {
    Fail("npy/overflow", values_[kShape].at, "the size of the array does not fit 63 bits");
  }
}

}  // namespace

std::string QuoteForMessage(std::string_view text) {
  constexpr size_t kShown = 40;
  std::string quoted = "'";
  for (const char c : text.substr(0, kShown)) {
    if (c >= 0x20 && c < 0x7F) {
      quoted += c;
    } else {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return quoted + (text.size() > kShown ? "...'" : "'");
}

void ThrowNpy(const std::string& name, const std::string& code, int64_t offset,
              const std::string& why, const std::string& fix) {
  ThrowData(code, name, fmt::format("{} at byte {}: {}", code, offset, why), fix);
}

NpyHeader ParseNpyHeader(std::string_view text, const NpyHeaderSource& source,
                         const NpyReadOptions& options) {
  return HeaderParser(text, source).Parse(options);
}

}  // namespace convgrad
