// Mistaken sums: the right ones times a factor, with a sign, with an image too many or too few, or
// behind an activation.
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "verify/diagnosis/hypotheses.h"

namespace convgrad {
namespace {

class Factors {
 public:
  Factors(const Problem& problem, std::vector<Hypothesis>& hypotheses)
      : problem_(problem), hypotheses_(hypotheses) {}

  void Try(double factor, const char* name, std::string sentence) {
    if (!std::isfinite(factor) || factor == 0 || factor == 1) return;
    Alternative alternative(problem_);
    alternative.factor = factor;
    hypotheses_.push_back({name, std::move(sentence), std::move(alternative)});
  }

 private:
  const Problem& problem_;
  std::vector<Hypothesis>& hypotheses_;
};

void AddFactors(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  const ConvGeometry& g = problem.geometry;
  const auto batch = static_cast<double>(g.batch);
  const double pixels = static_cast<double>(g.out_h) * static_cast<double>(g.out_w);
  Factors factors(problem, hypotheses);
  factors.Try(-1, "sign-flipped", "every number of the golden has the other sign: negate it");
  factors.Try(2, "counted-twice",
              "every number of the golden is twice what it should be: it was added to a result "
              "that held it already, or counted twice");
  factors.Try(0.5, "halved", "every number of the golden is half of what it should be");
  if (InfoOf(problem.op).direction == Direction::kBackpropFilter) {
    factors.Try(1 / batch, "batch-mean",
                fmt::format("the golden is the mean over the {} images, TensorFlow's gradient is "
                            "their sum: multiply it by {}",
                            g.batch, g.batch));
    factors.Try(1 / (batch * pixels), "pixel-mean",
                "the golden is the mean over images and pixels, TensorFlow's gradient is their "
                "sum");
    factors.Try(1 / pixels, "pixel-mean",
                "the golden is the mean over the pixels, TensorFlow's gradient is their sum");
  } else {
    factors.Try(
        1 / batch, "batch-mean",
        fmt::format("every number of the golden was divided by {}, the number of images, as "
                    "the gradient of a mean over the batch is",
                    g.batch));
  }
  factors.Try(batch, "batch-factor",
              fmt::format("every number of the golden was multiplied by {}, the number of images",
                          g.batch));
  for (const int exponent :
       {-10, -9, -8, -7, -6, -5, -4, -3, -2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 16}) {
    const double factor = std::ldexp(1.0, exponent);
    factors.Try(factor, "scaled",
                fmt::format("every number of the golden is {} times what it should be: look for a "
                            "loss scale",
                            factor));
  }
}

// For a sum over images: one of them left out, or added twice.
void AddImages(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  constexpr int64_t kMostImages = 32;
  const int64_t batch = problem.geometry.batch;
  if (InfoOf(problem.op).direction != Direction::kBackpropFilter || batch < 2) return;
  const int64_t image_size =
      problem.geometry.out_h * problem.geometry.out_w * problem.geometry.out_c;
  for (int64_t image = 0; image < batch; ++image) {
    if (image == kMostImages && batch > kMostImages) image = batch - 1;
    for (const double weight : {0.0, 2.0}) {
      Alternative alternative(problem);
      ViewOf(alternative, Role::kOutBackprop).change = [=](int64_t element, double value) {
        return element / image_size == image ? weight * value : value;
      };
      hypotheses.push_back(
          {weight == 0 ? "image-missing" : "image-twice",
           fmt::format("image {} of the batch {} in the golden: look at the loop over images",
                       image, weight == 0 ? "is missing" : "is counted twice"),
           std::move(alternative)});
    }
  }
}

}  // namespace

// Activations follow the forward pass, and the input gradient, which is a
// transposed convolution.
void AddActivations(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  if (InfoOf(problem.op).direction == Direction::kBackpropFilter) return;
  Alternative alternative(problem);
  alternative.finish = Finish::kRectified;
  hypotheses.push_back({"rectified",
                        "negative numbers are zero in the golden: a ReLU was applied to it",
                        alternative});
  alternative.ceiling = 6;
  hypotheses.push_back({"relu6",
                        "negative numbers are zero in the golden, and those over 6 are 6: a ReLU6 "
                        "was applied to it",
                        std::move(alternative)});
}

void AddScalings(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  AddFactors(problem, hypotheses);
  AddImages(problem, hypotheses);
}

}  // namespace convgrad
