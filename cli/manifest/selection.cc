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

Selection::Selection(const FlagValues& flags) {
  for (const FlagValues::Entry& entry : flags.entries()) {
    if (entry.id == FlagId::kMatch) globs_.push_back(entry.text);
  }
  if (const std::string* tags = flags.Find(FlagId::kTag)) tags_ = SplitAtCommas(*tags);
}

bool Selection::Takes(const ManifestCase& one) const {
  const auto has = [&one](const std::string& tag) {
    return std::find(one.tags.begin(), one.tags.end(), tag) != one.tags.end();
  };
  if (!std::all_of(tags_.begin(), tags_.end(), has)) return false;
  return globs_.empty() ||
         std::any_of(globs_.begin(), globs_.end(), [&one](const std::string& glob) {
           return fnmatch(glob.c_str(), one.name().c_str(), 0) == 0;
         });
}

}  // namespace convgrad::cli
