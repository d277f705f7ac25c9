// The images of a case's batch, alone or in smaller batches: --images, --invariance and
// --actual-parts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/case/case.h"
#include "files/tensor_file.h"
#include "verify/probe/invariance.h"

namespace convgrad::cli {

// Images [begin, end) of a batch.
struct ImageRange {
  int64_t begin = 0, end = 0;

  int64_t size() const { return end - begin; }
};

// One of several parts of a case, which processes of a batch compute each.
struct PartOfCase {
  int64_t number = 1, count = 1;
  ImageRange images;
};

// Those that --images says, "A:B" (either may be left out) or "I/N", of a batch of so many; none
// known: as many as the text says. Throws usage "images/syntax", "images/range".
ImageRange ParseImages(const std::string& text, std::optional<int64_t> batch);

// The I-th of N parts as equal as can be.
ImageRange ImagesOfPart(int64_t batch, int64_t index, int64_t count);

// "0:64".
std::string NameOf(const ImageRange& range);

// These images of a tensor, in its place.
Tensor ImagesOf(const Tensor& tensor, const ImageRange& range);

// Says whether one of the flags is given; throws usage where the operation has no images to part,
// or someone's results lack their parts.
bool ParseInvariance(const FlagValues& flags, const OpInfo& op);

// The files of --actual-parts.
std::vector<std::string> ParseActualParts(const FlagValues& flags);

// These files, read.
std::vector<StoredTensor> ReadParts(const CaseSpec& spec, const NpyReadOptions& options);

// The verdict on them beside `whole`, someone's result of the batch; throws I/O if one has changed
// since it was read.
CheckResult CompareParts(const Problem& problem, const Tensor& whole,
                         std::span<const std::string> names, std::span<const StoredTensor> files,
                         const Parallel& parallel);

}  // namespace convgrad::cli
