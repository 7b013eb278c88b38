"""The process that posts a notification: nothing it waits for, not even a name server, can outlast its time limit.

It reads address and body from standard input, so that the address is in no list of processes, and prints the answer.
Only http and https, certificates are checked, no redirect is followed, and a part of the answer is read.
"""

import json
import math
import signal
import ssl
import sys
import urllib.error
import urllib.request
from typing import Any

_MOST = 512  # bytes of an answer


def main() -> None:
    """Posts what standard input says, and prints how that ended as JSON."""
    request = json.load(sys.stdin)
    signal.alarm(math.ceil(request["seconds"]) + 1)  # if the process that waits for this one was killed
    print(json.dumps(post(**request)))


def post(url: str, id: str, body: str, seconds: float) -> dict[str, Any]:  # noqa: A002 - the name of the field
    """Returns status and answer of a receiver, or the error that prevented it."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": id, "User-Agent": "penstock"}
    request = urllib.request.Request(url, body.encode(), headers, method="POST")  # noqa: S310 - the scheme is checked
    try:
        with _opener().open(request, timeout=seconds) as answer:
            return {"status": answer.status, "answer": _text(answer)}
    except urllib.error.HTTPError as error:
        with error:
            return {"status": error.code, "answer": _text(error)}
    except (OSError, ValueError, urllib.error.URLError) as error:
        return {"error": str(getattr(error, "reason", "") or str(error) or type(error).__name__)}
    except Exception as error:  # noqa: BLE001 - http.client's errors may quote the address
        return {"error": type(error).__name__}


def _opener() -> urllib.request.OpenerDirector:
    """Returns an opener without handlers of files, FTP, cookies, passwords and redirects."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=ssl.create_default_context()),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def _text(answer: Any) -> str:
    try:
        return answer.read(_MOST).decode(errors="replace")
    except OSError:  # it has the notification: the status says so
        return ""
