"""The pages as files, and by their addresses."""

from pathlib import Path
from urllib.parse import unquote

from pipelines.ui import site
from pipelines.ui.site import Site
from tests.report.html_page import Page
from tests.ui.conftest import call, write_calls


def test_written_pages_need_no_server(root: Path, tmp_path: Path) -> None:
    """The index links to a page per pipeline, and the pages to the reports where they are, by relative paths."""
    index = site.write(root, tmp_path / "out")
    links = [str(each["href"]) for each in Page(index.read_text()).all("a") if each["href"] != "#main"]
    page = next(link for link in links if link.startswith("customers-"))
    of_page = [str(each["href"]) for each in Page((index.parent / page).read_text()).all("a")]

    assert [link for link in links if not (index.parent / unquote(link)).is_file()] == []
    assert {f"../runs/customers/{name}" for name in ("report.html", "logs/20261118-030000-abcd.html")} <= {*of_page}
    assert [oct(each.stat().st_mode & 0o777) for each in (index, index.parent / page)] == ["0o600", "0o600"]


def test_a_name_that_is_no_file_name(tmp_path: Path) -> None:
    """A name decides no path: its page is written into the folder."""
    write_calls(tmp_path / "runs" / "a", call(1, pipeline="..&<x>"))
    site.write(tmp_path / "runs", tmp_path / "out")

    assert len(list((tmp_path / "out").iterdir())) == 2
    assert [each.name for each in tmp_path.iterdir() if each.name not in ("out", "runs")] == []


def test_served_reports(root: Path) -> None:
    """A report is found by its address; a link in its place is not followed, and other files have no address."""
    served = Site(root)
    report = root / "customers" / "report.html"
    served.page("/")
    (address,) = [each for each in served._files if each.endswith("/report.html")]

    assert served.page(address) == report.read_bytes()
    report.unlink()
    report.symlink_to("/etc/hostname")
    assert served.page(address) is None
    assert served.page("/customers/live.json") is None


def test_pages_are_made_again(root: Path) -> None:
    """At most every two seconds: many requests read the metadata once, and a new run is seen soon."""
    now = [0.0]
    served = Site(root, clock=lambda: now[0])
    before = served.page("/")
    write_calls(root / "flowers", call(19, pipeline="flowers"))

    assert served.page("/") == before
    now[0] = 2.0
    assert served.page("/") != before
