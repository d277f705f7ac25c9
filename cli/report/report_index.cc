#include "cli/report/report_index.h"

#include "base/error.h"

namespace convgrad::cli {

IndexedReport::IndexedReport(const std::string& path)
    : path_(path), file_(std::make_unique<const FileText>(path)) {
  Read();
}

void IndexedReport::Read() {
  ScannedReport scanned = ScanReport(path_, file_->text());
  entries_ = std::move(scanned.entries);
  try {
    context_ = ParseJson(scanned.context);
    CheckReportSchema(path_, context_.at("convgrad").at("schema").get<std::string>());
    if (!context_.contains("plan"))
      RefuseReport(path_, "is not of a batch: its context has no plan");
    if (context_.at("plan").contains("shards"))
      RefuseReport(path_, "is of 'plan', which runs nothing");
    plan_hash(), num_cases(), shard();
    if (!scanned.error.empty()) error_ = ParseJson(scanned.error).at("message").get<std::string>();
  } catch (const Json::exception& exception) {
    RefuseReport(path_, WhyOf(exception));
  }
  for (const IndexedEntry& entry : entries_) {
    if (entry.index < 0 || entry.index >= num_cases() || !entry.exit_code) {
      RefuseReport(path_, "an entry has no number in the plan or no exit code");
    }
  }
}

std::string IndexedReport::plan_hash() const {
  return context_.at("plan").at("sha256").get<std::string>();
}

int64_t IndexedReport::num_cases() const {
  return context_.at("plan").at("cases").get<int64_t>();
}

std::string IndexedReport::shard() const {
  const Json& shard = context_.at("plan").at("shard");
  return shard.is_null() ? "1/1" : shard.get<std::string>();
}

}  // namespace convgrad::cli
