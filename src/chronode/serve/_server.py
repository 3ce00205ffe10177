"""The process of a service: start, periodic saves, swaps by SIGHUP, and a stop that loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

from ..settings import SettingError
from ._app import application
from ._service import RefusedRequest, Service


def serve(
    service: Service,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    token: str = "",
    save_seconds: float = 30.0,
    note: Callable[[str], object] = print,
) -> None:
    """Serves until SIGTERM or Ctrl-C: requests in work are finished, then the states are saved.

    Args:
        service: The service.
        host: Address to listen on; other machines reach it only if it is not a loopback address.
        port: Port to listen on; 0 for a free one.
        token: Bearer token that requests must have; "" for none.
        save_seconds: Seconds between two saves of the states.
        note: Called with remarks.
    """
    import uvicorn

    @contextlib.asynccontextmanager
    async def running(app: Any) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        saving = loop.create_task(_save_periodically(service, save_seconds, note))
        tasks: set[Any] = set()

        def swap() -> None:
            task = loop.create_task(_swapped(service, note))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        with contextlib.suppress(NotImplementedError, AttributeError, ValueError):  # Windows, or not the main thread
            loop.add_signal_handler(signal.SIGHUP, swap)
        yield
        saving.cancel()
        if service.state is not None:
            await service.save()
            note(f"saved {len(service.stream):,} ids to {service.state}")

    options: dict[str, Any] = {"log_level": "warning", "access_log": False, "timeout_graceful_shutdown": 10}
    app = application(service, token=token, lifespan=running)
    with _listening(host, port) as listener:
        address, given = listener.getsockname()[:2]
        note(f"listening on http://{f'[{address}]' if ':' in address else address}:{given}")
        uvicorn.Server(uvicorn.Config(app, lifespan="on", **options)).run(sockets=[listener])


def _listening(host: str, port: int) -> socket.socket:
    """Opens the port; the message of an error names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise SettingError(
            f"cannot listen on {host}:{port} ({error})", argument="port", cure="choose another port or address"
        ) from error


async def _save_periodically(service: Service, seconds: float, note: Callable[[str], object]) -> None:
    while service.state is not None:
        await asyncio.sleep(seconds)
        if service.changed:
            try:
                await service.save()
            except OSError as error:  # a full disk today may have space tomorrow
                note(f"the states could not be saved: {error}")


async def _swapped(service: Service, note: Callable[[str], object]) -> None:
    try:
        outcome = await service.swap()
        note("swapped: " + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in outcome.items()))
    except RefusedRequest as error:
        note(f"not swapped: {error}")
