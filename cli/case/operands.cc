#include "cli/case/operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"
#include "base/resources.h"
#include "cli/text/number_list.h"
#include "cli/text/operand_names.h"
#include "tensor/tensor_hash.h"

namespace convgrad::cli {
namespace {

std::vector<int64_t> IntegersOf(const std::string& path, const Tensor& tensor) {
  std::vector<int64_t> values;
  const int64_t count = tensor.num_elements();
  switch (tensor.dtype()) {
    case DType::kInt32:
      values.assign(tensor.data<int32_t>(), tensor.data<int32_t>() + count);
      return values;
    case DType::kInt64:
      values.assign(tensor.data<int64_t>(), tensor.data<int64_t>() + count);
      return values;
    default:
      ThrowData("sizes/dtype", path,
                fmt::format("holds {} where sizes are wanted", InfoOf(tensor.dtype()).name),
                "store int32 or int64");
  }
}

bool AreLegalSizes(const std::vector<int64_t>& sizes) {
  return sizes.size() == 4 && std::all_of(sizes.begin(), sizes.end(), [](int64_t size) {
           return size >= 0 && size <= kMaxDimension;
         });
}

}  // namespace

void Describe(const Console& console, const std::string& path, const TensorHeader& header) {
  for (const std::string& warning : header.warnings) console.Warn(path + ": " + warning);
  console.Detail(fmt::format("{}: {} {} ({}, {} order, {})", path, InfoOf(header.dtype).name,
                             ToString(header.shape), header.stored_type,
                             header.fortran_order ? "Fortran" : "C", header.stored_in));
}

bool IsInlineSizes(const std::string& text) {
  const bool is_path = text.find('/') != std::string::npos || text.ends_with(".npy") ||
                       IsStandardStream(text) ||
                       FormatOfName(TensorFileOf(text)) != TensorFormat::kNpy;
  if (is_path) return false;
  return text.empty() || std::strchr("0123456789-+ [(", text.front()) != nullptr;
}

int64_t MaxCopiedBytes(int64_t max_memory_bytes) {
  return max_memory_bytes > 0 ? max_memory_bytes : AvailableMemory() / 5 * 4;
}

Operands::Operands(const CaseSpec& spec, const Console& console)
    : spec_(spec), console_(console), op_(InfoOf(spec.conv.op)) {
  if (op_.sizes_flag != nullptr) OpenSizes();
  for (int i = 0; i < 2; ++i) {
    sources_[i].role = op_.operands[i];
    sources_[i].text = spec.operands[i];
    if (const auto& tensor = spec.operands_in_memory[i]) {
      sources_[i].file = StoredInMemory(*tensor);
      sources_[i].header = sources_[i].file->header;
      sources_[i].shape = sources_[i].header->shape;
    } else {
      OpenOperand(sources_[i]);
    }
  }
  InferDType();
  InferShapes();
  ChooseImages();
}

void Operands::ChooseImages() {
  batch_ = problem_->geometry.batch;
  images_ = {0, batch_};
  if (!spec_.images) return;
  images_ = ParseImages(*spec_.images, batch_);
  problem_->geometry.batch = images_.size();
}

NpyReadOptions Operands::ReadOptions() const {
  NpyReadOptions options;
  options.view_as = spec_.dtype;
  options.allow_trailing = spec_.allow_trailing;
  options.max_copied_bytes = MaxCopiedBytes(spec_.execution.max_memory_bytes);
  return options;
}

void Operands::OpenOperand(Source& source) {
  if (IsFill(source.text)) {
    source.fill = ParseFill(source.text);
    source.shape = source.fill->shape;
    return;
  }
  if (IsStream(TensorFileOf(source.text))) {
    source.file = ReadTensor(source.text, ReadOptions());
    source.header = source.file->header;
  } else {
    source.header = ReadTensorHeader(source.text, ReadOptions());
  }
  source.shape = source.header->shape;
  Describe(console_, source.text, *source.header);
}

void Operands::OpenSizes() {
  if (IsInlineSizes(spec_.sizes)) {
    const bool is_filter = op_.direction == Direction::kBackpropFilter;
    sizes_ = {ParseIntegers(is_filter ? "--filter-sizes" : "--input-sizes", spec_.sizes), false};
    return;
  }
  NpyReadOptions options = ReadOptions();
  options.view_as.reset();
  const StoredTensor file = ReadTensor(spec_.sizes, options);
  Describe(console_, spec_.sizes, file.header);
  if (file.header.shape.size() != 1 || file.header.shape[0] > 254) {
    ThrowData("sizes/rank", spec_.sizes,
              fmt::format("has the shape {} where a vector of sizes is wanted",
                          ToString(file.header.shape)),
              "store 4 numbers");
  }
  sizes_ = {IntegersOf(spec_.sizes, file.tensor), true};
  sizes_record_ = {op_.sizes_flag, spec_.sizes, DataHash(file.tensor),
                   InfoOf(file.header.dtype).name, file.header.fortran_order};
}

// That of the files, which must agree with each other and with --dtype; fills follow.
void Operands::InferDType() {
  const Source* typed = nullptr;
  for (const Source& source : sources_) {
    if (!source.header) continue;
    const DTypeInfo& dtype = InfoOf(source.header->dtype);
    if (!dtype.is_float) {
      ThrowData("operand/dtype", source.text,
                fmt::format("{} holds {}", NameOf(source.role), dtype.name),
                "use float16, bfloat16, float32 or float64");
    }
    if (spec_.dtype && dtype.dtype != *spec_.dtype) {
      ThrowData(
          "operand/dtype", source.text,
          fmt::format("holds {} where --dtype says {}", dtype.name, InfoOf(*spec_.dtype).name),
          fmt::format("give --dtype {} or convert the file", dtype.name));
    }
    if (typed != nullptr && dtype.dtype != typed->header->dtype) {
      ThrowData("operand/dtype", source.text,
                fmt::format("holds {} where {} holds {}", dtype.name, typed->text,
                            InfoOf(typed->header->dtype).name),
                "convert one of them");
    }
    typed = &source;
  }
  if (typed != nullptr)
    dtype_ = typed->header->dtype;
  else
    dtype_ = spec_.dtype.value_or(DType::kFloat32);
}

// The one shape that follows from the others: that of the forward output.
Shape Operands::InferOutBackprop() const {
  // Malformed sizes: any shape will do, MakeProblem speaks of the sizes first.
  if (!AreLegalSizes(sizes_->values)) return Shape(4, 0);
  ConvSpec forward = spec_.conv;
  forward.op = op_.depthwise ? Op::kDepthwiseConv2D : Op::kConv2D;
  forward.dtype = dtype_;
  const bool is_filter = op_.direction == Direction::kBackpropFilter;
  forward.input = is_filter ? *sources_[0].shape : sizes_->values;
  forward.filter = is_filter ? sizes_->values : *sources_[0].shape;
  return MakeProblem(forward).OutputShape();
}

void Operands::InferShapes() {
  Source& last = sources_[1];
  const bool follows = last.role == Role::kOutBackprop && sizes_ &&
                       (sizes_->values.size() != 2 || op_.direction == Direction::kBackpropFilter);
  if (!last.shape && sources_[0].shape && follows) last.shape = InferOutBackprop();
  for (const Source& source : sources_) {
    if (source.shape) continue;
    ThrowUsage("fill/shape", fmt::format("{} {}", FlagOf(source.role), source.text),
               "its shape does not follow from the other operands",
               fmt::format("append it, e.g. {}@8,56,56,32", source.text));
  }
  ConvSpec conv = spec_.conv;
  conv.dtype = dtype_;
  for (const Source& source : sources_) {
    if (source.role == Role::kInput) conv.input = source.shape;
    if (source.role == Role::kFilter) conv.filter = source.shape;
    if (source.role == Role::kOutBackprop) conv.out_backprop = source.shape;
  }
  (op_.direction == Direction::kBackpropFilter ? conv.filter_sizes : conv.input_sizes) = sizes_;
  try {
    problem_ = MakeProblem(conv);
  } catch (const Error& error) {
    const std::string hint = MisnamedOperand();
    if (hint.empty()) throw;
    throw Error(error.exit_code(), error.code(), op_.name, error.message(), hint);
  }
}

// Where shapes don't fit: the first file that is named like another tensor than it was given as.
std::string Operands::MisnamedOperand() const {
  for (const Source& source : sources_) {
    if (!source.header) continue;
    const std::optional<Role> named = RoleInName(source.text);
    if (!named || *named == source.role) continue;
    return fmt::format("the file of {} is named like the {}, {}: are files exchanged?",
                       FlagOf(source.role), NameOf(*named), source.text);
  }
  return "";
}

int64_t Operands::CopiedBytes() const {
  int64_t bytes = 0;
  for (const Source& source : sources_) {
    const bool is_copied = !source.header || source.header->is_copied;
    if (!is_copied || source.file) continue;
    int64_t elements = 1;
    for (const int64_t size : *source.shape) elements *= size;
    bytes += elements * InfoOf(dtype_).bytes;
  }
  if (spec_.conv.filter_format != FilterFormat::kHWIO) {  // its other order is a copy
    bytes += problem_->NumElements(Role::kFilter) * InfoOf(dtype_).bytes;
  }
  return bytes;
}

void Operands::CheckMemory() const {
  convgrad::CheckMemory(*problem_, spec_.execution, CopiedBytes(),
                        /*operands_are_allocated=*/false);
}

void Operands::CheckTensorMemory() const {
  convgrad::CheckTensorMemory(*problem_, spec_.execution, CopiedBytes(),
                              /*operands_are_allocated=*/false);
}

int64_t Operands::SpareBytes() const {
  int64_t bytes = MaxCopiedBytes(spec_.execution.max_memory_bytes);
  if (spec_.execution.max_memory_bytes == 0) return bytes;
  for (const Tensor* operand : {&first(), &second()}) {
    bytes -= operand->is_mapped() ? 0 : operand->num_bytes();
  }
  return bytes - problem_->ResultBytes();
}

void Operands::LoadSource(Source& source, const Parallel& parallel) {
  if (source.fill) {
    source.given = MakeFill(*source.fill, dtype_, *source.shape,
                            source.fill->seed.value_or(spec_.seed), source.role, parallel);
    return;
  }
  NpyReadOptions options = ReadOptions();
  if (spec_.images && source.role != Role::kFilter) options.ahead = {images_.begin, images_.end};
  if (!source.file) source.file = ReadTensor(source.text, options);
  source.given = source.file->tensor;
  const TensorHeader& header = source.file->header;
  if (header.shape != source.header->shape || header.dtype != source.header->dtype) {
    ThrowIo("io/file-changed", source.text, "its header changed while it was read",
            "run again when nothing writes it");
  }
}

void Operands::Load(const Parallel& parallel) {
  for (Source& source : sources_) {
    LoadSource(source, parallel);
    const bool is_filter = source.role == Role::kFilter;
    source.whole = is_filter ? border().Ours(source.given, parallel) : source.given;
    if (!is_filter && spec_.images) source.given = ImagesOf(source.whole, images_);
    source.tensor = is_filter ? source.whole : source.given;
  }
}

void Operands::CheckUnchanged() const {
  for (const Source& source : sources_) {
    if (source.file) source.file->CheckUnchanged();
  }
}

std::vector<InputRecord> Operands::Records() const {
  std::vector<InputRecord> records;
  for (const Source& source : sources_) {
    records.push_back({NameOf(source.role), source.text, std::nullopt, InfoOf(dtype_).name,
                       source.header && source.header->fortran_order});
  }
  if (sizes_record_) {
    records.push_back(*sizes_record_);
    records.back().sha256.reset();
  }
  return records;
}

std::vector<InputRecord> Operands::HashedRecords(const Parallel& parallel) const {
  std::vector<InputRecord> records = Records();
  parallel.For(std::ssize(sources_),
               [&](int64_t i) { records[i].sha256 = DataHash(sources_[i].given); });
  if (sizes_record_) records.back().sha256 = sizes_record_->sha256;
  return records;
}

}  // namespace convgrad::cli
