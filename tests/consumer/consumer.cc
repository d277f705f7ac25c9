// Computes one filter gradient with the installed library: of a 1x1 convolution over four pixels
// that is the sum of input times out_backprop, here 1*10 + 2*20 + 3*30 + 4*40 = 300.
#include <cstdio>

#include "conv/compute.h"
#include "problem/geometry.h"

int main() {
  convgrad::ConvSpec spec;
  spec.op = convgrad::Op::kConv2DBackpropFilter;
  spec.input = spec.out_backprop = convgrad::Shape{1, 2, 2, 1};
  spec.filter_sizes = convgrad::Sizes{{1, 1, 1, 1}};
  const convgrad::Problem problem = convgrad::MakeProblem(spec);

  convgrad::Tensor input(spec.dtype, *spec.input);
  convgrad::Tensor out_backprop(spec.dtype, *spec.out_backprop);
  for (int i = 0; i < 4; ++i) {
    input.mutable_data<float>()[i] = static_cast<float>(i + 1);
    out_backprop.mutable_data<float>()[i] = static_cast<float>(10 * (i + 1));
  }

  const convgrad::Tensor gradient = convgrad::Compute(problem, input, out_backprop, {});
  std::printf("%g\n", gradient.data<float>()[0]);
  return gradient.data<float>()[0] == 300 ? 0 : 1;
}
