#include "cli/record/machine_json.h"

#include "cli/text/json.h"

namespace convgrad::cli {

Json CachesJson(const Machine& machine) {
  Json caches = Json::array();
  for (const Cache& cache : machine.caches) {
    caches.push_back({{"type", cache.type},
                      {"level", cache.level},
                      {"size", cache.bytes},
                      {"num_sharing", cache.num_sharing}});
  }
  return caches;
}

}  // namespace convgrad::cli
