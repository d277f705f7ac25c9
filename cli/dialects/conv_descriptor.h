// A problem as oneDNN writes it in verbose lines and benchdnn reads it:
// "g2mb4_ic16oc32_ih15oh8kh3sh2ph1", each number behind its name, in any order.
#pragma once

#include <string_view>

#include "cli/dialects/logged_conv.h"

namespace convgrad::cli {

// True if a word begins as a descriptor does.
bool LooksLikeDescriptor(std::string_view word);

// Sets the sizes of a convolution. What is left out follows benchdnn's rules: two images, one
// group, strides of 1, dense filters; without a width the image and the filter are square (without
// a height they are of height one), without an output its size follows from the pads, without pads
// they follow from the output. Throws Refusal.
LoggedConv ParseDescriptor(std::string_view text);

// The text that ParseDescriptor reads back, every number written.
std::string WriteDescriptor(const Problem& problem);

}  // namespace convgrad::cli
