// Included once per target.
#if defined(CONVGRAD_KERNELS_DEPTHWISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_DEPTHWISE_INL_H_
#undef CONVGRAD_KERNELS_DEPTHWISE_INL_H_
#else
#define CONVGRAD_KERNELS_DEPTHWISE_INL_H_
#endif

#include "kernels/kernel_table.h"
#include "kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

inline void FillDepthwise(KernelTable&) {}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
