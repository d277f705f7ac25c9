// Any bytes as a part of a result: refused as malformed, or a part whose sums are no larger than
// the bytes, and which is written again the same. A first byte of 1 puts the right hash at the end,
// so that what a hash keeps out is tried too.
#include "cli/parts/part_list.h"
#include "cli/parts/part_run.h"
#include "cli/parts/reduction.h"
#include "fuzz/fuzzing.h"
#include "tensor/tensor_hash.h"

namespace convgrad::fuzzing {
namespace {

constexpr int64_t kMostBytes = int64_t{64} << 20;

using cli::PartList;

void WriteAgain(const PartList& parts, const std::string& path, const Parallel& parallel) {
  PartHeader header = parts.Joined();
  OutputFile file(path);
  if (!parts.AreSums()) {
    const cli::JoinedParts joined = cli::JoinParts(parts, kMostBytes);
    PartWriter writer(file, header);
    writer.Write(joined.result.raw(), joined.result.num_bytes());
    writer.Finish();
    return;
  }
  const cli::SummedParts summed = cli::SumParts(parts, kMostBytes, parallel);
  cli::RoundSums(parts.problem(), summed.sums, parallel);
  header.sums = cli::PartSumsOf(summed.sums);
  PartWriter writer(file, header);
  cli::WriteSums(writer, summed.sums);
  writer.Finish();
}

}  // namespace

bool Check(Bytes bytes) {
  static const Scratch scratch;
  static const Parallel parallel(1);
  const bool is_hashed = bytes.Choose(2) == 1;
  std::string text(bytes.rest());
  if (is_hashed) text += Sha256(text.data(), std::ssize(text));
  const std::string path = scratch.Write("any.cgp", text);
  const std::string again = scratch.Write("again.cgp", "");
  const std::string twice = scratch.Write("twice.cgp", "");
  return Accepts([&] {
    WriteAgain(PartList({path}), again, parallel);
    WriteAgain(PartList({again}), twice, parallel);
    Expect(Scratch::Read(again) == Scratch::Read(twice), "another part was written");
  });
}

}  // namespace convgrad::fuzzing
