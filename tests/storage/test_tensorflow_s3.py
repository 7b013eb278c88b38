"""TensorFlow asks the same server for s3:// as obstore does, with the same credentials."""

import importlib
import os

import pytest

from components.storage import tensorflow_s3


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "S3_ENDPOINT", "AWS_REGION", "AWS_ACCESS_KEY_ID"):
        monkeypatch.setenv(name, "")  # restored afterwards, whatever `enable` does
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "")
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    monkeypatch.setattr(importlib, "import_module", lambda _: None)  # tensorflow-io, which takes seconds
    monkeypatch.setattr(tensorflow_s3, "_used", [])


def test_the_server_is_that_of_obstore(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable for S3 alone counts first."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:2")
    monkeypatch.setenv("S3_ENDPOINT", "http://127.0.0.1:3")
    tensorflow_s3.enable()
    assert os.environ["S3_ENDPOINT"] == "http://127.0.0.1:2"


def test_credentials_of_a_machine_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Amazon's metadata is left out only if there are credentials in the environment."""
    tensorflow_s3.enable()
    assert "AWS_EC2_METADATA_DISABLED" not in os.environ
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    tensorflow_s3.enable()
    assert os.environ["AWS_EC2_METADATA_DISABLED"] == "true"
