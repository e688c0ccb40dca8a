"""Counts of a service in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
OTHER = "other"  # unknown paths share one series

HELP = {
    "plusone_model_info": ("gauge", "The model that is served."),
    "plusone_requests_total": ("counter", "Requests that were answered, by status."),
    "plusone_request_seconds": ("histogram", "Time from the head of a request to its answer."),
    "plusone_requests_in_progress": ("gauge", "Requests that are being read, waiting or computed."),
    "plusone_items_total": ("counter", "Items that were predicted."),
    "plusone_items_skipped_total": ("counter", "Items of batches that could not be read."),
}


class Metrics:
    """What a service has done; for one thread."""

    def __init__(self, paths: Iterable[str], about: Mapping[str, str]) -> None:
        self.paths = frozenset(paths)
        self.about = dict(about)
        self.items = self.skipped = self.in_progress = 0
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()

    def request(self, path: str, status: int, seconds: float) -> None:
        """Counts a request that was answered."""
        name = path if path in self.paths else OTHER
        self._requests[name, status] += 1
        buckets = self._buckets.setdefault(name, [0] * (len(SECONDS) + 1))
        buckets[sum(seconds > limit for limit in SECONDS)] += 1
        self._seconds[name] += seconds  # type: ignore[assignment]

    def text(self) -> str:
        """All of it, as Prometheus reads it."""
        series: dict[str, list[str]] = {name: [] for name in HELP}
        series["plusone_model_info"] = [f"{_labels(self.about)} 1"]
        series["plusone_requests_total"] = [
            f"{_labels({'path': path, 'status': str(status)})} {count}"
            for (path, status), count in sorted(self._requests.items())
        ]
        series["plusone_requests_in_progress"] = [f" {self.in_progress}"]
        series["plusone_items_total"] = [f" {self.items}"]
        series["plusone_items_skipped_total"] = [f" {self.skipped}"]
        for path, buckets in sorted(self._buckets.items()):
            below = 0
            for limit, count in zip((*map(str, SECONDS), "+Inf"), buckets, strict=True):
                below += count
                labels = _labels({"path": path, "le": limit})
                series["plusone_request_seconds"].append(f"_bucket{labels} {below}")
            end = _labels({"path": path})
            series["plusone_request_seconds"].append(f"_sum{end} {self._seconds[path]:.6f}")
            series["plusone_request_seconds"].append(f"_count{end} {below}")
        lines = []
        for name, (kind, meaning) in HELP.items():
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{line}" for line in series[name]]
        return "\n".join(lines) + "\n"


def _labels(values: Mapping[str, str]) -> str:
    r"""Labels of a series.

    >>> _labels({"a": 'x"y'})
    '{a="x\\"y"}'
    """
    escapes = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    return "{" + ",".join(f'{k}="{v.translate(escapes)}"' for k, v in values.items()) + "}"
