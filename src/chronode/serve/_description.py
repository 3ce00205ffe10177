"""Description of the HTTP interface as an OpenAPI document and a page, and the figures of a running service."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .._version import __version__

if TYPE_CHECKING:
    from ._service import Service


_PATHS: dict[tuple[str, str], tuple[str, str, str]] = {
    ("/observe", "post"): (
        "Take live observations and return the prediction after each",
        "Observations of a request are taken all together or not at all.",
        "Observations",
    ),
    ("/predict", "post"): (
        "Predict whole series, as `chronode predict` does",
        "The body is JSON (a list of rows, or an object with a list per column), CSV or an Arrow stream; so is the "
        "answer, by the header Accept. `?intervals=80,95` adds prediction intervals to forecasts.",
        "Rows",
    ),
    ("/state", "get"): ("Count and list the ids with a state", "`?first=0&count=100` selects a part.", ""),
    ("/state/{id}", "get"): (
        "Return the newest prediction of an id",
        "`?at=TIME`: as if no values came until then.",
        "",
    ),
    ("/state/{id}", "delete"): ("Drop the state of an id", "", ""),
    ("/state/save", "post"): ("Write the states to the file of `--state` now", "", ""),
    ("/model", "get"): (
        "Describe the model",
        "`drift` compares the newest observations with those of training; null while there are too few.",
        "",
    ),
    ("/model", "post"): (
        "Load the model file of the command line again",
        "All ids are kept: states are carried over if the weights are the same, and otherwise rebuilt from the last "
        "observations.",
        "",
    ),
    ("/events", "get"): ("Follow all predictions as server-sent events", "", ""),
    ("/metrics", "get"): ("Return figures in the format of Prometheus", "", ""),
    ("/health", "get"): ("Tell that the service runs", "Needs no token.", ""),
}
_ERRORS = {
    "400": "The body cannot be parsed.",
    "401": "The token is missing or wrong.",
    "404": "The id is unknown.",
    "409": "The service cannot do this now.",
    "413": "The body is too large.",
    "415": "The content type is not supported.",
    "422": "A value, time or column cannot be used; the reason names it. Nothing has changed.",
    "429": "There are too many ids.",
    "503": "The prediction took too long.",
}


def openapi(service: Service) -> dict[str, Any]:
    """Returns the OpenAPI document of a service."""
    events, stream = service.events, service.stream
    values = {name: {"type": ["number", "string", "null"]} for name in stream.columns}
    first = {events.id: {"type": ["string", "integer"]}}
    if stream.timed:
        first[events.time] = {"type": ["string", "number"]}
    row = {"type": "object", "properties": {**first, **values}, "required": events.required}
    schemas = {
        "Observation": {**row, "additionalProperties": False},
        "Observations": {"oneOf": [_ref("Observation"), {"type": "array", "items": _ref("Observation")}]},
        "Rows": {"type": "array", "items": row},
        "Error": {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]},
    }
    paths: dict[str, Any] = {}
    for (path, method), (summary, text, body) in _PATHS.items():
        operation: dict[str, Any] = {"summary": summary, "description": text, "responses": _responses()}
        if "{id}" in path:
            where = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
            operation["parameters"] = [where]
        if body:
            operation["requestBody"] = {"content": {"application/json": {"schema": _ref(body)}}, "required": True}
        paths.setdefault(path, {})[method] = operation
    info = {"title": f"chronode: {stream.trained.model.title}", "version": __version__}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _responses() -> dict[str, Any]:
    wrong = {"application/json": {"schema": _ref("Error")}}
    errors = {status: {"description": text, "content": wrong} for status, text in _ERRORS.items()}
    return {"200": {"description": "Done."}, **errors}


def description_page(document: dict[str, Any]) -> str:
    """Returns an HTML page of an OpenAPI document, which needs no other files."""
    from ..report.pages import bullets, code, page, paragraph, table

    rows = [
        [method.upper(), path, f"{operation['summary']}. {operation['description']}".strip()]
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    observation = document["components"]["schemas"]["Observation"]
    example = {name: "..." if name in observation["required"] else 0.0 for name in observation["properties"]}
    sections = {
        "Paths": [table(["method", "path", "what it does"], rows)],
        "An observation": [code(json.dumps(example))],
        "Errors": [bullets(f"{status}: {text}" for status, text in _ERRORS.items())],
    }
    return page(
        document["info"]["title"], paragraph("The same as an OpenAPI document: /openapi.json", "lead"), sections
    )


class Figures:
    """Counters and histograms of a service."""

    def __init__(self, service: Service):
        import prometheus_client as prometheus

        self._prometheus = prometheus
        self._registry: Any = prometheus.CollectorRegistry()
        to: dict[str, Any] = {"registry": self._registry, "namespace": "chronode"}
        sizes = (1, 4, 16, 64, 256, 1024, 4096)
        self.requests = prometheus.Histogram("request_seconds", "Time of requests.", ("path", "status"), **to)
        self.batches = prometheus.Histogram("batch_observations", "Observations per batch.", buckets=sizes, **to)
        self.refused = prometheus.Counter("refused_observations", "Observations that could not be used.", **to)
        self.alarms = prometheus.Counter("alarms", "Predictions that raised an alarm.", **to)
        self.drifted = prometheus.Counter("drifted_channels", "Channels outside the range of training.", **to)
        self.predicted = prometheus.Counter("predicted_series", "Whole series that were predicted.", **to)
        self.swaps = prometheus.Counter("swapped_models", "Models that were swapped in.", **to)
        self.saved = prometheus.Gauge("saved_timestamp_seconds", "Time of the last save of the states.", **to)
        live = (
            ("ids", "Ids with a state.", lambda: len(service.stream)),
            ("observations", "Observations that changed a state.", lambda: service.stream.counts.observations),
            ("late", "Observations that came too late.", lambda: service.stream.counts.late),
            ("dropped", "Ids that were dropped because they were idle.", lambda: service.stream.counts.dropped),
        )
        for name, text, value in live:
            prometheus.Gauge(name, text, **to).set_function(value)
        self._service = service
        self._drift = {
            "distances": prometheus.Gauge("drift_distance", "Distance from training, 0 to 1.", ("feature",), **to),
            "p_values": prometheus.Gauge("drift_p", "Probability of it by chance.", ("feature",), **to),
        }

    def text(self) -> bytes:
        """Returns the figures as text."""
        drift = self._service.stream.drift()
        for name, gauge in self._drift.items():
            gauge.clear()
            for feature, value in () if drift is None else zip(drift.names, getattr(drift, name), strict=True):
                gauge.labels(feature).set(value)
        return self._prometheus.generate_latest(self._registry)
