// The pages of docs/reference that follow from tables: commands, flags, exit codes, the keys of a
// manifest's cases, operations, types, algorithms. scripts/make-reference writes them to files.
#pragma once

#include <string>

namespace convgrad::cli {

// Parts of them: a section, which begins with a heading of the second level, or a page.
std::string OperationSection();
std::string ExitCodeSection();
std::string ManifestKeysPage();

// All of them as Markdown, one after the other; each begins with a heading of the first level.
std::string ReferencePages();

}  // namespace convgrad::cli
