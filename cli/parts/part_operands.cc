#include "cli/parts/part_operands.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "cli/parts/part_problem.h"
#include "tensor/tensor_hash.h"

namespace convgrad::cli {
namespace {

bool Has(const OperandHashes& hashes, Role role, const std::string& hash) {
  return std::ranges::any_of(
      hashes, [&](const auto& one) { return one.first == NameOf(role) && one.second == hash; });
}

void CheckShape(const PartList& parts, Role role, const std::string& path, const Tensor& tensor) {
  Shape shape = parts.problem().ShapeOf(role);
  const bool is_filter = role == Role::kFilter;
  if (!is_filter) shape[0] = tensor.shape().empty() ? 0 : tensor.shape()[0];
  const bool fits = tensor.dtype() == parts.problem().dtype && tensor.shape() == shape &&
                    (is_filter || shape[0] >= parts.ranges().back().images.end);
  if (fits) return;
  ThrowData("operand/mismatch", path,
            fmt::format("{} {} is not the {} of which the parts are", InfoOf(tensor.dtype()).name,
                        ToString(tensor.shape()), NameOf(role)));
}

}  // namespace

void CheckOperand(const PartList& parts, Role role, const std::string& path, const Tensor& tensor) {
  CheckShape(parts, role, path, tensor);
  const bool is_filter = role == Role::kFilter;
  for (const PartRange& range : parts.ranges()) {
    const PartHeader& header = parts.headers()[range.part];
    const OperandHashes& hashes = is_filter ? header.operands : header.images[range.range].operands;
    if (Has(hashes, role, DataHash(is_filter ? tensor : ImagesOf(tensor, range.images)))) continue;
    ThrowData("part/operand-changed", parts.paths()[range.part],
              is_filter ? fmt::format("its filter is not that of {}", path)
                        : fmt::format("its images {} of {} are not those of {}",
                                      NameOf(range.images), NameOf(role), path),
              "compute the part again");
  }
}

bool IsPartOf(const PartHeader& header, const Operands& operands) {
  const Problem& problem = operands.problem();
  const ImageRange& images = operands.images();
  if (header.problem != LineOfAnyBatch(problem) || header.batch != operands.batch()) return false;
  if (header.images.size() != 1 || header.images[0].begin != images.begin ||
      header.images[0].end != images.end) {
    return false;
  }
  for (int i = 0; i < 2; ++i) {
    const Role role = InfoOf(problem.op).operands[i];
    const Tensor& whole = operands.whole(i);
    if (role == Role::kFilter) {
      if (!Has(header.operands, role, DataHash(whole))) return false;
    } else if (!Has(header.operands, role, SampleHash(whole)) ||
               !Has(header.images[0].operands, role, DataHash(ImagesOf(whole, images)))) {
      return false;
    }
  }
  return true;
}

}  // namespace convgrad::cli
