#include "files/part_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "tensor/foreign_format.h"
#include "tensor/tensor.h"

namespace convgrad {
namespace {

static_assert(std::endian::native == std::endian::little);

using Json = nlohmann::ordered_json;

constexpr std::string_view kMagic =
    "\x93"
    "CGPART\x01";
constexpr int64_t kLengthBytes = 8;
constexpr int64_t kHashBytes = 64;  // hexadecimal digits
constexpr int64_t kAlignedTo = 64;  // where the data begin
// Room for ten thousand ranges of images.
constexpr uint64_t kMostHeaderBytes = uint64_t{4} << 20;
constexpr int kMostDepth = 5;
// Wider sums no type has.
constexpr int kMostWords = 80;
constexpr const char* kAgain = "compute the part again";

[[noreturn]] void ThrowHeader(const std::string& name, const std::string& why) {
  ThrowData("part/header", name, why, kAgain);
}

Json HashesJson(const OperandHashes& hashes) {
  Json json = Json::object();
  for (const auto& [operand, hash] : hashes) json[operand] = hash;
  return json;
}

std::string HeaderText(const PartHeader& header) {
  Json images = Json::array();
  for (const PartImages& range : header.images) {
    images.push_back(
        {{"begin", range.begin}, {"end", range.end}, {"operands", HashesJson(range.operands)}});
  }
  Json json = {{"schema", kPartSchema},
               {"problem", header.problem},
               {"precision", header.precision},
               {"batch", nullptr},
               {"operands", HashesJson(header.operands)},
               {"images", images}};
  if (header.batch) json["batch"] = *header.batch;
  if (header.sums) {
    json["sums"] = {{"elements", header.sums->elements},
                    {"first_word", header.sums->first_word},
                    {"words", header.sums->words},
                    {"special", header.sums->special}};
  } else {
    json["result"] = {{"image_bytes", header.image_bytes}};
  }
  std::string text = json.dump();
  const auto before = static_cast<int64_t>(kMagic.size()) + kLengthBytes;
  const int64_t size = RoundUp(before + static_cast<int64_t>(text.size()) + 1, kAlignedTo) - before;
  text.resize(static_cast<size_t>(size - 1), ' ');
  return text + '\n';
}

// Takes a header's JSON apart.
class HeaderParser {
 public:
  HeaderParser(const std::string& name, const std::string& text) : name_(name) {
    // Deeper than any header: its memory would be many times the text's.
    const auto is_flat = [&](int depth, Json::parse_event_t, Json&) {
      if (depth > kMostDepth) ThrowHeader(name_, "its header is of another form");
      return true;
    };
    json_ = Json::parse(text, is_flat, /*allow_exceptions=*/false);
    if (!json_.is_object()) ThrowHeader(name_, "its header is no JSON");
  }

  PartHeader Parse() const {
    const std::string schema = Text(json_, "schema");
    if (schema != kPartSchema) {
      ThrowData("part/schema", name_,
                fmt::format("its schema is '{}', not {}", schema.substr(0, 100), kPartSchema),
                "read it with the program that wrote it");
    }
    PartHeader header;
    header.problem = Text(json_, "problem");
    header.precision = Text(json_, "precision");
    if (!At(json_, "batch").is_null()) header.batch = Number(json_, "batch", 1, kMaxDimension);
    header.operands = Hashes(json_);
    header.images = Images();
    if (header.batch && header.images.back().end > *header.batch) {
      ThrowHeader(name_, fmt::format("it has images beyond the {} of the batch", *header.batch));
    }
    json_.contains("sums") ? ParseSums(header) : ParseResult(header);
    return header;
  }

 private:
  const Json& At(const Json& object, const char* key) const {
    const auto found = object.find(key);
    if (found == object.end()) ThrowHeader(name_, fmt::format("its header has no '{}'", key));
    return *found;
  }
  std::string Text(const Json& object, const char* key) const {
    const Json& value = At(object, key);
    if (!value.is_string()) ThrowHeader(name_, fmt::format("'{}' is no string", key));
    return value.get<std::string>();
  }
  int64_t Number(const Json& object, const char* key, int64_t least, int64_t most) const {
    const Json& value = At(object, key);
    const bool is_large = value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX;
    const int64_t number =
        value.is_number_integer() && !is_large ? value.get<int64_t>() : least - 1;
    if (number >= least && number <= most) return number;
    ThrowHeader(name_, fmt::format("'{}' is no whole number from {} to {}", key, least, most));
  }
  OperandHashes Hashes(const Json& object) const {
    const Json& hashes = At(object, "operands");
    OperandHashes parsed;
    for (const auto& [operand, hash] : hashes.items()) {
      const std::string text = hash.is_string() ? hash.get<std::string>() : "";
      const bool is_hash = std::ssize(text) == kHashBytes &&
                           text.find_first_not_of("0123456789abcdef") == std::string::npos;
      if (!hashes.is_object() || !is_hash) ThrowHeader(name_, "an operand has no hash");
      parsed.emplace_back(operand, text);
    }
    return parsed;
  }
  std::vector<PartImages> Images() const {
    const Json& images = At(json_, "images");
    if (!images.is_array() || images.empty()) ThrowHeader(name_, "it has no images");
    std::vector<PartImages> parsed;
    for (const Json& range : images) {
      if (!range.is_object()) ThrowHeader(name_, "a range of images is no object");
      const int64_t least = parsed.empty() ? 0 : parsed.back().end;
      const int64_t begin = Number(range, "begin", least, kMaxDimension - 1);
      parsed.push_back({begin, Number(range, "end", begin + 1, kMaxDimension), Hashes(range)});
    }
    return parsed;
  }
  void ParseSums(PartHeader& header) const {
    const Json& json = At(json_, "sums");
    if (!json.is_object()) ThrowHeader(name_, "'sums' is no object");
    PartSums sums;
    sums.elements = Number(json, "elements", 0, kMaxElements);
    sums.first_word = static_cast<int>(Number(json, "first_word", -kMostWords, kMostWords));
    sums.words = static_cast<int>(Number(json, "words", 1, kMostWords));
    const Json& special = At(json, "special");
    if (!special.is_boolean()) ThrowHeader(name_, "'special' is neither true nor false");
    sums.special = special.get<bool>();
    header.sums = sums;
  }
  void ParseResult(PartHeader& header) const {
    const Json& json = At(json_, "result");
    if (!json.is_object()) ThrowHeader(name_, "'result' is no object");
    header.image_bytes = Number(json, "image_bytes", 0, kMaxElements * 8);
  }

  const std::string& name_;
  Json json_;
};

}  // namespace

int64_t PartHeader::num_images() const {
  int64_t count = 0;
  for (const PartImages& range : images) count += range.end - range.begin;
  return count;
}

std::optional<int64_t> PartHeader::DataBytes() const {
  if (!sums) return CheckedMul(num_images(), image_bytes);
  constexpr int64_t kWordBytes = sizeof(uint64_t);
  return CheckedMul(sums->elements, sums->words * kWordBytes + (sums->special ? 1 : 0));
}

int64_t PartFileBytes(const PartHeader& header) {
  return static_cast<int64_t>(kMagic.size()) + kLengthBytes + std::ssize(HeaderText(header)) +
         header.DataBytes().value() + kHashBytes;
}

PartWriter::PartWriter(OutputFile& file, const PartHeader& header)
    : file_(file), left_(header.DataBytes().value()) {
  file_.Reserve(PartFileBytes(header));
  std::string start(kMagic);
  const std::string text = HeaderText(header);
  const uint64_t length = text.size();
  if (length > kMostHeaderBytes) {
    ThrowUsage("part/ranges", file_.name(),
               fmt::format("{} ranges of images are more than a part's header holds",
                           header.images.size()),
               "put fewer together at once");
  }
  start.append(reinterpret_cast<const char*>(&length), sizeof(length));
  start += text;
  hasher_.Update(start.data(), std::ssize(start));
  file_.Write(start);
}

void PartWriter::Write(const void* from, int64_t bytes) {
  const auto* next = static_cast<const std::byte*>(from);
  for (int64_t done = 0; done < bytes; done += kPieceBytes) {
    RetryUnlessStopped();
    const int64_t piece = std::min(kPieceBytes, bytes - done);
    hasher_.Update(next + done, piece);
    file_.Write(next + done, piece);
  }
  left_ -= bytes;
}

std::string PartWriter::Finish() {
  if (left_ != 0) ThrowInternal("a part of other size than its header says");
  std::string hash = hasher_.Finish();
  file_.Write(hash);
  file_.Commit();
  return hash;
}

PartReader::PartReader(const std::string& path) : file_(InputFile::Open(path)) {
  if (!file_->size() && !file_->Peek(1).empty()) {
    ThrowIo("io/not-a-file", name(), "a part is read from a file, not from a pipe",
            "write it to a file first");
  }
  const auto magic_bytes = std::ssize(kMagic);
  const std::string_view start = file_->Peek(magic_bytes + kLengthBytes);
  if (start.empty()) ThrowData("part/truncated", name(), "the file is empty", kAgain);
  if (!start.starts_with(kMagic.substr(0, kMagic.size() - 1))) {
    const std::string foreign = ForeignFormatOf(file_->Peek(kForeignBytes));
    ThrowData("part/not-a-part", name(), "it is no part of a result",
              foreign.empty() ? "write one with run --partial" : foreign);
  }
  if (std::ssize(start) < magic_bytes + kLengthBytes) {
    ThrowData("part/truncated", name(), "the file ends inside its header", kAgain);
  }
  if (start[kMagic.size() - 1] != kMagic.back()) {
    ThrowData("part/schema", name(), "it has a version that this program does not know",
              "read it with the program that wrote it");
  }
  uint64_t length = 0;
  std::memcpy(&length, start.data() + magic_bytes, sizeof(length));
  if (length > kMostHeaderBytes) ThrowHeader(name(), "its header claims to be too long");
  ReadExactly(magic_bytes + kLengthBytes);
  const std::string text = ReadExactly(static_cast<int64_t>(length));
  header_ = HeaderParser(name(), text).Parse();
  const auto data_bytes = header_.DataBytes();
  const int64_t others = magic_bytes + kLengthBytes + static_cast<int64_t>(length) + kHashBytes;
  const auto bytes = data_bytes ? CheckedAdd(*data_bytes, others) : std::nullopt;
  if (!bytes || *file_->size() < *bytes) {
    ThrowData("part/truncated", name(),
              fmt::format("the file ends after {} bytes{}", *file_->size(),
                          bytes ? fmt::format(" of {}", *bytes) : ""),
              kAgain);
  }
  if (*file_->size() > *bytes) {
    ThrowData("part/trailing", name(),
              fmt::format("{} bytes follow the part", *file_->size() - *bytes), kAgain);
  }
}

std::string PartReader::ReadExactly(int64_t bytes) {
  // A header may claim more than there is, up to its limit.
  std::string text(static_cast<size_t>(std::min(bytes, *file_->size())), '\0');
  if (file_->Read(text.data(), std::ssize(text)) < bytes) {
    file_->CheckUnchanged();
    ThrowData("part/truncated", name(), "the file ends inside its header", kAgain);
  }
  hasher_.Update(text.data(), bytes);
  return text;
}

void PartReader::Read(void* into, int64_t bytes) {
  auto* next = static_cast<char*>(into);
  for (int64_t done = 0; done < bytes;) {
    RetryUnlessStopped();
    const int64_t wanted = std::min(kPieceBytes, bytes - done);
    const int64_t got = file_->Read(next + done, wanted);
    hasher_.Update(next + done, got);
    done += got;
    if (got == wanted) continue;
    file_->CheckUnchanged();
    ThrowData("part/truncated", name(), "the file ends inside its data", kAgain);
  }
}

std::string PartReader::Finish() {
  char digits[kHashBytes];
  const int64_t got = file_->Read(digits, kHashBytes);
  file_->CheckUnchanged();
  std::string hash = hasher_.Finish();
  if (std::string_view(digits, static_cast<size_t>(got)) == hash) return hash;
  ThrowData("part/hash", name(), "its bytes are not those that were written: the hash differs",
            kAgain);
}

}  // namespace convgrad
