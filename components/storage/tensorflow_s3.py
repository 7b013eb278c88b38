"""TensorFlow's own access to s3://: tensorflow-io, its environment, and the end of a process that used it.

tensorflow-io reads other variables than obstore and boto3 do. After it has used S3, the interpreter aborts at exit
("pure virtual method called", exit code 134) although all has succeeded: such a process ends with `end`.
"""

import importlib
import os
import sys
from typing import NoReturn

from components.storage import object_stores

_used: list[bool] = []


def enable() -> None:
    """Makes TensorFlow read s3:// in this process. Can be called repeatedly."""
    if endpoint := object_stores.endpoint("s3"):
        os.environ["S3_ENDPOINT"] = endpoint  # with its scheme: without, every call stalls for a minute
    if region := os.environ.get("AWS_DEFAULT_REGION"):
        os.environ.setdefault("AWS_REGION", region)
    if os.environ.get("AWS_ACCESS_KEY_ID"):  # else the credentials may come from Amazon's metadata, for which it waits
        os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    importlib.import_module("tensorflow_io")
    _used.append(True)


def end(code: int) -> None:
    """Ends the process with an exit code if TensorFlow may have used S3; else returns."""
    if _used:
        _end(code)


def _end(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
