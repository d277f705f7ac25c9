#include "files/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "tensor/npy_header.h"

namespace convgrad {
namespace {

constexpr const char* kRewrite = "write the file again";
constexpr std::string_view kMetadata = "__metadata__";

struct StoredType {
  std::string_view name;
  int bits;
  std::optional<DType> dtype;  // none: not computed with
};

constexpr StoredType kStoredTypes[] = {
    {"F16", 16, DType::kFloat16}, {"BF16", 16, DType::kBFloat16}, {"F32", 32, DType::kFloat32},
    {"F64", 64, DType::kFloat64}, {"I32", 32, DType::kInt32},     {"I64", 64, DType::kInt64},
    {"BOOL", 8, std::nullopt},    {"F4", 4, std::nullopt},        {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt}, {"U8", 8, std::nullopt},        {"I8", 8, std::nullopt},
    {"F8_E5M2", 8, std::nullopt}, {"F8_E4M3", 8, std::nullopt},   {"F8_E8M0", 8, std::nullopt},
    {"I16", 16, std::nullopt},    {"U16", 16, std::nullopt},      {"U32", 32, std::nullopt},
    {"U64", 64, std::nullopt},    {"C64", 64, std::nullopt},
};

const StoredType* FindStoredType(std::string_view name) {
  const auto* row = std::find_if(std::begin(kStoredTypes), std::end(kStoredTypes),
                                 [&](const StoredType& type) { return type.name == name; });
  return row == std::end(kStoredTypes) ? nullptr : row;
}

const char* NameOf(DType dtype, BFloat16Form bfloat16_as) {
  if (dtype == DType::kBFloat16 && bfloat16_as == BFloat16Form::kU2) return "U16";
  if (dtype == DType::kBFloat16 && bfloat16_as == BFloat16Form::kF4) dtype = DType::kFloat32;
  for (const StoredType& type : kStoredTypes) {
    if (type.dtype == dtype) return type.name.data();
  }
  ThrowInternal("a type without a name");
}

// Takes the parser's events one by one: nothing of the header is kept but the entries.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(const std::string& label) : label_(label) {}

  std::vector<SafetensorsEntry> Take() { return std::move(entries_); }

  bool null() override { return Refuse("null"); }
  bool boolean(bool) override { return Refuse("true or false"); }
  bool number_integer(number_integer_t) override { return Refuse("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return Refuse("a number that is not whole, or too large");
  }
  bool binary(binary_t&) override { return Refuse("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kShape && place_ != Place::kOffsets) return Refuse("a number");
    if (value > static_cast<number_unsigned_t>(std::numeric_limits<int64_t>::max())) {
      return Refuse("a number beyond 63 bits");
    }
    const auto number = static_cast<int64_t>(value);
    if (place_ == Place::kShape) {
      entries_.back().shape.push_back(number);
    } else {
      offsets_.push_back(number);
    }
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kStrings && has_key_) {
      has_key_ = false;
      return true;
    }
    if (place_ != Place::kEntry || key_ != "dtype") return Refuse("a string");
    entries_.back().dtype = value;
    key_.clear();
    return true;
  }

  bool key(string_t& value) override {
    switch (place_) {
      case Place::kFile: return BeginEntry(value);
      case Place::kEntry: return TakeKey(value);
      case Place::kStrings: has_key_ = true; return true;
      default: return Refuse("a key");
    }
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kFile;
    } else if (place_ == Place::kFile) {
      place_ = is_metadata_ ? Place::kStrings : Place::kEntry;
    } else {
      return Refuse("an object");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kEntry) EndEntry();
    place_ = place_ == Place::kFile ? Place::kStart : Place::kFile;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::kEntry && key_ == "shape") {
      place_ = Place::kShape;
    } else if (place_ == Place::kEntry && key_ == "data_offsets") {
      place_ = Place::kOffsets;
    } else {
      return Refuse("an array");
    }
    return true;
  }

  bool end_array() override {
    place_ = Place::kEntry;
    key_.clear();
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    Fail(fmt::format("it is no JSON, or of other form than a list of tensors, at byte {}",
                     kSafetensorsLengthBytes + static_cast<int64_t>(position)));
  }

 private:
  enum class Place { kStart, kFile, kStrings, kEntry, kShape, kOffsets };

  [[noreturn]] void Fail(const std::string& why) const {
    ThrowData("safetensors/header", label_, "safetensors/header: " + why, kRewrite);
  }
  [[noreturn]] bool Refuse(const std::string& what) const {
    Fail(entries_.empty() ? fmt::format("{} where none may be", what)
                          : fmt::format("{} where none may be, at {}", what, Quoted()));
  }
  std::string Quoted() const { return QuoteForMessage(entries_.back().name); }

  bool BeginEntry(const std::string& name) {
    is_metadata_ = name == kMetadata;
    if (is_metadata_) return true;
    entries_.emplace_back().name = name;
    seen_.clear();
    offsets_.clear();
    return true;
  }

  bool TakeKey(const std::string& key) {
    constexpr std::string_view kKeys[] = {"dtype", "shape", "data_offsets"};
    if (std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys)) {
      Fail(fmt::format("{} has the unknown key {}", Quoted(), QuoteForMessage(key)));
    }
    if (std::find(seen_.begin(), seen_.end(), key) != seen_.end()) {
      Fail(fmt::format("{} has the key '{}' twice", Quoted(), key));
    }
    seen_.push_back(key);
    key_ = key;
    return true;
  }

  void EndEntry() {
    constexpr size_t kKeys = 3;
    if (seen_.size() != kKeys || offsets_.size() != 2) {
      Fail(fmt::format("{} does not have dtype, shape and two data_offsets", Quoted()));
    }
    entries_.back().begin = offsets_[0];
    entries_.back().end = offsets_[1];
  }

  const std::string& label_;
  std::vector<SafetensorsEntry> entries_;
  Place place_ = Place::kStart;
  bool is_metadata_ = false, has_key_ = false;
  std::string key_;                // of the entry, whose value comes next
  std::vector<std::string> seen_;  // keys of the entry
  std::vector<int64_t> offsets_;
};

void CheckNamesDiffer(const std::string& label, const std::vector<SafetensorsEntry>& entries) {
  std::vector<std::string_view> names;
  for (const SafetensorsEntry& entry : entries) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return;
  ThrowData("safetensors/duplicate-name", label,
            fmt::format("it has two tensors {}", QuoteForMessage(*twice)), kRewrite);
}

[[noreturn]] void ThrowOffsets(const std::string& label, const SafetensorsEntry& entry,
                               const std::string& why) {
  ThrowData("safetensors/offsets", label,
            fmt::format("safetensors/offsets: {}, bytes {} to {} of the data, {}",
                        QuoteForMessage(entry.name), entry.begin, entry.end, why),
            kRewrite);
}

// Against its shape and type, if that is one the format has.
void CheckSize(const std::string& label, const SafetensorsEntry& entry, int64_t data_bytes) {
  if (entry.begin > entry.end) ThrowOffsets(label, entry, "ends before it begins");
  if (entry.end > data_bytes) {
    ThrowOffsets(label, entry, fmt::format("lies outside of them: there are {}", data_bytes));
  }
  const StoredType* type = FindStoredType(entry.dtype);
  const std::optional<int64_t> elements = CheckedProduct(entry.shape);
  const std::optional<int64_t> bits =
      elements ? CheckedMul(*elements, type ? type->bits : 1) : std::nullopt;
  if (!bits) ThrowOffsets(label, entry, "has a shape whose size does not fit 63 bits");
  if (type == nullptr || CeilDiv(*bits, 8) == entry.end - entry.begin) return;
  ThrowOffsets(label, entry,
               fmt::format("is {} {}, which takes {}", entry.dtype, ToString(entry.shape),
                           CeilDiv(*bits, 8)));
}

void CheckNoGaps(const std::string& label, const std::vector<SafetensorsEntry>& entries,
                 int64_t data_bytes, const NpyReadOptions& options) {
  std::vector<const SafetensorsEntry*> sorted;
  for (const SafetensorsEntry& entry : entries) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  int64_t end = 0;
  for (const SafetensorsEntry* entry : sorted) {
    if (entry->begin < end) ThrowOffsets(label, *entry, "overlaps another tensor");
    if (entry->begin > end) {
      ThrowOffsets(label, *entry, fmt::format("leaves a gap: the one before ends at {}", end));
    }
    end = entry->end;
  }
  if (end == data_bytes || options.allow_trailing) return;
  ThrowData("safetensors/offsets", label,
            fmt::format("safetensors/offsets: {} bytes follow the last tensor", data_bytes - end),
            "if that is meant, give --allow-trailing");
}

}  // namespace

std::vector<SafetensorsEntry> ParseSafetensorsHeader(const std::string& label,
                                                     std::string_view text, int64_t data_bytes,
                                                     const NpyReadOptions& options) {
  HeaderReader reader(label);
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  std::vector<SafetensorsEntry> entries = reader.Take();
  CheckNamesDiffer(label, entries);
  for (const SafetensorsEntry& entry : entries) CheckSize(label, entry, data_bytes);
  CheckNoGaps(label, entries, data_bytes, options);
  return entries;
}

DType ReadableType(const std::string& label, const SafetensorsEntry& entry,
                   const NpyReadOptions& options) {
  const StoredType* type = FindStoredType(entry.dtype);
  if (type != nullptr && type->dtype) return *type->dtype;
  const std::string why =
      "safetensors/dtype: it holds " + EscapeControls(entry.dtype.substr(0, 40));
  if (entry.dtype != "U16" && entry.dtype != "I16") {
    ThrowData("safetensors/dtype", label, why,
              "use F16, BF16, F32 or F64 elements (I32 or I64 for sizes)");
  }
  const bool is_said = options.view_as == DType::kFloat16 || options.view_as == DType::kBFloat16;
  if (is_said) return *options.view_as;
  ThrowData("safetensors/dtype", label, why,
            "say what they are: --dtype bfloat16 or --dtype float16");
}

std::string SafetensorsHeaderBytes(const std::string& name, DType dtype, const Shape& shape,
                                   BFloat16Form bfloat16_as) {
  constexpr size_t kDataAlignment = 64;
  const char* const stored = NameOf(dtype, bfloat16_as);
  const int64_t bytes = FindStoredType(stored)->bits / 8 * CheckedProduct(shape).value();
  nlohmann::ordered_json entry;
  entry["dtype"] = stored;
  entry["shape"] = shape;
  entry["data_offsets"] = {int64_t{0}, bytes};
  nlohmann::ordered_json header;
  header[name] = std::move(entry);
  std::string text = header.dump();
  const size_t unpadded = kSafetensorsLengthBytes + text.size();
  text.append((kDataAlignment - unpadded % kDataAlignment) % kDataAlignment, ' ');
  const uint64_t length = text.size();
  std::string start(kSafetensorsLengthBytes, '\0');
  std::memcpy(start.data(), &length, sizeof(length));
  return start + text;
}

void CheckSafetensorsName(const std::string& name) {
  const auto refuse = [&](const char* why) {
    ThrowUsage("output/name", fmt::format("tensor '{}'", name.substr(0, 100)), why,
               "name it otherwise");
  };
  if (name.empty()) refuse("the name is empty");
  if (name == kMetadata) refuse("the format keeps this name for itself");
  try {
    nlohmann::json(name).dump();
  } catch (const nlohmann::json::exception&) {
    refuse("the name is not UTF-8");
  }
}

}  // namespace convgrad
