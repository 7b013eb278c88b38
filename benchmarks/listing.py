"""Listing of many objects and their work list: time and memory of the submitting process.

    synthetic S3 server (a process of its own, which makes up keys) ◄─ HTTP ─ obstore ◄─ ObjectPath ◄─ survey ─► units
                                                                                 digest, list of source files ─┘

    series    0.1, 1 and 10 million objects in 100 classes       10 million: under 300 s and 2,000 MB; linear

The client is the real one: requests of 1,000 objects, XML, etags. The server has no network latency; on a provider's
store a request takes 50 to 100 ms, so 10 million objects take 10 to 15 minutes longer if one prefix is listed.

python -m benchmarks.listing                      the series
python -m benchmarks.listing 100000               some counts
"""

import argparse
import http.server
import os
import subprocess
import sys
import tempfile
import urllib.parse
from pathlib import Path
from typing import IO, cast

from benchmarks import measure

HOME = Path(__file__).resolve().parents[1]
_ME = "benchmarks.listing"
_COUNTS = (100_000, 1_000_000, 10_000_000)
_CLASSES, _PAGE = 100, 1_000
_MOST_SECONDS, _MOST_MB = 300, 2_000  # for 10 million objects
_SUPERLINEAR = 1.2  # seconds per object, relative to the series' smallest count
_OBJECT = (
    "<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
    "<ETag>&quot;{number:032x}&quot;</ETag><Size>1024</Size><StorageClass>STANDARD</StorageClass></Contents>"
)


def key_of(number: int, count: int) -> str:
    """Returns the key of an object; keys are in the order of their numbers."""
    return f"data/c{number * _CLASSES // count:03d}/{number:09d}.jpg"


def page(start: int, count: int, size: int = _PAGE) -> str:
    """Returns the XML of one page of a listing."""
    stop = min(start + size, count)
    objects = "".join(_OBJECT.format(key=key_of(number, count), number=number) for number in range(start, stop))
    more = f"<NextContinuationToken>{stop}</NextContinuationToken>" if stop < count else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>bucket</Name><KeyCount>{stop - start}</KeyCount><MaxKeys>{size}</MaxKeys>"
        f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>{more}{objects}</ListBucketResult>"
    )


def first_of(query: dict[str, list[str]]) -> int:
    """Returns the number of the first object that a request asks for."""
    if "continuation-token" in query:
        return int(query["continuation-token"][0])
    after = query.get("start-after", [""])[0]
    return int(after.rpartition("/")[2].partition(".")[0]) + 1 if after else 0


def serve(count: int) -> None:
    """Answers listings of `count` objects; there is nothing else on this server."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            body = page(first_of(query), count, int(query.get("max-keys", [str(_PAGE)])[0])).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


def take() -> None:
    """Does in this process what the submitter does for all objects: survey, work list, list of source files."""
    from components.ingest import units
    from components.ingest.close import manifest
    from components.ingest.survey import survey
    from components.settings.ingest import Ingest
    from components.storage.hashing import HashCache

    def submit(artifact: Path) -> None:
        settings = Ingest()
        found = survey.take("s3://bucket/data", settings, HashCache(None))
        todo = [unit for span in found.spans for unit in units.of_files(span, settings, artifact)]
        manifest.write_sources(artifact, found.listing)
        said = f"{found.digest[:8]}: {sum(len(unit.numbers) for unit in todo):,} files in {len(todo)} work units"
        print(said, file=sys.stderr)

    with tempfile.TemporaryDirectory() as home:
        measure.report(lambda: submit(Path(home)))


def run(count: int) -> measure.Measured:
    """Measures the survey and the work list of so many objects."""
    command = [sys.executable, "-m", _ME, "--serve", str(count)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HOME)
    try:
        port = cast("IO[str]", server.stdout).readline().strip()
        os.environ.update(AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}", AWS_SKIP_SIGNATURE="true", AWS_REGION="none")
        (measured,) = measure.in_turn({f"{count:,}": ["-m", _ME, "--take"]}, 1)[f"{count:,}"]
        return measured
    finally:
        server.kill()
        server.wait()


def main() -> None:
    """Measures the series and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("counts", nargs="*", type=int, default=_COUNTS)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--take", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
    elif arguments.take:
        take()
    else:
        _print([(count, run(count)) for count in arguments.counts])


def _print(rows: list[tuple[int, measure.Measured]]) -> None:
    first_count, first = rows[0]
    for count, measured in rows:
        growth = measured.seconds / count / (first.seconds / first_count)
        fits = measured.seconds < _MOST_SECONDS and measured.peak_mb < _MOST_MB and growth < _SUPERLINEAR
        print(
            f"{count:>12,} objects {measured.seconds:8.1f} s {measured.seconds / count * 1e6:6.1f} us each "
            f"{measured.peak_mb:7,.0f} MB  growth {growth:4.2f}  {'passed' if fits else 'failed'}"
        )


if __name__ == "__main__":
    main()
