// What each step of a form of lanes takes (lanes_cost.h).
#pragma once

#include "conv/conv2d/data/cost.h"

namespace convgrad {

// Cycles of what a form does, for one thread. Numbers are of four bytes.
struct FormCosts {
  double term;                         // a tile's multiply-adds, at the processor's rate
  double operand;                      // a tile's row or vector, for each term
  double narrow_term, narrow_operand;  // the same of vectors of less than a line
  double segment = 0;                  // of terms, of a tile
  double vector;                       // of sums folded or stored
  double call;                         // of the micro-kernel for some pixels of a class
  double filter;                       // a number of it packed
  double in, out;                      // a number of source or result copied in NHWC
  double planar_in, planar_out;        // the same in NCHW
  double far_in = 0, far_out = 0;      // the same where neighbours are not
  double run = 0;                      // numbers that are copied together
  double part = 0;                     // of pixels worked on at a time
  double line = 0;                     // of a group's part of a pixel, where it lies
};

// Fitted to the times of 504 random layers with AVX-512 and with AVX2 (nine sweeps of
// workload_timing), both directions, NHWC and NCHW, on a Zen 4: the standard deviation is a sixth.
// NHWC's numbers of 16 bits were not among them.
inline constexpr FormCosts kImagesCosts = {.term = 1.1,
                                           .operand = 0.034,
                                           .narrow_term = 0.9,
                                           .narrow_operand = 0.23,
                                           .segment = 5.2,
                                           .vector = 1.6,
                                           .call = 610,
                                           .filter = 1.7,
                                           .in = 0.38,
                                           .out = 0.6,
                                           .planar_in = 0.45,
                                           .planar_out = 0.89,
                                           .far_in = 0.39,
                                           .far_out = 1.0,
                                           .run = 120};
inline constexpr FormCosts kPixelsCosts = {.term = 0.9,
                                           .operand = 0.48,
                                           .narrow_term = 0.96,
                                           .narrow_operand = 0.22,
                                           .vector = 5.8,
                                           .call = 260,
                                           .filter = 1.4,
                                           .in = 0.88,
                                           .out = 0.73,
                                           .planar_in = 0.56,
                                           .planar_out = 0.34,
                                           .far_in = 1.9,
                                           .far_out = 4.2,
                                           .run = 16,
                                           .part = 920};
inline constexpr FormCosts kChannelsCosts = {.term = 0.94,
                                             .operand = 0.24,
                                             .narrow_term = 0.9,
                                             .narrow_operand = 0.18,
                                             .segment = 2.8,
                                             .vector = 7.5,
                                             .call = 610,
                                             .filter = 0.39,
                                             .in = 0.4,
                                             .out = 0.4,
                                             .planar_in = 0.6,
                                             .planar_out = 0.78,
                                             .line = 4.3};

inline const FormCosts& CostsOf(LanesForm form) {
  switch (form) {
    case LanesForm::kImages: return kImagesCosts;
    case LanesForm::kPixels: return kPixelsCosts;
    case LanesForm::kChannels: break;
  }
  return kChannelsCosts;
}

}  // namespace convgrad
