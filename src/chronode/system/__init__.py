"""System."""

from typing import TYPE_CHECKING

from ..system import lazy

if TYPE_CHECKING:
    from ._denormals import flushed
    from ._lazy import lazy
    from ._machine import check_device, cpu_model, device_for
    from ._optimizers import without_compiler
    from ._plugins import load_installed, load_plugin, plugins
    from ._threads import patient, threads, threads_for

__getattr__, __dir__, __all__ = lazy(__name__)
