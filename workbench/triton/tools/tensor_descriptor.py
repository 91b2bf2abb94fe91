"""`triton.tools.tensor_descriptor`: descriptors that the host makes."""

from workbench.launch.descriptors import TensorDescriptor

__all__ = ["TensorDescriptor"]
