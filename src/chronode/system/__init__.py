"""The process and the machine: lazy imports, plugins, threads, devices."""

from typing import TYPE_CHECKING

from . import _process as process
from ._lazy import lazy

if TYPE_CHECKING:
    from ._denormals import flushed
    from ._display import drawn
    from ._machine import check_device, cpu_model, device_for
    from ._optimizers import without_compiler
    from ._plugins import built_in, load_installed, load_plugin, plugins
    from ._threads import patient, threads, threads_for

__getattr__, __dir__, __all__ = lazy(__name__)
__all__ += ["lazy", "process"]
