"""A trained model as an HTTP service: whole series, live observations, states, metrics and a page that shows them."""

from typing import TYPE_CHECKING

from ..system import lazy

if TYPE_CHECKING:
    from ._app import application
    from ._server import serve
    from ._service import Limits, Service


__getattr__, __dir__, __all__ = lazy(__name__)
