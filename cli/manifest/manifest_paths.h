// Where a manifest's paths lead: relative to the manifest, outputs beneath a root.
#pragma once

#include <optional>
#include <string>

#include "base/beneath.h"

namespace convgrad::cli {

struct ManifestPathOptions {
  std::optional<std::string> output_root;  // instead of the manifest's directory, for outputs
  bool allow_outside = false;              // outputs may lie anywhere
  bool records = false;                    // goldens are written
  std::optional<std::string> pending;      // where results are left beside goldens that fail
};

class ManifestPaths {
 public:
  // `manifest` may be "-": then the current directory stands for the manifest's. Throws I/O errors
  // of the root.
  ManifestPaths(const std::string& manifest, const ManifestPathOptions& options);

  // A path as the command line, started where this process was, would have it. Throws usage
  // "manifest/path" for an empty one, a too long one or one with a NUL.
  std::string ForReading(const std::string& given) const;

  // Throws usage "manifest/outside" for one that leaves the root too.
  std::string ForWriting(const std::string& given) const;

  // Where a golden is read from, so also where it is recorded: throws usage "manifest/outside" if
  // it is recorded and leaves the manifest's directory.
  std::string ForGolden(const std::string& given) const;

 private:
  std::string directory_;                      // of the manifest; empty: the current one
  std::string output_root_;                    // likewise
  std::optional<DirectoryTree> tree_;          // none: outputs may lie anywhere
  std::optional<DirectoryTree> goldens_tree_;  // none: goldens may
};

}  // namespace convgrad::cli
