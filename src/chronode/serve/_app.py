"""The HTTP interface of a service: routes, bodies, answers and errors."""

from __future__ import annotations

import asyncio
import hmac
import json
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ..runs import as_csv, as_rows, prediction_columns
from ._description import description_page, openapi
from ._service import RefusedRequest, Service
from ._tails import Row

ARROW = "application/vnd.apache.arrow.stream"
_OPEN = ("/health", "/")
"""Paths that need no token: they show nothing of the data."""
Answer = Callable[[Service, Request], Awaitable[Response]]


def application(service: Service, *, token: str = "", lifespan: Any = None) -> Starlette:
    """Returns the ASGI application of a service.

    Args:
        service: The service.
        token: Bearer token that requests must have; "" for none.
        lifespan: Context of the running application, as Starlette takes it.
    """
    routes = [
        ("/", "GET", _page),
        ("/predict", "POST", _predict),
        ("/observe", "POST", _observe),
        ("/state", "GET", _ids),
        ("/state/save", "POST", _save),
        ("/state/{id}", "GET", _id),
        ("/state/{id}", "DELETE", _drop),
        ("/model", "GET", _model),
        ("/model", "POST", _swap),
        ("/events", "GET", _events),
        ("/health", "GET", _health),
        ("/metrics", "GET", _metrics),
        ("/openapi.json", "GET", _openapi),
        ("/docs", "GET", _docs),
    ]
    return Starlette(
        routes=[
            Route(path, partial(_answered, service, path, answer), methods=[method]) for path, method, answer in routes
        ],
        middleware=[Middleware(_Token, token=token)] if token else [],
        lifespan=lifespan,
    )


class _Token:
    """Refuses requests without the token."""

    def __init__(self, app: Any, token: str):
        self._app, self._wanted = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] not in _OPEN:
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._wanted):
                refusal = JSONResponse({"error": "the bearer token is missing or wrong."}, 401)
                refusal.headers["WWW-Authenticate"] = "Bearer"
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def _answered(service: Service, path: str, answer: Answer, request: Request) -> Response:
    """Answers a request; errors of users become 4xx with the reason."""
    started, status = time.perf_counter(), 500
    try:
        response = await answer(service, request)
        status = response.status_code
        return response
    except (ValueError, ClientDisconnect) as error:
        status = error.status if isinstance(error, RefusedRequest) else 422
        return JSONResponse({"error": " ".join(str(error).split())}, status)
    finally:
        if path != "/events":
            service.figures.requests.labels(path, str(status)).observe(time.perf_counter() - started)


async def _body(service: Service, request: Request) -> bytes:
    """Reads a body up to the limit."""
    most = service.limits.body_bytes
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise RefusedRequest(f"the body has more than {most:,} bytes: send less at a time.", 413)
        parts.append(part)
    return b"".join(parts)


def _kind(request: Request) -> str:
    return request.headers.get("content-type", "application/json").split(";")[0].strip().lower()


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number: leave the value out, or send null")


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise RefusedRequest(f"the body is not valid JSON: {error}.", 400) from error


def _observations(body: bytes, kind: str) -> tuple[list[Row], bool]:
    """Returns the observations of a body, and whether they came as a list."""
    if kind in ("application/x-ndjson", "application/jsonl"):
        rows: Any = [_parsed(line) for line in body.splitlines() if line.strip()]
    elif kind in ("application/json", "text/json"):
        rows = _parsed(body)
    else:
        raise RefusedRequest(f"content type {kind!r}: send application/json or application/x-ndjson.", 415)
    single = isinstance(rows, dict)
    rows = [rows] if single else rows
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise RefusedRequest("the body must be an observation, a JSON object, or a list of them.", 400)
    return rows, not single


async def _observe(service: Service, request: Request) -> Response:
    rows, many = _observations(await _body(service, request), _kind(request))
    if not rows:
        return JSONResponse([])
    answers = await service.observe(rows)
    return JSONResponse(answers if many else (answers[0] if answers else {"late": True}))


# ---- whole series -------------------------------------------------------------------------------------------


async def _predict(service: Service, request: Request) -> Response:
    body, kind = await _body(service, request), _kind(request)
    levels = [float(level) for level in request.query_params.get("intervals", "").split(",") if level.strip()]
    work = asyncio.to_thread(_predicted, service, body, kind, levels)
    try:
        columns = await asyncio.wait_for(work, service.limits.seconds)
    except asyncio.TimeoutError:
        raise RefusedRequest(f"not finished within {service.limits.seconds:g} s: send fewer series.", 503) from None
    accepted = request.headers.get("accept", "")
    if "text/csv" in accepted:
        return Response(as_csv(columns), media_type="text/csv")
    if ARROW in accepted:
        return Response(_as_arrow(columns), media_type=ARROW)
    return JSONResponse(as_rows(columns))


def _predicted(service: Service, body: bytes, kind: str, levels: list[float]) -> dict[str, list[Any]]:
    """Reads the series of a body as `chronode predict` reads a file, and predicts them."""
    trained = service.stream.trained
    if kind == "text/csv":
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "body.csv"
            file.write_bytes(body)
            try:
                series = trained.series(file, labeled=False)
            except ValueError as error:
                raise ValueError(str(error).replace(str(file), "the body")) from error
    else:
        series = trained.series(_frame(body, kind), labeled=False)
    columns = prediction_columns(trained, series, intervals=levels)
    service.figures.predicted.inc(len(series))
    return columns


def _frame(body: bytes, kind: str) -> Any:
    import pyarrow as pa

    if kind == ARROW:
        try:
            return pa.ipc.open_stream(body).read_all()
        except pa.ArrowInvalid as error:
            raise RefusedRequest(f"the body is not an Arrow stream: {error}.", 400) from error
    if kind not in ("application/json", "text/json"):
        raise RefusedRequest(f"content type {kind!r}: send application/json, text/csv or {ARROW}.", 415)
    rows = _parsed(body)
    if isinstance(rows, dict) and isinstance(rows.get("rows"), list):
        rows = rows["rows"]
    try:
        if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows):
            names = dict.fromkeys(name for row in rows for name in row)
            return pa.table({name: [row.get(name) for row in rows] for name in names})
        if isinstance(rows, dict) and rows and all(isinstance(column, list) for column in rows.values()):
            return pa.table(rows)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise RefusedRequest(f"the rows do not form a table: {error}.", 400) from error
    raise RefusedRequest("the body must be a list of rows (JSON objects), or an object with a list per column.", 400)


def _as_arrow(columns: dict[str, list[Any]]) -> bytes:
    import pyarrow as pa

    table, sink = pa.table(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


# ---- states, model, figures ---------------------------------------------------------------------------------


async def _ids(service: Service, request: Request) -> Response:
    try:
        first, count = (int(request.query_params.get(name, usual)) for name, usual in (("first", 0), ("count", 100)))
    except ValueError:
        raise RefusedRequest("first and count must be whole numbers.", 400) from None
    ids = service.stream.ids()[max(0, first) : max(0, first) + min(max(0, count), 10_000)]
    counts = service.stream.counts
    figures = {"observations": counts.observations, "late": counts.late, "dropped": counts.dropped}
    return JSONResponse({"count": len(service.stream), **figures, "ids": ids})


async def _id(service: Service, request: Request) -> Response:
    id = request.path_params["id"]
    if id not in service.stream:
        raise RefusedRequest(f"id {id!r} is unknown: it has no observations yet, or it was dropped.", 404)
    prediction = service.stream.predict(id, request.query_params.get("at"))
    return JSONResponse({service.events.id: id, **prediction, "alarms": service.alarms(prediction)})


async def _drop(service: Service, request: Request) -> Response:
    service.drop(request.path_params["id"])
    return JSONResponse({"dropped": request.path_params["id"]})


async def _save(service: Service, request: Request) -> Response:
    return JSONResponse({"saved": (await service.save()).name, "ids": len(service.stream)})


async def _model(service: Service, request: Request) -> Response:
    trained = service.stream.trained
    facts = {"run": str(service.run), "model": trained.model.title, "columns": list(service.stream.columns)}
    facts |= {"required": service.events.required, "predictions": service.stream.decoder.columns}
    drift = service.stream.drift()
    return JSONResponse({**facts, "drift": None if drift is None else {"changed": drift.found, **drift.as_dict()}})


async def _swap(service: Service, request: Request) -> Response:
    """Loads the model of the command line again: what a request names is never opened."""
    return JSONResponse(await service.swap())


async def _health(service: Service, request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _metrics(service: Service, request: Request) -> Response:
    return Response(service.figures.text(), media_type="text/plain; version=0.0.4")


async def _openapi(service: Service, request: Request) -> Response:
    return JSONResponse(openapi(service))


async def _docs(service: Service, request: Request) -> Response:
    return HTMLResponse(description_page(openapi(service)))


async def _page(service: Service, request: Request) -> Response:
    return HTMLResponse(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))


async def _events(service: Service, request: Request) -> Response:
    """Sends answers as server-sent events, as they are made."""
    queue = service.listen()

    async def messages() -> AsyncIterator[str]:
        try:
            yield ": connected\n\n"
            while True:
                try:
                    yield f"data: {json.dumps(await asyncio.wait_for(queue.get(), 15))}\n\n"
                except asyncio.TimeoutError:
                    yield ": waiting\n\n"  # keeps proxies from closing the connection
        finally:
            service.forget(queue)

    return StreamingResponse(messages(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})
