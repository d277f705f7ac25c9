// Pages of the reference for a terminal. Knows the Markdown that those pages use: headings,
// paragraphs, lists, tables and code.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace convgrad::cli {

// `page` without its marks. Of a table, the first cell of each row stands in a column of its own.
std::string RenderMarkdown(std::string_view page, size_t width);

// From the heading "## TITLE" to the next of its level; empty where there is none.
std::string_view SectionOf(std::string_view page, std::string_view title);

}  // namespace convgrad::cli
