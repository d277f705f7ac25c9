// The tensors of one case, from files, standard input or fills. In two steps, so that every refusal
// comes before anything large is read or made.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "cli/case/case.h"
#include "cli/case/filter_border.h"
#include "cli/case/images.h"
#include "cli/console/console.h"
#include "cli/report/report.h"
#include "files/tensor_file.h"
#include "problem/geometry.h"
#include "tensor/tensor.h"
#include "verify/truth/fill.h"

namespace convgrad::cli {

class Operands {
 public:
  // Reads headers, infers what is left open (the type and shape of fills) and makes the problem.
  // Standard input can't be read twice: an operand from there is read here. Throws
  // usage, data and I/O errors.
  Operands(const CaseSpec& spec, const Console& console);

  // The problem of the images that --images names, if it does.
  const Problem& problem() const { return *problem_; }
  // All that the operands have, and which of them are the problem's.
  int64_t batch() const { return batch_; }
  const ImageRange& images() const { return images_; }
  FilterBorder border() const { return {problem(), spec_.conv.filter_format}; }

  // Throws "memory/limit" if operands, result and scratch need more memory than the case's
  // execution allows. Call it before Load().
  void CheckMemory() const;
  // Throws likewise for operands and result alone, before anything is planned.
  void CheckTensorMemory() const;
  // Bytes that the operands themselves take: files that can be mapped take none.
  int64_t CopiedBytes() const;
  // The case may take so many bytes beside its operands, which are loaded, and a result.
  int64_t SpareBytes() const;

  // Reads, maps and generates.
  void Load(const Parallel& parallel);

  // After Load(), in the order of InfoOf(problem().op).operands.
  const Tensor& first() const { return sources_[0].tensor; }
  const Tensor& second() const { return sources_[1].tensor; }

  // The operand of that order with all its images, not those of the problem alone; a filter in our
  // order.
  const Tensor& whole(int operand) const { return sources_[operand].whole; }

  // Throws "io/file-changed" if a file changed since it was opened.
  void CheckUnchanged() const;

  // For the report.
  std::vector<InputRecord> Records() const;

  // The same with data hashes, after Load(). The operands are hashed side by side.
  std::vector<InputRecord> HashedRecords(const Parallel& parallel) const;

 private:
  struct Source {
    Role role = Role::kInput;
    std::string text;              // as given
    std::optional<FillSpec> fill;  // none: a file
    std::optional<TensorHeader> header;
    std::optional<Shape> shape;
    std::optional<StoredTensor> file;
    Tensor whole;   // with all images
    Tensor given;   // as read or generated
    Tensor tensor;  // the same, a filter in our order
  };

  void OpenOperand(Source& source);
  void LoadSource(Source& source, const Parallel& parallel);
  void OpenSizes();
  void InferDType();
  void InferShapes();
  Shape InferOutBackprop() const;
  std::string MisnamedOperand() const;
  void ChooseImages();
  NpyReadOptions ReadOptions() const;

  const CaseSpec& spec_;
  const Console& console_;
  const OpInfo& op_;
  std::array<Source, 2> sources_;
  std::optional<Sizes> sizes_;
  std::optional<InputRecord> sizes_record_;
  DType dtype_ = DType::kFloat32;
  std::optional<Problem> problem_;
  int64_t batch_ = 0;
  ImageRange images_;
};

// Prints what a header warns of, and with --verbose what it says.
void Describe(const Console& console, const std::string& path, const TensorHeader& header);

// True if the text of a sizes flag is "3,3,32,1" rather than a path. A file with such a name can be
// given as ./NAME.
bool IsInlineSizes(const std::string& text);

// How much memory files that can't be mapped may take: the limit given, or (0) 80 % of what is
// available.
int64_t MaxCopiedBytes(int64_t max_memory_bytes);

}  // namespace convgrad::cli
