"""Commands that show data and this machine."""

import sys
from typing import Annotated

import typer


def inspect(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="Raw data, TFRecords or an artifact: folder, file or pattern.")
    ],
    rows: Annotated[int, typer.Option(help="Number of records to show.", min=0, max=1000)] = 5,
    sheet: Annotated[
        str | None, typer.Option(metavar="FILE.png", help="Write a contact sheet of up to 64 images to this file.")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Compare the checksums of an artifact's shards.")] = False,
) -> None:
    """Show what a data set contains: counts, columns, classes, first records, images."""
    from pathlib import Path

    from pipelines import log
    from pipelines.inspection import inspect as show

    log.prepare_environment()
    show(path, sys.stdout, rows=rows, sheet=Path(sheet) if sheet else None, verify=verify)


def doctor() -> None:
    """Check this machine, and print what to do about each problem."""
    from pipelines import doctor as checks

    raise typer.Exit(checks.main())
