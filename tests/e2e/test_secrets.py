"""Secrets that a run was given are in none of its files, and what holds raw data is readable by its owner only."""

import dataclasses
import stat
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SECRETS = {"flag": "hidden-in-a-flag", "variable": "hidden in <a> variable", "uri": "hidden-in-a-uri"}
# Prints the secrets as libraries do, keeps what is removed at the end of a run, and fails with them in its message.
LEAK = """
import os, shutil, sys, logging
from pathlib import Path
from components.ingest import run as ingest

def leak(job, *rest, run=ingest.run):
    text = f"{sys.argv} {os.environ['SOME_TOKEN']} mysql://root:hidden-in-a-uri@host/db"
    print(text); os.write(2, text.encode()); logging.error(text); os.system("env")
    shutil.copy(job.output.artifact.parents[2] / ".penstock" / "holder.json", os.environ["KEPT"])
    if "fail" in os.environ:
        raise RuntimeError(text)
    return run(job, *rest)

ingest.run = leak
"""


def files(folder: Path) -> list[Path]:
    """Returns all files below a folder."""
    return [path for path in folder.rglob("*") if path.is_file()]


def test_secrets_are_in_no_file_of_a_run(some_digits: Path, tmp_path: Path, make_pipeline: Any) -> None:
    """D5: one run fails and one succeeds; neither console, log, holder, metadata nor report has a secret."""
    (min(some_digits.iterdir()) / "broken.png").write_bytes(b"no image")
    pipeline = make_pipeline(some_digits, tmp_path / "root")
    flags = ("--to", "StatisticsGen", "--", f"--s3_secret_access_key={SECRETS['flag']}")
    environment = {"SOME_TOKEN": SECRETS["variable"], "KEPT": str(tmp_path / "root" / "holder copy")}
    failing = dataclasses.replace(pipeline, environment={**environment, "fail": "yes"})
    passing = dataclasses.replace(pipeline, environment=environment)
    results = [failing.run(*flags, before=LEAK), passing.run(*flags, before=LEAK)]
    content = {path: path.read_bytes() for path in files(tmp_path / "root")}
    logs, events, reports = (
        sorted((tmp_path / "root" / "logs").glob(f"*.{kind}")) for kind in ("log", "jsonl", "html")
    )
    journal = sorted((tmp_path / "root" / ".penstock" / "runs" / "image").iterdir())

    assert [result.code for result in results] == [1, 0], results
    assert not [name for name, secret in SECRETS.items() for result in results if secret in result.output]
    found = [(path, name) for path in content for name, secret in SECRETS.items() if secret.encode() in content[path]]
    assert found == []
    assert [b"***" in content[path] for path in logs] == [True] * len(logs)
    assert tmp_path / "root" / "holder copy" in content
    assert (len(logs), len(events), len(journal)) == (2, 2, 2)
    lists = [path for path in content if path.name == "quarantine.jsonl"]
    private = [*logs, *events, *journal, *reports, tmp_path / "root" / "report.html", *lists]
    assert {oct(stat.S_IMODE(path.stat().st_mode)) for path in private} == {"0o600"}
    assert len(lists) == 2
