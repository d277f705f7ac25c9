#include "cli/text/json.h"

namespace convgrad::cli {
namespace {

// Says whether more brackets are open somewhere; of a text that is no JSON, anything.
bool IsTooDeep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (letter == '"') in_string = !in_string;
    if (in_string) {
      if (letter == '\\') ++i;
    } else if (letter == '[' || letter == '{') {
      if (++depth > kMaxJsonDepth) return true;
    } else if (letter == ']' || letter == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Json ParseJson(std::string_view text) {
  if (IsTooDeep(text)) {
    throw Json::parse_error::create(101, 0, "values are nested too deeply", nullptr);
  }
  return Json::parse(text);
}

Json TryParseJson(std::string_view text) {
  if (IsTooDeep(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string WhyOf(const Json::exception& exception) {
  // "[json.exception.parse_error.101] parse error at..."
  const std::string text = exception.what();
  const size_t end = text.find("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

std::string DumpJson(const Json& json) {
  return json.dump();
}

std::string DumpJson(const Json& json, int indent) {
  return json.dump(indent) + "\n";
}

}  // namespace convgrad::cli
