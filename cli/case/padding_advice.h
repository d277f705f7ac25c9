// Words for a case that names no padding, which has no default: frameworks differ in theirs.
#pragma once

#include "cli/case/case.h"

namespace convgrad::cli {

// Usage "padding/missing", which says whether SAME and VALID fit the shapes of `spec`, whose
// padding doesn't count. Reads the headers of its operands, but nothing from standard input.
Error MissingPaddingError(const FlagValues& flags, const CaseSpec& spec);

}  // namespace convgrad::cli
