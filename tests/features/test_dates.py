"""Dates become days since 1970, as in Python's calendar; other strings become NaN."""

import datetime as dt
import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from components.features import dates

EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - zones are ignored
# Precision of float32: a quarter of a day for the years 1 to 9999, five minutes for today.
_ROUNDING = 1e-6


def days(*texts: str) -> Any:
    """Returns the days of texts."""
    return dates.days(tf.constant([text.encode() for text in texts])).numpy()


@given(st.lists(st.dates(), min_size=1))
def test_whole_days_are_exact(some: list[dt.date]) -> None:
    """Leap years, centuries and dates before 1970 included."""
    expected = [(day - EPOCH.date()).days for day in some]

    np.testing.assert_array_equal(days(*(day.isoformat() for day in some)), np.array(expected, np.float32))


@given(st.datetimes(), st.sampled_from([" ", "T"]), st.sampled_from(["", "Z", "+02:00", " -0530"]))
def test_a_time_is_a_fraction_of_its_day(moment: dt.datetime, between: str, zone: str) -> None:
    """Fractions of a second and the zone are ignored."""
    expected = (moment.replace(microsecond=0) - EPOCH) / dt.timedelta(days=1)

    np.testing.assert_allclose(days(moment.isoformat(between) + zone), [expected], rtol=_ROUNDING, atol=_ROUNDING)


def test_seconds_are_optional_and_spaces_are_ignored() -> None:
    """A quarter, a half and no fraction of the first day."""
    assert days("1970-01-02 06:00", " 1970-01-02T12:00\n", "1970-01-02").tolist() == [1.25, 1.5, 1.0]


@pytest.mark.parametrize(
    "text",
    ["", " ", "?", "2026", "2026-11", "16.11.2026", "11/16/2026", "2026-11-16x", "2026-1-2", "12026-01-01",
     "x2026-01-01", "2026-00-10", "2026-13-10", "2026-01-00", "2026-01-32", "2026-02-29", "1900-02-29", "2026-04-31",
     "2026-11-16 24:00", "2026-11-16 08:60", "2026-11-16 08:30:60", "٢٠٢٦-١١-١٦", "2026-11-16\0"],
)  # fmt: skip
def test_a_string_that_is_not_a_date_becomes_nan(text: str) -> None:
    """A day that does not exist too; other values of the batch are not affected."""
    before, found, after = days("1970-01-01", text, "1970-01-03").tolist()

    assert (before, math.isnan(found), after) == (0.0, True, 2.0)


def test_tf_data_gives_the_days_of_eager_calls() -> None:
    """TensorFlow runs different code for them."""
    texts = ["2026-11-16", "", "2024-02-29 12:00"]
    (found,) = tf.data.Dataset.from_tensors(tf.constant(texts)).map(dates.days).as_numpy_iterator()

    np.testing.assert_array_equal(found, days(*texts))
