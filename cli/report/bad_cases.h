// The cases of a batch that are not right, as people read them at its end: in the manifest's order,
// whatever order they finish in.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cli/console/console.h"

namespace convgrad::cli {

struct BadCase {
  int64_t index = 0;  // in the plan
  std::string status;
  std::string name;
  std::string why;     // one line
  std::string accept;  // how its result becomes the golden; empty unless it waits for review
  std::string repro;
  int64_t line = 0;  // in the manifest; 0: unknown
};

class BadCases {
 public:
  // In any order. Keeps the first of the plan.
  void Add(BadCase bad);

  int64_t count() const { return count_; }
  // A few lines for each case that was kept, and how many more there are; empty if none is bad.
  std::string Render(const Console& console) const;
  // The same as workflow commands of GitHub, which shows them at the manifest's lines.
  std::string GithubAnnotations(const std::string& manifest) const;

 private:
  std::string More() const;

  std::map<int64_t, BadCase> shown_;
  int64_t count_ = 0;
};

// Prints `text`, which tells of `bad`, where it is seen; on GitHub with annotations. `manifest` is
// the file that their lines are of; empty where it is not known.
void Show(Console& console, const BadCases& bad, const std::string& text,
          const std::string& manifest);

}  // namespace convgrad::cli
