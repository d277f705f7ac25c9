// Hands libFuzzer's inputs to the target.
#include "fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  convgrad::fuzzing::Check({data, size});
  return 0;
}
