#include "cli/parts/reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/resources.h"

namespace convgrad::cli {
namespace {

// Elements that a thread takes at a time.
constexpr int64_t kPiece = 1 << 12;

void CheckLimit(int64_t bytes, int64_t max_bytes, const char* what) {
  if (bytes <= max_bytes) return;
  ThrowIo("memory/limit", "memory",
          fmt::format("{} of all parts take {}, the limit is {}", what, FormatExactBytes(bytes),
                      FormatExactBytes(max_bytes)),
          "raise --max-memory");
}

WordWindow WindowOf(const PartSums& sums) {
  return {sums.first_word, sums.words};
}

// That of any sum of all parts': a bit more for each time that their number doubles.
WordWindow WindowOf(const PartList& parts) {
  WordWindow window = WindowOf(*parts.headers().front().sums);
  for (const PartHeader& header : parts.headers()) window = window.With(WindowOf(*header.sums));
  if (parts.headers().size() > 1) ++window.count;
  return window;
}

// `visit(element, which)` for all elements of a piece of `count` from `begin` on.
template <class Visit>
void ForPiece(int64_t begin, int64_t count, const Parallel& parallel, const Visit& visit) {
  parallel.For(CeilDiv(count, kPiece), [&](int64_t piece) {
    const int64_t end = std::min(count, (piece + 1) * kPiece);
    for (int64_t i = piece * kPiece; i < end; ++i) visit(begin + i, i);
  });
}

void AddWordsOf(PartReader& reader, const Parallel& parallel, FixedPointSums& sums) {
  const WordWindow window = WindowOf(*reader.header().sums);
  const int64_t at_once =
      std::clamp<int64_t>(kPieceBytes / (window.count * int64_t{sizeof(uint64_t)}), 1,
                          std::max<int64_t>(1, sums.count()));
  AlignedArray<uint64_t> words(at_once * window.count);
  for (int64_t begin = 0; begin < sums.count(); begin += at_once) {
    const int64_t count = std::min(at_once, sums.count() - begin);
    reader.Read(words.data(), count * window.count * int64_t{sizeof(uint64_t)});
    ForPiece(begin, count, parallel, [&](int64_t element, int64_t i) {
      sums.AddWords(element, words.data() + i * window.count, window);
    });
  }
}

void AddStatesOf(PartReader& reader, const Parallel& parallel, FixedPointSums& sums) {
  if (!reader.header().sums->special) return;
  sums.KeepStates();
  const int64_t at_once = std::min(kPieceBytes, sums.count());
  AlignedArray<uint8_t> states(at_once);
  for (int64_t begin = 0; begin < sums.count(); begin += at_once) {
    const int64_t count = std::min(at_once, sums.count() - begin);
    reader.Read(states.data(), count);
    ForPiece(begin, count, parallel, [&](int64_t element, int64_t i) {
      sums.MarkSpecial(element, static_cast<SpecialSum>(states[i] & kNaNSum));
    });
  }
}

}  // namespace

SummedParts SumParts(const PartList& parts, int64_t max_bytes, const Parallel& parallel) {
  const WordWindow window = WindowOf(parts);
  const int64_t elements = parts.headers().front().sums->elements;
  CheckLimit(elements * window.count * int64_t{sizeof(uint64_t)}, max_bytes, "the exact sums");
  SummedParts summed = {FixedPointSums(elements, window), {}};
  for (size_t part = 0; part < parts.paths().size(); ++part) {
    summed.sha256.push_back(parts.ReadAgain(part, [&](PartReader& reader) {
      AddWordsOf(reader, parallel, summed.sums);
      AddStatesOf(reader, parallel, summed.sums);
    }));
  }
  summed.sums.Normalize(parallel);
  const WordWindow widest = WidestWindow(parts.problem().dtype);
  if (widest.With(summed.sums.window()) != widest) {
    ThrowData("part/header", parts.paths().front(), "its sums and others' are beyond their type",
              "compute the parts again");
  }
  return summed;
}

Tensor RoundSums(const Problem& problem, const FixedPointSums& sums, const Parallel& parallel) {
  Tensor result(problem.dtype, problem.ResultShape());
  VisitFloat(problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    Stored* elements = result.mutable_data<Stored>();
    ForPiece(0, sums.count(), parallel, [&](int64_t element, int64_t) {
      elements[element] = Narrow<Stored>(sums.Rounded<Stored>(element));
    });
  });
  return result;
}

JoinedParts JoinParts(const PartList& parts, int64_t max_bytes) {
  CheckLimit(parts.problem().ResultBytes(), max_bytes, "the images");
  JoinedParts joined = {Tensor(parts.problem().dtype, parts.problem().ResultShape()), {}};
  auto* const result = static_cast<std::byte*>(joined.result.mutable_raw());
  std::vector<std::vector<const PartRange*>> of_part(parts.paths().size());
  for (const PartRange& range : parts.ranges()) of_part[range.part].push_back(&range);
  for (size_t part = 0; part < of_part.size(); ++part) {
    const int64_t image_bytes = parts.headers()[part].image_bytes;
    joined.sha256.push_back(parts.ReadAgain(part, [&](PartReader& reader) {
      for (const PartRange* range : of_part[part]) {
        reader.Read(result + range->at * image_bytes, range->images.size() * image_bytes);
      }
    }));
  }
  return joined;
}

}  // namespace convgrad::cli
