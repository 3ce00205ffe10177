"""Figures of a service in the format of Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._service import Service


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
