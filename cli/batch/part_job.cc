#include "cli/batch/part_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tensor/tensor_hash.h"

namespace convgrad::cli {

std::string PartPathOf(const std::string& report, int64_t index) {
  return fmt::format("{}.case-{}.cgp", report, index);
}

CaseJob PartOf(CaseJob whole, const PartOfCase& part, std::string path) {
  const std::string text = fmt::format("{}\nimages {}, part {} of {}", whole.identity,
                                       NameOf(part.images), part.number, part.count);
  whole.part = {part, std::move(path), whole.identity};
  whole.identity = Sha256(text.data(), std::ssize(text));
  return whole;
}

CaseRequest RequestOfPart(const CaseJob& job) {
  CaseRequest request = job.request;
  request.command = CommandId::kRun;
  request.flags.RemoveIf([](const FlagValues::Entry& entry) {
    const Flag& flag = InfoOf(entry.id);
    return flag.group == FlagGroup::kOutput || !Contains(flag.commands, CommandId::kRun);
  });
  request.flags.Add({FlagId::kImages, NameOf(job.part->part.images), {}, {}});
  request.flags.Add({FlagId::kPartial, job.part->path, {}, {}});
  return request;
}

SplitRecord SplitRecordOf(const CaseJob& job) {
  const PartOfCase& part = job.part->part;
  SplitRecord split;
  split.part = part.number;
  split.parts = part.count;
  split.images = {part.images.begin, part.images.end};
  split.identity = job.part->identity;
  split.command = InfoOf(job.request.command).name;
  split.op = job.request.op;
  for (const FlagValues::Entry& entry : job.request.flags.entries()) {
    split.flags.emplace_back(KeyOf(InfoOf(entry.id)), entry.text);
  }
  return split;
}

SplitRecord ReadSplit(const Json& entry) {
  const Json& json = entry.at("split");
  SplitRecord split;
  split.part = json.at("part").get<int64_t>();
  split.parts = json.at("parts").get<int64_t>();
  split.images = {json.at("images").at(0).get<int64_t>(), json.at("images").at(1).get<int64_t>()};
  split.identity = json.at("identity").get<std::string>();
  split.command = json.at("command").get<std::string>();
  split.op = json.at("op").get<std::string>();
  for (const auto& [key, text] : json.at("flags").items()) {
    split.flags.emplace_back(key, text.get<std::string>());
  }
  std::ranges::sort(split.flags);  // whoever wrote the report again may have changed their order
  return split;
}

CaseRequest RequestOf(const SplitRecord& split) {
  CaseRequest request;
  request.command = FindCommand(split.command).id;
  request.op = split.op;
  for (const auto& given : split.flags) {
    const auto flag = std::ranges::find_if(AllFlags(), [&](const Flag& one) {
      return KeyOf(one) == given.first && IsCaseKey(one) && Contains(one.commands, request.command);
    });
    if (flag == AllFlags().end()) ThrowUsage("flag/unknown", given.first, "is no flag of a case");
    request.flags.Add({flag->id, given.second, {}, {}});
  }
  return request;
}

}  // namespace convgrad::cli
