// Any bytes as the record beside a golden: refused as malformed, or a record with all that decides
// how to compare.
#include "cli/record/golden_record.h"
#include "fuzz/fuzzing.h"

namespace convgrad::fuzzing {

bool Check(Bytes bytes) {
  static const Scratch scratch;
  const std::string path = scratch.Write(cli::RecordPathOf("any.npy"), bytes.rest());
  std::optional<cli::GoldenRecord> record;
  if (!Accepts([&] { record = cli::ReadRecord(path); })) return false;
  Expect(record.has_value(), "there is a file, but no record");
  Expect(cli::IsDataHash(record->sha256), "a record without its golden's hash");
  const int reproducible = record->IsReproducible(Precision::kStandard) +
                           record->IsReproducible(Precision::kDouble) +
                           record->IsReproducible(Precision::kExact);
  Expect(reproducible <= 1, "a record of several precisions");
  return true;
}

}  // namespace convgrad::fuzzing
