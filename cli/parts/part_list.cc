#include "cli/parts/part_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "cli/parts/part_problem.h"
#include "problem/precision.h"

namespace convgrad::cli {
namespace {

const std::string* FindHash(const OperandHashes& hashes, std::string_view operand) {
  const auto found =
      std::ranges::find_if(hashes, [&](const auto& one) { return one.first == operand; });
  return found == hashes.end() ? nullptr : &found->second;
}

// The operand whose hashes differ, or that one has and the other has not; empty where there is
// none.
std::string OtherOperand(const OperandHashes& a, const OperandHashes& b) {
  for (const auto* hashes : {&a, &b}) {
    for (const auto& [operand, hash] : *hashes) {
      const std::string* first = FindHash(a, operand);
      const std::string* second = FindHash(b, operand);
      if (first == nullptr || second == nullptr || *first != *second) return operand;
    }
  }
  return "";
}

std::string BatchOf(const PartHeader& header) {
  return header.batch ? fmt::format("{} images", *header.batch) : "a number of images not known";
}

void CheckPrecision(const std::string& name, const PartHeader& header) {
  for (const Precision precision : kAllPrecisions) {
    const bool fits = !header.sums || precision == Precision::kExact;
    if (fits && header.precision == NameOf(precision)) return;
  }
  ThrowData("part/header", name, "it has no precision", "compute the part again");
}

}  // namespace

PartList::PartList(const std::vector<std::string>& paths) : paths_(paths) {
  int64_t images = 0;
  for (size_t part = 0; part < paths_.size(); ++part) {
    headers_.push_back(PartReader(paths_[part]).header());
    const PartHeader& header = headers_.back();
    ProblemOfPart(paths_[part], header, header.num_images());
    CheckPrecision(paths_[part], header);
    if (part > 0) CheckFits(part);
    images += header.num_images();
  }
  OrderRanges();
  problem_ = ProblemOfPart(paths_.front(), headers_.front(), images);
}

void PartList::CheckFits(size_t part) const {
  const PartHeader& first = headers_.front();
  const PartHeader& other = headers_[part];
  const auto refuse = [&](const char* code, const std::string& has, const std::string& wanted) {
    ThrowData(code, paths_[part], fmt::format("it is of {}, {} of {}", has, paths_.front(), wanted),
              "put parts of one result together");
  };
  if (other.problem != first.problem) {
    const DType mine = ProblemOfPart(paths_[part], other, 1).dtype;
    const DType theirs = ProblemOfPart(paths_.front(), first, 1).dtype;
    if (mine != theirs) refuse("part/other-type", InfoOf(mine).name, InfoOf(theirs).name);
    refuse("part/other-problem", other.problem, first.problem);
  }
  if (other.precision != first.precision) {
    refuse("part/other-precision", "precision " + other.precision, first.precision);
  }
  if (other.batch != first.batch) {
    refuse("part/other-batch", "a batch of " + BatchOf(other), BatchOf(first));
  }
  const std::string operand = OtherOperand(first.operands, other.operands);
  if (operand.empty()) return;
  ThrowData("part/other-operand", paths_[part],
            fmt::format("its {} is not that of {}", operand, paths_.front()),
            "compute both parts again from the same tensors");
}

void PartList::OrderRanges() {
  for (size_t part = 0; part < headers_.size(); ++part) {
    const std::vector<PartImages>& images = headers_[part].images;
    for (size_t range = 0; range < images.size(); ++range) {
      ranges_.push_back({part, range, {images[range].begin, images[range].end}, 0});
    }
  }
  std::ranges::stable_sort(ranges_, {}, [](const PartRange& range) { return range.images.begin; });
  for (size_t i = 1; i < ranges_.size(); ++i) {
    const PartRange& before = ranges_[i - 1];
    PartRange& after = ranges_[i];
    after.at = before.at + before.images.size();
    if (after.images.begin >= before.images.end) continue;
    const ImageRange both = {after.images.begin, std::min(before.images.end, after.images.end)};
    ThrowData("part/duplicate", paths_[after.part],
              fmt::format("it has images {}, and so has {}", NameOf(both), paths_[before.part]),
              "leave one of the parts out");
  }
}

void PartList::CheckComplete(const std::optional<std::string>& images) const {
  const std::optional<int64_t> batch = headers_.front().batch;
  ImageRange wanted = {0, batch.value_or(ranges_.back().images.end)};
  if (images) wanted = ParseImages(*images, batch);
  int64_t next = wanted.begin;
  std::string missing;
  const auto miss = [&](int64_t end) {
    if (next < end) missing += (missing.empty() ? "" : ", ") + NameOf(ImageRange{next, end});
  };
  for (const PartRange& range : ranges_) {
    if (range.images.begin < wanted.begin || range.images.end > wanted.end) {
      ThrowData("part/beyond", paths_[range.part],
                fmt::format("it has images {}, not all of them among {}", NameOf(range.images),
                            NameOf(wanted)),
                "leave the part out");
    }
    miss(range.images.begin);
    next = range.images.end;
  }
  miss(wanted.end);
  if (missing.empty()) return;
  constexpr size_t kShown = 200;
  if (missing.size() > kShown) missing = missing.substr(0, missing.rfind(',', kShown)) + ", ...";
  ThrowData("part/missing", "images " + missing, "no part has them",
            "compute them with run --images, or say with --images what there is");
}

PartHeader PartList::Joined() const {
  PartHeader joined = headers_.front();
  joined.images.clear();
  for (const PartRange& range : ranges_) {
    joined.images.push_back(headers_[range.part].images[range.range]);
  }
  return joined;
}

void PartList::CheckSame(size_t part, const PartReader& reader) const {
  if (reader.header() == headers_[part]) return;
  ThrowIo("io/file-changed", paths_[part], "it changed while it was read",
          "run again when nothing writes it");
}

}  // namespace convgrad::cli
