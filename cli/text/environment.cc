#include "cli/text/environment.h"

#include <cstdlib>

namespace convgrad::cli {

const char* FindVariable(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing in this program changes the environment.
  return std::getenv(name);
}

std::string Variable(const char* name) {
  const char* value = FindVariable(name);
  return value == nullptr ? "" : value;
}

}  // namespace convgrad::cli
