"""A user's settings file gets new values and keeps everything else."""

from pathlib import Path
from typing import Any

import hypothesis
import pytest
import tomli
from hypothesis import strategies

from components.errors import SettingsError
from pipelines.bench import overlay

TABLE = ("image", "input")


def edited(text: str, **values: overlay.Value) -> str | None:
    """Sets values of [image.input]."""
    return overlay.edited(text, TABLE, values)


class TestEdited:
    """One value a time, in the place where a person would put it."""

    def test_a_new_file(self) -> None:
        """A table and its values."""
        assert edited("", prefetch=4, order="fastest", autotune=True) == (
            '[image.input]\nprefetch = 4\norder = "fastest"\nautotune = true\n'
        )

    def test_a_value_is_replaced_where_it_stands(self) -> None:
        """With its indentation and its comment."""
        text = '# mine\n[image.input]\n  prefetch = 2   # why "two" # I forgot\nbatch_size = 32\n\n[image.train]\n'

        assert edited(text, prefetch=8) == text.replace("= 2 ", "= 8 ")

    def test_a_mark_inside_a_string_is_no_comment(self) -> None:
        """The value ends where TOML says."""
        text = '[image.input]\ncache_directory = "a#b" # c\n'

        assert edited(text, cache_directory='x#"y\\') == '[image.input]\ncache_directory = "x#\\"y\\\\" # c\n'

    def test_a_new_value_stands_with_its_neighbours(self) -> None:
        """After the last one, before the blank line and the comment of the next table."""
        text = "[image.input]\nbatch_size = 32\n\n# training\n[image.train]\nepochs = 3\n"

        assert edited(text, prefetch=8) == text.replace("= 32\n", "= 32\nprefetch = 8\n")

    def test_an_empty_table_is_used(self) -> None:
        """The value stands below its header."""
        assert edited("[image.input] # empty\n\n[text]\n", prefetch=8) == (
            "[image.input] # empty\nprefetch = 8\n\n[text]\n"
        )

    def test_a_new_table_stands_at_the_end(self) -> None:
        """After a blank line, though the last line has no end."""
        assert edited("[image.train]\nepochs = 3", prefetch=8) == (
            "[image.train]\nepochs = 3\n\n[image.input]\nprefetch = 8\n"
        )

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("[image]\ninput.prefetch = 2\n", "[image]\ninput.prefetch = 8\n"),
            ("[image]\n  input.batch_size = 2\n", "[image]\n  input.batch_size = 2\n  input.prefetch = 8\n"),
            ("image.input.prefetch = 2\n", "image.input.prefetch = 8\n"),
            ('["image"."input"]\n"prefetch" = 2\n', '["image"."input"]\n"prefetch" = 8\n'),
            ("[ image . input ]\nprefetch=2", "[ image . input ]\nprefetch= 8"),
            (
                "[image.input.augmentation]\nflip = 0.5\n",
                "[image.input.augmentation]\nflip = 0.5\n\n[image.input]\nprefetch = 8\n",
            ),
            (
                "[image.input]\npad_to = [\n  64,\n  512,\n]\nprefetch = 2\n",
                "[image.input]\npad_to = [\n  64,\n  512,\n]\nprefetch = 8\n",
            ),
        ],
        ids=["dotted", "new dotted", "dotted at the top", "quoted", "blanks", "table below", "several lines"],
    )
    def test_other_ways_to_write_it(self, text: str, expected: str) -> None:
        """As TOML allows."""
        assert edited(text, prefetch=8) == expected

    def test_line_ends_are_kept(self) -> None:
        """Those of Windows too."""
        assert edited("[image.input]\r\nprefetch = 2\r\n", prefetch=8, order="exact") == (
            '[image.input]\r\nprefetch = 8\r\norder = "exact"\r\n'
        )

    @pytest.mark.parametrize(
        "text",
        [
            "image = { input = { prefetch = 2 } }\n",
            '[image.input]\ncache_directory = """\n[image.input]\nprefetch = 2\n"""\nprefetch = 3\n',
        ],
        ids=["inline table", "text that looks like settings"],
    )
    def test_what_cannot_be_edited_is_left_alone(self, text: str) -> None:
        """Rather than disturbed."""
        assert edited(text, prefetch=8) is None

    @hypothesis.given(strategies.text())
    def test_any_text_can_be_a_value(self, value: str) -> None:
        """It is read back as it was."""
        hypothesis.assume(not any("\ud800" <= char <= "\udfff" for char in value))

        first = edited("", cache_directory=value)
        second = edited(first or "", cache_directory="", prefetch=2)

        assert tomli.loads(first or "") == {"image": {"input": {"cache_directory": value}}}
        assert second == '[image.input]\ncache_directory = ""\nprefetch = 2\n'


class TestWrite:
    """The file changes whole or not at all."""

    def test_the_file_is_made(self, tmp_path: Path) -> None:
        """Where there was none."""
        overlay.write(tmp_path / "penstock.toml", TABLE, {"prefetch": 8})

        assert (tmp_path / "penstock.toml").read_text() == "[image.input]\nprefetch = 8\n"

    def test_rights_and_links_are_kept(self, tmp_path: Path) -> None:
        """The file behind a link is what changes."""
        real, link = tmp_path / "real.toml", tmp_path / "penstock.toml"
        real.write_text("[image.input]\nprefetch = 2\n")
        real.chmod(0o640)
        link.symlink_to(real)
        overlay.write(link, TABLE, {"prefetch": 8})

        assert (link.is_symlink(), real.read_text()) == (True, "[image.input]\nprefetch = 8\n")
        assert real.stat().st_mode & 0o777 == 0o640
        assert sorted(path.name for path in tmp_path.iterdir()) == ["penstock.toml", "real.toml"]

    def test_what_cannot_be_edited_is_said_with_the_lines_to_add(self, tmp_path: Path) -> None:
        """And the file stays as it was."""
        path = tmp_path / "penstock.toml"
        path.write_text("image = { input = { prefetch = 2 } }\n")

        with pytest.raises(SettingsError) as caught:
            overlay.write(path, TABLE, {"prefetch": 8, "order": "fastest"})

        assert str(caught.value).endswith('Add this yourself:\n[image.input]\nprefetch = 8\norder = "fastest"')
        assert path.read_text() == "image = { input = { prefetch = 2 } }\n"

    @pytest.mark.parametrize("content", [b"[image", b"\xff"], ids=["not TOML", "not UTF-8"])
    def test_a_broken_file_is_not_touched(self, tmp_path: Path, content: Any) -> None:
        """It is for its author to mend."""
        path = tmp_path / "penstock.toml"
        path.write_bytes(content)

        with pytest.raises(SettingsError, match="not valid TOML"):
            overlay.write(path, TABLE, {"prefetch": 8})

        assert path.read_bytes() == content
