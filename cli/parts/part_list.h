// Parts that are to be put together: what each says of itself, held against the others before
// anything large is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/case/images.h"
#include "files/part_file.h"
#include "problem/geometry.h"

namespace convgrad::cli {

// Images of a part, and where they stand among those of all parts.
struct PartRange {
  size_t part;   // in the list
  size_t range;  // in its header
  ImageRange images;
  int64_t at;  // images of other ranges before them
};

class PartList {
 public:
  // Reads the headers. Throws data "part/...": parts of other problems, types, precisions, batches
  // or operands, and images that two of them have.
  explicit PartList(const std::vector<std::string>& paths);

  const std::vector<std::string>& paths() const { return paths_; }
  const std::vector<PartHeader>& headers() const { return headers_; }
  // That of all images together.
  const Problem& problem() const { return *problem_; }
  bool AreSums() const { return headers_.front().sums.has_value(); }
  // In the order of images.
  const std::vector<PartRange>& ranges() const { return ranges_; }

  // Throws data "part/missing" or "part/beyond" unless the parts have just these images: those of
  // --images, else the batch, else, where it is not known, all up to the last.
  void CheckComplete(const std::optional<std::string>& images) const;

  // The header of all parts together; of sums without what follows from them.
  PartHeader Joined() const;

  // Reads a part again, and its data by `read`. Throws I/O "io/file-changed" if its header is not
  // what it was, data "part/hash".
  template <class Read>
  std::string ReadAgain(size_t part, const Read& read) const {
    PartReader reader(paths_[part]);
    CheckSame(part, reader);
    read(reader);
    return reader.Finish();
  }

 private:
  void CheckFits(size_t part) const;
  void OrderRanges();
  void CheckSame(size_t part, const PartReader& reader) const;

  std::vector<std::string> paths_;
  std::vector<PartHeader> headers_;
  std::optional<Problem> problem_;
  std::vector<PartRange> ranges_;
};

}  // namespace convgrad::cli
