"""TensorFlow's 2-D convolutions and their gradients for arrays, with the same bits on every machine,
and a verdict on the results of others.

    >>> import convgrad
    >>> dw = convgrad.conv2d_backprop_filter(x, (3, 3, 12, 24), dy, strides=2, padding="SAME")
    >>> convgrad.check(yours, "conv2d_backprop_filter", input=x, filter_sizes=(3, 3, 12, 24),
    ...                out_backprop=dy, strides=2, padding="SAME")

`convgrad.torch` has the operations by PyTorch's names.
"""

from convgrad import torch
from convgrad._arguments import Options
from convgrad._check import Counts, Diagnosis, SuspectWarning, Verdict, WorstElement, assert_conv, check
from convgrad._core import __version__
from convgrad._errors import DataError, Error, InternalError, ResourceError, UsageError
from convgrad._ops import (conv2d, conv2d_backprop_filter, conv2d_backprop_input, data_hash,
                           depthwise_conv2d, depthwise_conv2d_backprop_filter,
                           depthwise_conv2d_backprop_input)

__all__ = ["Counts", "DataError", "Diagnosis", "Error", "InternalError", "Options", "ResourceError",
           "SuspectWarning", "UsageError", "Verdict", "WorstElement", "__version__", "assert_conv",
           "check", "conv2d", "conv2d_backprop_filter", "conv2d_backprop_input", "data_hash",
           "depthwise_conv2d", "depthwise_conv2d_backprop_filter", "depthwise_conv2d_backprop_input",
           "torch"]
