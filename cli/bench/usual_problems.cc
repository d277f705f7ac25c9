#include "cli/bench/usual_problems.h"

namespace convgrad::cli {
namespace {

constexpr const char* kProblems[] = {
    "conv2d bfloat16 NCHW in=16,512,1,25 filter=3,3,64,192 strides=1,1 dilations=1,1 "
    "pads=1,1,1,1 padding=EXPLICIT",
    "conv2d bfloat16 NCHW in=2,192,14,1 filter=3,3,48,192 strides=2,2 dilations=2,2 "
    "pads=2,2,2,2 padding=EXPLICIT",
    "conv2d bfloat16 NHWC in=8,33,33,16 filter=1,1,16,4 strides=1,1 dilations=2,2 "
    "pads=0,0,0,0 padding=EXPLICIT",
    "conv2d bfloat16 NHWC in=1,28,28,8 filter=3,7,8,1 strides=1,1 dilations=2,2 "
    "pads=2,2,6,6 padding=EXPLICIT",
    "conv2d float32 NCHW in=2,240,28,28 filter=1,1,30,240 strides=1,1 dilations=1,1 "
    "pads=0,0,0,0 padding=EXPLICIT",
    "conv2d float32 NCHW in=64,256,2,2 filter=1,1,256,126 strides=1,1 dilations=1,1 "
    "pads=0,0,0,0 padding=EXPLICIT",
    "conv2d float32 NHWC in=6,32,32,112 filter=3,3,112,12 strides=1,1 dilations=1,1 "
    "pads=1,1,1,1 padding=EXPLICIT",
    "conv2d float32 NHWC in=8,28,28,384 filter=3,3,12,192 strides=1,1 dilations=1,1 "
    "pads=1,1,1,1 padding=EXPLICIT",
    "conv2d_backprop_filter bfloat16 NCHW in=2,32,7,7 filter=5,5,32,3 strides=1,1 "
    "dilations=1,1 pads=2,2,2,2 padding=EXPLICIT",
    "conv2d_backprop_filter bfloat16 NCHW in=16,1,33,33 filter=5,5,1,128 strides=1,1 "
    "dilations=1,1 pads=2,2,2,2 padding=EXPLICIT",
    "conv2d_backprop_filter bfloat16 NHWC in=4,28,28,12 filter=7,5,12,8 strides=3,3 "
    "dilations=1,1 pads=3,3,2,2 padding=EXPLICIT",
    "conv2d_backprop_filter bfloat16 NHWC in=16,1,64,32 filter=3,3,32,24 strides=1,1 "
    "dilations=1,1 pads=1,1,1,1 padding=EXPLICIT",
    "conv2d_backprop_filter float32 NCHW in=4,32,14,14 filter=7,7,8,48 strides=1,1 "
    "dilations=2,2 pads=0,0,0,0 padding=EXPLICIT",
    "conv2d_backprop_filter float32 NCHW in=1,96,4,4 filter=1,1,96,160 strides=2,2 "
    "dilations=1,1 pads=0,0,0,0 padding=EXPLICIT",
    "conv2d_backprop_filter float32 NHWC in=2,14,14,32 filter=5,5,8,32 strides=1,1 "
    "dilations=1,1 pads=2,2,2,2 padding=EXPLICIT",
    "conv2d_backprop_filter float32 NHWC in=1,1,1,512 filter=1,1,512,256 strides=1,1 "
    "dilations=1,1 pads=0,0,0,0 padding=EXPLICIT",
    "conv2d_backprop_input bfloat16 NCHW in=4,64,20,20 filter=1,1,64,32 strides=2,2 "
    "dilations=1,1 pads=0,0,0,0 padding=EXPLICIT",
    "conv2d_backprop_input bfloat16 NCHW in=1,4,33,33 filter=3,3,2,256 strides=3,3 "
    "dilations=2,2 pads=2,2,2,2 padding=EXPLICIT",
    "conv2d_backprop_input bfloat16 NHWC in=1,28,28,48 filter=5,5,48,3 strides=2,2 "
    "dilations=1,1 pads=2,2,2,2 padding=EXPLICIT",
    "conv2d_backprop_input bfloat16 NHWC in=16,10,14,256 filter=3,3,16,1024 strides=3,3 "
    "dilations=1,1 pads=1,1,1,1 padding=EXPLICIT",
    "conv2d_backprop_input float32 NCHW in=1,96,8,8 filter=1,1,96,16 strides=1,1 "
    "dilations=1,1 pads=0,0,0,0 padding=EXPLICIT",
    "conv2d_backprop_input float32 NCHW in=6,512,19,19 filter=1,1,512,63 strides=1,1 "
    "dilations=1,1 pads=0,0,0,0 padding=EXPLICIT",
    "conv2d_backprop_input float32 NHWC in=37,8,8,352 filter=3,3,352,12 strides=1,1 "
    "dilations=1,1 pads=1,1,1,1 padding=EXPLICIT",
    "conv2d_backprop_input float32 NHWC in=7,1,5271,32 filter=1,2,32,32 strides=1,1 "
    "dilations=1,1 pads=0,0,0,0 padding=EXPLICIT",
    "depthwise_conv2d bfloat16 NCHW in=16,24,8,7 filter=5,5,24,1 strides=1,1 "
    "dilations=1,1 pads=0,0,0,0 padding=EXPLICIT",
    "depthwise_conv2d bfloat16 NCHW in=2,960,1,31 filter=3,3,960,1 strides=2,2 "
    "dilations=1,1 pads=1,1,1,1 padding=EXPLICIT",
    "depthwise_conv2d bfloat16 NHWC in=4,40,40,144 filter=3,7,144,2 strides=1,1 "
    "dilations=1,1 pads=0,0,0,0 padding=EXPLICIT",
    "depthwise_conv2d bfloat16 NHWC in=1,56,56,48 filter=5,5,48,4 strides=1,1 "
    "dilations=1,1 pads=2,2,2,2 padding=EXPLICIT",
    "depthwise_conv2d float32 NCHW in=16,8,40,40 filter=3,3,8,1 strides=2,2 dilations=1,1 "
    "pads=0,0,0,0 padding=EXPLICIT",
    "depthwise_conv2d float32 NCHW in=4,256,10,10 filter=3,3,256,1 strides=3,3 "
    "dilations=1,1 pads=1,1,1,1 padding=EXPLICIT",
    "depthwise_conv2d float32 NHWC in=6,75,75,128 filter=3,3,128,1 strides=2,2 "
    "dilations=1,1 pads=1,1,1,1 padding=EXPLICIT",
    "depthwise_conv2d float32 NHWC in=4,40,40,144 filter=3,7,144,2 strides=1,1 "
    "dilations=1,1 pads=0,0,0,0 padding=EXPLICIT",
    "depthwise_conv2d_backprop_filter bfloat16 NCHW in=4,192,17,17 filter=5,5,192,1 "
    "strides=1,1 dilations=2,2 pads=4,4,4,4 padding=EXPLICIT",
    "depthwise_conv2d_backprop_filter bfloat16 NCHW in=4,144,40,40 filter=2,1,144,1 "
    "strides=1,1 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT",
    "depthwise_conv2d_backprop_filter bfloat16 NHWC in=16,28,28,96 filter=7,7,96,1 "
    "strides=1,1 dilations=1,1 pads=3,3,3,3 padding=EXPLICIT",
    "depthwise_conv2d_backprop_filter bfloat16 NHWC in=8,20,20,192 filter=5,3,192,1 "
    "strides=1,1 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT",
    "depthwise_conv2d_backprop_filter float32 NCHW in=8,16,14,14 filter=7,7,16,1 "
    "strides=2,2 dilations=1,1 pads=2,3,2,3 padding=EXPLICIT",
    "depthwise_conv2d_backprop_filter float32 NCHW in=1,96,33,14 filter=3,1,96,2 "
    "strides=1,1 dilations=1,1 pads=1,1,0,0 padding=EXPLICIT",
    "depthwise_conv2d_backprop_filter float32 NHWC in=16,56,56,576 filter=7,7,576,1 "
    "strides=3,3 dilations=1,1 pads=2,3,2,3 padding=EXPLICIT",
    "depthwise_conv2d_backprop_filter float32 NHWC in=4,40,64,48 filter=5,5,48,4 "
    "strides=1,1 dilations=2,2 pads=4,4,4,4 padding=EXPLICIT",
    "depthwise_conv2d_backprop_input bfloat16 NCHW in=16,48,56,56 filter=3,3,48,1 "
    "strides=3,3 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT",
    "depthwise_conv2d_backprop_input bfloat16 NCHW in=16,48,7,31 filter=7,7,48,1 "
    "strides=2,2 dilations=1,1 pads=3,3,3,3 padding=EXPLICIT",
    "depthwise_conv2d_backprop_input bfloat16 NHWC in=2,33,56,48 filter=1,3,48,1 "
    "strides=1,1 dilations=1,1 pads=0,0,1,1 padding=EXPLICIT",
    "depthwise_conv2d_backprop_input bfloat16 NHWC in=1,28,100,16 filter=2,1,16,1 "
    "strides=1,1 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT",
    "depthwise_conv2d_backprop_input float32 NCHW in=8,96,5,5 filter=7,7,96,1 strides=2,2 "
    "dilations=1,1 pads=3,3,3,3 padding=EXPLICIT",
    "depthwise_conv2d_backprop_input float32 NCHW in=1,240,13,25 filter=3,3,240,1 "
    "strides=1,1 dilations=2,2 pads=2,2,2,2 padding=EXPLICIT",
    "depthwise_conv2d_backprop_input float32 NHWC in=8,10,10,64 filter=3,3,64,1 "
    "strides=1,1 dilations=1,1 pads=0,0,0,0 padding=EXPLICIT",
    "depthwise_conv2d_backprop_input float32 NHWC in=2,40,40,128 filter=1,7,128,1 "
    "strides=1,1 dilations=1,1 pads=0,0,3,3 padding=EXPLICIT",
};

}  // namespace

std::span<const char* const> UsualProblems() {
  return kProblems;
}

}  // namespace convgrad::cli
