"""What experiment trackers hold of a training, read back from their own files."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

Table = list[dict[str, Any]]


@dataclass
class Seen:
    """What was found.

    Attributes:
        numbers: values of each metric, oldest first.
        tables: of candidates, oldest first, each a list of rows.
    """

    numbers: dict[str, list[float]] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)

    def add(self, values: Mapping[str, Any]) -> None:
        """Adds the numbers among ``values``."""
        for name, value in values.items():
            if isinstance(value, int | float):
                self.numbers.setdefault(name, []).append(value)


def divert(folder: Path, patch: pytest.MonkeyPatch, tracker: str) -> None:
    """Lets ``tracker`` write into ``folder``, and ask nobody."""
    patch.chdir(folder)
    patch.setenv("TENSORBOARD_LOGGING_DIR", str(folder / "boards"))  # of transformers
    patch.setenv("TENSORBOARD_DIR", str(folder / "boards"))  # of veRL
    patch.setenv("WANDB_MODE", "offline")
    patch.setenv("WANDB_SILENT", "true")
    patch.setenv("WANDB_DIR", str(folder))
    patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'mlflow.db'}")
    if tracker == "mlflow":
        _hurry_sqlite()
    if tracker == "trackio":
        patch.setattr("trackio.utils.TRACKIO_DIR", folder / "trackio")
        patch.setattr("trackio.sqlite_storage.TRACKIO_DIR", folder / "trackio")


@cache
def _hurry_sqlite() -> None:
    """Lets no database wait for the disk: MLflow makes a new one by dozens of migrations."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    event.listen(
        Engine, "connect", lambda opened, _: opened.execute("PRAGMA synchronous=OFF").close()
    )


def seen(folder: Path, tracker: str) -> Seen:
    """What ``tracker`` has written into ``folder``."""
    readers: dict[str, Callable[[Path], Seen]] = {
        "tensorboard": _tensorboard,
        "wandb": _wandb,
        "mlflow": _mlflow,
        "trackio": _trackio,
    }
    return readers[tracker](folder)


def _tensorboard(folder: Path) -> Seen:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = Seen()
    (file,) = folder.rglob("events.out.tfevents.*")
    reader = EventAccumulator(str(file))
    reader.Reload()
    for name in reader.Tags()["scalars"]:
        found.numbers[name] = [point.value for point in reader.Scalars(name)]
    for point in reader.Tensors("evoprompt/candidates/text_summary"):
        (text,) = point.tensor_proto.string_val
        head, _, *body = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in text.decode().splitlines()
        ]
        rows: Table = [dict(zip(head, line, strict=True)) for line in body]
        for row in rows:
            row["weight"] = float(row["weight"]) if row["weight"] else None
            row["draws"] = int(row["draws"])
        found.tables.append(rows)
    return found


def _wandb(folder: Path) -> Seen:
    import wandb

    wandb.teardown()  # ends the run, and forgets in which folder it was
    found = Seen()
    (file,) = folder.glob("wandb/offline-run-*/*.wandb")
    for record in _records(file):
        if record.WhichOneof("record_type") != "history":
            continue
        items = {
            item.key or "/".join(item.nested_key): json.loads(item.value_json)
            for item in record.history.item
        }
        found.add(items)
        if path := items.get("evoprompt/candidates/path"):
            table = json.loads((file.parent / "files" / path).read_text())
            rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
            found.tables.append(rows)
    return found


def _records(file: Path) -> Iterator[Any]:
    """The records of a ``.wandb`` file, a LevelDB log; wandb 0.31 has no reader of it in Python."""
    from wandb.proto import wandb_internal_pb2

    protocol: Any = wandb_internal_pb2  # it makes its classes when it is imported
    data = file.read_bytes()
    assert data.startswith(b":W&B")
    at, whole = 7, b""
    while at < len(data):
        room = 32_768 - at % 32_768  # of the block
        if room < 7:
            at += room
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # it is whole, or was the last part
            yield protocol.Record.FromString(whole)
            whole = b""


def _mlflow(folder: Path) -> Seen:
    from mlflow import MlflowClient

    found = Seen()
    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    (run,) = client.search_runs([one.experiment_id for one in client.search_experiments()])
    for name in run.data.metrics:
        history = client.get_metric_history(run.info.run_id, name)
        found.numbers[name] = [point.value for point in history]
    for artifact in sorted(one.path for one in client.list_artifacts(run.info.run_id, "evoprompt")):
        table = client.load_table(run.info.experiment_id, artifact, [run.info.run_id])
        cells = json.loads(table.to_json(orient="split"))
        rows = [dict(zip(cells["columns"], row, strict=True)) for row in cells["data"]]
        found.tables.append(rows)
    return found


def _trackio(folder: Path) -> Seen:
    from trackio.sqlite_storage import SQLiteStorage

    found = Seen()
    (project,) = SQLiteStorage.get_projects()
    (run,) = SQLiteStorage.get_runs(project)
    for entry in SQLiteStorage.get_logs(project, run):
        found.add(entry)
        if table := entry.get("evoprompt/candidates"):
            found.tables.append(table["_value"])
    return found
