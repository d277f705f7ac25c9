// The problem that a part's header names: one line, whose number of images is left open.
#pragma once

#include <cstdint>
#include <string>

#include "files/part_file.h"
#include "problem/geometry.h"

namespace convgrad::cli {

// As Problem::ToLine, with '*' for the batch.
std::string LineOfAnyBatch(const Problem& problem);

// The header's problem for so many images. Throws data "part/header" for a line that is none, and
// for sums or results that are not of that problem.
Problem ProblemOfPart(const std::string& name, const PartHeader& header, int64_t images);

}  // namespace convgrad::cli
