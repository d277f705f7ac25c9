#include "verify/probe/invariance.h"

#include <fmt/format.h>

#include <cstring>

#include "base/error.h"
#include "verify/truth/distance.h"
#include "verify/where/where.h"

namespace convgrad {
namespace {

// Image `image` of a tensor whose first axis is the batch's, where it lies: good as long as the
// tensor.
Tensor ImageOf(const Tensor& batch, int64_t image) {
  Shape shape = batch.shape();
  const int64_t bytes = batch.num_bytes() / shape[0];
  shape[0] = 1;
  const auto* begin = static_cast<const char*>(batch.raw()) + image * bytes;
  return Tensor(batch.dtype(), shape, nullptr, begin);
}

bool HasImages(Role role) {
  return role != Role::kFilter;
}

// The bytes of `tensor` to those of `whole` from image `first` on.
void PutImages(const Tensor& tensor, int64_t first, Tensor& whole) {
  const int64_t image_bytes = whole.num_bytes() / whole.shape()[0];
  std::memcpy(static_cast<char*>(whole.mutable_raw()) + first * image_bytes, tensor.raw(),
              static_cast<size_t>(tensor.num_bytes()));
}

// Where two results of a batch are not the same, by images.
struct Differences {
  int64_t images = 0;
  int64_t first_image = -1;
  int64_t first_element = -1;  // of all
  int64_t in_first_image = 0;
};

Differences DifferencesBetween(const Tensor& apart, const Tensor& whole) {
  Differences found;
  const int64_t image_size = whole.num_elements() / whole.shape()[0];
  VisitFloat(whole.dtype(), [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    int64_t last_image = -1;
    for (int64_t i = 0; i < whole.num_elements(); ++i) {
      if (DistanceBetween(apart.data<Stored>()[i], whole.data<Stored>()[i]).same_bits) continue;
      const int64_t image = i / image_size;
      if (found.first_element < 0) {
        found.first_element = i;
        found.first_image = image;
      }
      found.in_first_image += image == found.first_image;
      found.images += image != last_image;
      last_image = image;
    }
  });
  return found;
}

// `apart`: the images one by one, or in smaller batches ("parts").
CheckResult Compare(const Problem& problem, const Tensor& apart, const Tensor& whole,
                    const char* alone, const Parallel& parallel) {
  CompareOptions bits;
  bits.tolerance.kind = Tolerance::Kind::kBits;
  Problem typed = problem;
  typed.dtype = whole.dtype();
  CheckResult result = CompareToGolden(typed, {}, {}, apart, whole, bits, parallel);
  if (whole.num_elements() == 0) return result;
  const int64_t batch = whole.shape()[0];
  if (result.status == Verdict::kPassed) {
    result.reason =
        fmt::format("each of the {} images has the same bits {} and in the batch", batch, alone);
    return result;
  }
  const Differences found = DifferencesBetween(apart, whole);
  result.reason = fmt::format(
      "image {} has other bits {} than in the batch: {} of its {} elements differ, first {}; {} of "
      "{} images differ",
      found.first_image, alone, found.in_first_image, whole.num_elements() / batch,
      ToString(Layout(problem).IndexOf(found.first_element)), found.images, batch);
  return result;
}

CheckResult Incomparable(std::string detail) {
  CheckResult result;
  result.policy = "none";
  result.status = Verdict::kFailed;
  result.reason = "incomparable";
  result.detail = std::move(detail);
  return result;
}

// Why the parts don't make up the batch; "" if they do.
std::string WhyUnfit(const Tensor& whole, std::span<const Part> parts) {
  int64_t images = 0;
  for (const Part& part : parts) {
    Shape wanted = whole.shape();
    if (part.tensor.shape().size() == wanted.size()) wanted[0] = part.tensor.shape()[0];
    if (part.tensor.dtype() != whole.dtype() || part.tensor.shape() != wanted) {
      return fmt::format("{} is {} {}, some images of the batch's {} {} were expected", part.name,
                         InfoOf(part.tensor.dtype()).name, ToString(part.tensor.shape()),
                         InfoOf(whole.dtype()).name, ToString(whole.shape()));
    }
    images += wanted[0];
  }
  if (images == whole.shape()[0]) return "";
  return fmt::format("the parts have {} images, the batch has {}", images, whole.shape()[0]);
}

}  // namespace

void RequireImages(const Problem& problem) {
  const OpInfo& op = InfoOf(problem.op);
  if (op.direction == Direction::kBackpropFilter) {
    ThrowUsage("invariance/sum", op.name,
               "is a sum over the images: an image alone has another result",
               "hold it to the exact value, or check the forward pass and the input gradient");
  }
  if (problem.geometry.batch < 2) {
    ThrowUsage("invariance/one-image", op.name,
               fmt::format("the batch has {} image{}: there is nothing to compare",
                           problem.geometry.batch, problem.geometry.batch == 1 ? "" : "s"),
               "give a batch of 2 or more");
  }
}

CheckResult CheckInvariance(const Problem& problem, const Tensor& first, const Tensor& second,
                            const Tensor& whole, const Execution& execution,
                            const Parallel& parallel) {
  RequireImages(problem);
  const auto& roles = InfoOf(problem.op).operands;
  Problem alone = problem;
  alone.geometry.batch = 1;
  const Computation computation(alone, execution);
  Tensor image_result(alone.dtype, alone.ResultShape());
  Tensor apart(whole.dtype(), whole.shape());
  if (whole.num_elements() > 0) {
    for (int64_t image = 0; image < problem.geometry.batch; ++image) {
      computation.Run(HasImages(roles[0]) ? ImageOf(first, image) : first,
                      HasImages(roles[1]) ? ImageOf(second, image) : second, image_result);
      PutImages(image_result, image, apart);
    }
  }
  return Compare(problem, apart, whole, "alone", parallel);
}

CheckResult ComparePartsOfBatch(const Problem& problem, const Tensor& whole,
                                std::span<const Part> parts, const Parallel& parallel) {
  RequireImages(problem);
  if (whole.shape() != problem.ResultShape() || !InfoOf(whole.dtype()).is_float) {
    return Incomparable(fmt::format("the batch's result is {} {}, {} {} was expected",
                                    InfoOf(whole.dtype()).name, ToString(whole.shape()),
                                    InfoOf(problem.dtype).name, ToString(problem.ResultShape())));
  }
  if (std::string why = WhyUnfit(whole, parts); !why.empty()) return Incomparable(std::move(why));
  Tensor apart(whole.dtype(), whole.shape());
  int64_t images = 0;
  for (const Part& part : parts) {
    PutImages(part.tensor, images, apart);
    images += part.tensor.shape()[0];
  }
  return Compare(problem, apart, whole, "in its part", parallel);
}

}  // namespace convgrad
