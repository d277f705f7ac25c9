// Stands in for oneDNN where it is not installed.
#include "peers/contestant.h"

namespace convgrad::peers {

std::vector<std::unique_ptr<Contestant>> MakeOneDnn(const Problem&, const Tensor&, const Tensor&,
                                                    int, std::string& refusal) {
  refusal = "built without oneDNN";
  return {};
}

std::string OneDnnName() {
  return "";
}

}  // namespace convgrad::peers
