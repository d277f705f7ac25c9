#include "cli/manifest/selection.h"

#include <fnmatch.h>

#include <algorithm>

namespace convgrad::cli {
namespace {

std::vector<std::string> SplitAtCommas(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

Selection::Selection(const FlagValues& flags) : glob_(flags.Get(FlagId::kMatch, "")) {
  if (const std::string* tags = flags.Find(FlagId::kTag)) tags_ = SplitAtCommas(*tags);
}

bool Selection::Takes(const ManifestCase& one) const {
  const auto has = [&one](const std::string& tag) {
    return std::find(one.tags.begin(), one.tags.end(), tag) != one.tags.end();
  };
  if (!std::all_of(tags_.begin(), tags_.end(), has)) return false;
  return glob_.empty() || fnmatch(glob_.c_str(), one.name().c_str(), 0) == 0;
}

}  // namespace convgrad::cli
