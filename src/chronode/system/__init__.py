"""The process and the machine: lazy imports, plugins, threads, devices."""

from typing import TYPE_CHECKING

from . import _process as process
from ._modules import lazy

if TYPE_CHECKING:
    from ._modules import built_in, drawn, load_installed, load_plugin, plugins
    from ._torch import check_device, cpu_model, device_for, flushed, patient, threads, threads_for, without_compiler

__getattr__, __dir__, __all__ = lazy(__name__)
__all__ += ["lazy", "process"]
