"""The facts of a training, from the small files that the Trainer writes next to its TensorBoard logs."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from components.storage.location import Location
from pipelines.orchestration.metadata.store import Artifact
from pipelines.report.facts import TrainingFacts

_NOT_CURVES = ("records", "learning_rate")


def facts(
    outputs: Mapping[str, Artifact], near: Callable[[Location], Location] = lambda folder: folder
) -> dict[str, Any]:
    """Returns what the Trainer's outputs say, as values of `RunFacts`; `near` finds local copies of remote folders."""
    if "model_run" not in outputs:
        return {}
    folder = outputs["model_run"].uri
    stored = orjson.loads((folder / "history.json").read_bytes())
    epochs = {  # JSON has no NaN and no infinity: they are null
        name: [math.nan if each is None else each for each in values] for name, values in stored["epochs"].items()
    }
    curves = {
        name: {"train": tuple(values), "eval": tuple(epochs[f"val_{name}"])}
        for name, values in epochs.items()
        if f"val_{name}" in epochs and name not in _NOT_CURVES
    }
    proof = folder / "proof.json"  # models of before 0.2 have none
    return {
        "curves": curves,
        "best_epoch": stored["best_epoch"],
        "training": training(stored),
        "tensorboard": str(near(folder) / "tensorboard"),
        "warm_start": tuple(_warm_start(stored.get("warm_start") or {})),
        "proof": orjson.loads(proof.read_bytes()) if proof.exists() else {},
    }


def training(stored: Mapping[str, Any]) -> TrainingFacts | None:
    """Returns how the Trainer ran, from its history."""
    if not {"memory", "devices"} <= stored.keys():  # trained before these facts were recorded, and kept by --from
        return None
    measured = stored["input"]
    return TrainingFacts(
        samples_per_second=tuple(measured["records_per_second"]),
        waiting=tuple(waited / took for waited, took in zip(measured["waited"], measured["seconds"], strict=True)),
        learning_rate=tuple(stored["learning_rate"]),
        details=tuple(_details(stored)),
    )


def _details(stored: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields what the page lists about a training."""
    memory, batch, per_call = stored["memory"], stored["batch"], stored["steps_per_call"]
    yield "input", stored["input"]["verdict"]
    yield "batch size", f"{batch['size']:,}" + (", chosen from the data" if batch["chosen"] else "")
    devices = stored["devices"]
    if devices["replicas"] == 1:
        yield "device", devices["names"][0]
    else:
        workers = f", on each of {devices['workers']} workers" if devices["workers"] > 1 else ""
        yield "devices", f"{devices['replicas']}: {', '.join(devices['names'])}{workers}"
        yield "batch per device", f"{batch['replica']:,}"
    if batch["scale"] > 1:
        yield "scale of batch and learning rate", f"{batch['scale']}"
    if batch["accumulate"] > 1:
        yield "records per update", f"{batch['effective']:,}"
    yield "steps per call", f"{per_call['last']}" + (", chosen by their duration" if per_call["chosen"] else "")
    yield "peak memory", f"{memory['host']:,.0f} MB (process)"
    yield from ((f"peak memory of {device}", f"{peak:,.0f} MB") for device, peak in memory["devices"].items())
    yield from (("resumed", each["note"].removeprefix("resumed ")) for each in stored["resumed"])


def _warm_start(done: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields what a warm start did with each weight, after a warning if there is one."""
    if done.get("warning"):
        yield "warning", done["warning"]
    for path, (rows, of) in done.get("mapped", {}).items():
        yield path, f"mapped: {rows:,} of {of:,} rows"
    for kind in ("copied", "fresh"):
        yield from ((path, kind) for path in done.get(kind, ()))
