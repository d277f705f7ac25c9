#include "cli/text/file_text.h"

namespace convgrad::cli {

FileText::FileText(const std::string& path) : file_(InputFile::Open(path)), mapping_(file_->Map()) {
  if (mapping_ == nullptr) {
    copy_ = file_->ReadRest();
    text_ = copy_;
  } else {
    mapping_->ReadAhead(0, mapping_->size());
    text_ = {reinterpret_cast<const char*>(mapping_->data()),
             static_cast<size_t>(mapping_->size())};
  }
}

}  // namespace convgrad::cli
