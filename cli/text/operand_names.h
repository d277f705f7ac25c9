// Guesses by a file's name which operand it holds. Only ever a hint in an error's text.
#pragma once

#include <optional>
#include <string>

#include "problem/op.h"

namespace convgrad::cli {

// The operand that the path's last part names: "conv1_weights.npy" and "layer.npz:conv1_weights"
// the filter, "x.npy" the input, "dy.npy" out_backprop; none where it names no operand or several.
std::optional<Role> RoleInName(const std::string& text);

}  // namespace convgrad::cli
