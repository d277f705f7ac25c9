#include "cli/record/problem_json.h"

#include "cli/text/json.h"

namespace convgrad::cli {

Json ProblemJson(const Problem& problem) {
  const ConvGeometry& g = problem.geometry;
  return {{"op", InfoOf(problem.op).name},
          {"dtype", InfoOf(problem.dtype).name},
          {"data_format", NameOf(problem.data_format)},
          {"input", problem.InputShape()},
          {"filter", problem.FilterShape()},
          {"out_backprop", problem.OutputShape()},
          {"strides", {g.stride_h, g.stride_w}},
          {"dilations", {g.dilation_h, g.dilation_w}},
          {"padding", NameOf(problem.padding)},
          {"pads", {g.pad_top, g.pad_bottom, g.pad_left, g.pad_right}},
          {"groups", g.groups},
          {"flops", problem.Flops()},
          {"input_bytes", problem.OperandBytes()},
          {"output_bytes", problem.ResultBytes()},
          {"terms", problem.MaxTerms()}};
}

}  // namespace convgrad::cli
