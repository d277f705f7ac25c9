// A report as one page to look at in a browser: everything is in it, nothing is fetched.
#pragma once

#include <string>
#include <string_view>

#include "cli/page/page_data.h"

namespace convgrad::cli {

// The page's own parts as the folder has them; CMake puts them into the program.
struct PageParts {
  std::string_view html, style, script;
};
const PageParts& PartsOfPage();

// The page whole.
std::string RenderPage(const PageData& data);

}  // namespace convgrad::cli
