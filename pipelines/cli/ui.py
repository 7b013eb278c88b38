"""The command that shows all pipelines of a folder in a browser."""

from pathlib import Path
from typing import Annotated

import typer


def ui(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A pipeline root, or a folder of roots.", show_default=True)
    ] = Path("runs"),
    host: Annotated[str, typer.Option(help="Loopback address to listen on; there is no other.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8390,
    write: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the pages into this folder, to be opened as files, and serve nothing."),
    ] = None,
) -> None:
    """Show all pipelines: runs, live models, schedules, trends; serves a page on this machine until Ctrl-C."""
    from pipelines.ui import site

    if write is not None:
        typer.echo(f"written: {site.write(folder, write)}")
        return
    from pipelines.ui.server import UiServer
    from pipelines.watch import pipelines

    pipelines.find(folder)  # a wrong folder is an error now, not on every page
    with UiServer(site.Site(folder), host, port) as server:
        typer.echo(f"{server.url}  (Ctrl-C ends it)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo("")
