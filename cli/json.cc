#include "cli/json.h"

namespace convgrad::cli {

Json ParseJson(std::string_view text) {
  return Json::parse(text);
}

Json TryParseJson(std::string_view text) {
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string DumpJson(const Json& json) {
  return json.dump();
}

std::string DumpJson(const Json& json, int indent) {
  return json.dump(indent) + "\n";
}

}  // namespace convgrad::cli
