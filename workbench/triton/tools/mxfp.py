"""`triton.tools.mxfp`: microscaling formats on torch tensors."""

from workbench.runtime.mxfp import MXFP4Tensor, MXScaleTensor

__all__ = ["MXFP4Tensor", "MXScaleTensor"]
