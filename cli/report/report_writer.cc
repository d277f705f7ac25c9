#include "cli/report/report_writer.h"

#include <utility>

namespace convgrad::cli {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

}  // namespace

ReportWriter::ReportWriter(const std::string& path, const Report& report) : file_(path) {
  file_.Write("{\n  \"context\": " + RenderContext(report) + ",\n  \"benchmarks\": [");
}

void ReportWriter::Add(int64_t position, std::string entry) {
  waiting_.emplace(position, std::move(entry));
  while (!waiting_.empty() && waiting_.begin()->first == next_) {
    Write(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    ++next_;
  }
}

void ReportWriter::Write(const std::string& entry) {
  buffer_ += has_entries_ ? ",\n    " : "\n    ";
  buffer_ += entry;
  has_entries_ = true;
  if (buffer_.size() < kBufferBytes) return;
  file_.Write(buffer_);
  buffer_.clear();
}

void ReportWriter::Finish(const Report& report) {
  for (const auto& [position, entry] : waiting_) Write(entry);
  waiting_.clear();
  buffer_ += has_entries_ ? "\n  ]" : "]";
  if (report.error) buffer_ += ",\n  \"error\": " + RenderError(*report.error);
  file_.Write(buffer_ + "\n}\n");
  file_.Commit();
}

}  // namespace convgrad::cli
