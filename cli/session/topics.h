// The topics that `help` explains beside commands, from the program's tables and from pages of
// docs/reference that are compiled into it.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace convgrad::cli {

struct Topic {
  const char* name;
  const char* summary;
  std::string (*page)();  // Markdown
};

std::span<const Topic> AllTopics();
// The topic of that name, or null.
const Topic* FindTopic(std::string_view name);

// docs/reference/values.md and docs/reference/manifest.md.
extern const char* const kValuesPage;
extern const char* const kManifestPage;

}  // namespace convgrad::cli
