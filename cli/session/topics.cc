#include "cli/session/topics.h"

#include "cli/session/reference_pages.h"
#include "cli/text/markdown.h"

namespace convgrad::cli {
namespace {

std::string ValuesSection(std::string_view title) {
  return std::string(SectionOf(kValuesPage, title));
}

constexpr Topic kTopics[] = {
    {"ops", "operations, their names, what they take and give", OperationSection},
    {"fills", "tensors that are made, not read: fill:SPEC", [] { return ValuesSection("Fills"); }},
    {"tolerances", "what --tolerance may say, and what is the default",
     [] { return ValuesSection("Tolerances"); }},
    {"verdicts", "PASSED, SUSPECT, FAILED and the others, with their exit codes",
     [] { return ValuesSection("Verdicts and statuses"); }},
    {"manifest", "the form of a manifest, and the keys of its cases",
     [] { return std::string(kManifestPage) + ManifestKeysPage(); }},
    {"exit-codes", "what the program returns", ExitCodeSection},
};

}  // namespace

std::span<const Topic> AllTopics() {
  return kTopics;
}

const Topic* FindTopic(std::string_view name) {
  for (const Topic& topic : kTopics) {
    if (name == topic.name) return &topic;
  }
  return nullptr;
}

}  // namespace convgrad::cli
