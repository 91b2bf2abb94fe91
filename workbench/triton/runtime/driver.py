"""`triton.runtime.driver`: which device is current, and what it is."""

from workbench.runtime.driver import DriverBase, DriverConfig, driver

__all__ = ["DriverBase", "DriverConfig", "driver"]
