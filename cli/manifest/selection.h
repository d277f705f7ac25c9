// Which cases of a manifest a command works on.
#pragma once

#include <string>
#include <vector>

#include "cli/manifest/manifest.h"
#include "cli/options/flag_values.h"

namespace convgrad::cli {

// --match and --tag.
class Selection {
 public:
  explicit Selection(const FlagValues& flags);

  bool Takes(const ManifestCase& one) const;

 private:
  std::vector<std::string> globs_;  // of names, one of which has to match; none: any name
  std::vector<std::string> tags_;   // all of them
};

}  // namespace convgrad::cli
