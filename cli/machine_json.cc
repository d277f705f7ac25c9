#include "cli/machine_json.h"

namespace convgrad::cli {

nlohmann::ordered_json CachesJson(const Machine& machine) {
  nlohmann::ordered_json caches = nlohmann::ordered_json::array();
  for (const Cache& cache : machine.caches) {
    caches.push_back({{"type", cache.type},
                      {"level", cache.level},
                      {"size", cache.bytes},
                      {"num_sharing", cache.num_sharing}});
  }
  return caches;
}

}  // namespace convgrad::cli
