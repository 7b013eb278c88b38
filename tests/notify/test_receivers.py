"""A real HTTP receiver and real commands, as they are and as they should not be."""

import json
import os
import ssl
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from pipelines.notify import bounded
from pipelines.notify.notification import body
from pipelines.notify.receivers import Answer, CommandReceiver, WebhookReceiver

SECONDS = 60.0  # nothing here waits that long
FIELDS = ["text", "event", "pipeline", "run", "span", "state", "exit_code", "reason", "live_version", "host", "id"]


def webhook(url: str) -> WebhookReceiver:
    """Returns a receiver of an address."""
    return WebhookReceiver(lambda: url, "notify.webhook_file")


def command(*words: str) -> CommandReceiver:
    """Returns a receiver that is a shell script, with its arguments."""
    return CommandReceiver(("/bin/sh", "-c", *words), Path("/"))


def test_a_webhook_gets_json(receiver: Any, a_notification: Any) -> None:
    """With a text for chat programs, and an id by which it can leave out what it has."""
    made = a_notification(span="2026-03-08", live_version=3)
    answer = webhook(receiver.url).send(made, SECONDS)
    (got,), (headers,) = receiver.got, receiver.headers

    assert answer == Answer(True, "HTTP 200: ok")
    assert (headers["Content-Type"], headers["Idempotency-Key"]) == ("application/json", made.id)
    assert [name for name in FIELDS if name not in got] == []
    assert got["text"] == ("ants: failed: data: empty (run R, span 2026-03-08, exit code 4, live version 3, host here)")


def test_data_in_a_reason_mentions_nobody(a_notification: Any) -> None:
    """D6: neither Slack's <!channel> nor Mattermost's @all, which a label could contain."""
    assert "class <!channel> & @all" not in a_notification(reason="class <!channel> & @all").text
    assert "class &lt;!channel&gt; &amp; @\u200ball" in a_notification(reason="class <!channel> & @all").text


@pytest.mark.parametrize(
    ("status", "try_again"), [(500, True), (503, True), (429, True), (400, False), (404, False), (302, False)]
)
def test_an_answer_other_than_success(status: int, try_again: bool, receiver: Any, a_notification: Any) -> None:
    """D5: is no success, and what it repeats of the address is hidden; some are worth another attempt."""
    receiver.answers = [(status, f"no hook {receiver.url.rpartition('/')[2]}")]
    receiver.more = {"Location": receiver.url}
    answer = webhook(receiver.url).send(a_notification(), SECONDS)

    assert (answer.is_taken, answer.try_again, len(receiver.got)) == (False, try_again, 1)
    assert answer.text.startswith(f"HTTP {status}: ")
    assert "T0K3N" not in answer.text


def test_a_redirect_is_not_followed(receiver: Any, a_notification: Any) -> None:
    """D7: the notification goes to the address that was given, and to no other."""
    receiver.answers = [(307, "")]
    receiver.more = {"Location": f"http://localhost:{receiver.server.server_port}/elsewhere"}
    answer = webhook(receiver.url).send(a_notification(), SECONDS)

    assert answer.text == "HTTP 307: a redirect, which is not followed; give the address that it leads to"
    assert len(receiver.got) == 1


def test_a_long_answer_is_not_read_to_its_end(receiver: Any, a_notification: Any) -> None:
    """D7: nor kept."""
    receiver.answers = [(200, "a" * (8 << 20))]
    answer = webhook(receiver.url).send(a_notification(), SECONDS)

    assert answer.is_taken
    assert len(answer.text) < 300


def test_a_receiver_that_is_down(receiver: Any, a_notification: Any) -> None:
    """Is worth another attempt."""
    receiver.stop()
    answer = webhook(receiver.url).send(a_notification(), SECONDS)

    assert (answer.is_taken, answer.try_again) == (False, True)
    assert "refused" in answer.text
    receiver.__init__()  # for the end of the fixture


def test_a_receiver_that_does_not_answer(receiver: Any, a_notification: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that waits for it is killed at the limit."""
    receiver.is_slow = True
    processes = []

    def until_it_has_arrived(process: Any, seconds: float) -> int:
        processes.append(process)
        assert receiver.arrived.wait(SECONDS)
        raise subprocess.TimeoutExpired("", seconds)

    monkeypatch.setattr(bounded, "_wait", until_it_has_arrived)
    answer = webhook(receiver.url).send(a_notification(), 7.0)

    assert answer == Answer(False, "no answer within 7.0 s")
    assert [process.returncode for process in processes] == [-9]


def test_a_certificate_is_checked(a_notification: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D7: a receiver with a certificate that no authority has signed gets nothing."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1", "-keyout", key, "-out",
         certificate, "-addext", "subjectAltName=IP:127.0.0.1"],
        check=False, capture_output=True,
    )  # fmt: skip
    if made.returncode:
        pytest.skip("no openssl to make a certificate with")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    got: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Prints nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    answers = [webhook(f"https://127.0.0.1:{server.server_port}/a").send(a_notification(), SECONDS)]
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))  # now it is trusted
    answers.append(webhook(f"https://127.0.0.1:{server.server_port}/a").send(a_notification(), SECONDS))
    server.shutdown()
    thread.join()
    server.server_close()

    assert [answer.is_taken for answer in answers] == [False, True]
    assert "CERTIFICATE_VERIFY_FAILED" in answers[0].text
    assert got == ["/a"]


def test_a_command_gets_json_and_variables(a_notification: Any, tmp_path: Path) -> None:
    """Its arguments are its own: no shell reads them."""
    program = "import json, os, sys; print(json.load(sys.stdin)['run'], os.environ['PENSTOCK_EVENT'], sys.argv[1:])"
    receiver = CommandReceiver((sys.executable, "-c", program, "$(id); *"), tmp_path)

    assert receiver.send(a_notification(), SECONDS) == Answer(
        True, "exit code 0: R failed ['$(id); *']", try_again=True, is_about_one=True
    )


def test_a_command_gets_a_whole_line(a_notification: Any) -> None:
    """`read` of a shell fails on one without its end."""
    answer = command('read -r line && echo "${#line}"').send(a_notification(), SECONDS)

    assert answer.text == f"exit code 0: {len(body(a_notification()))}"


def test_a_command_that_does_not_read(a_notification: Any) -> None:
    """It need not: variables have all fields, and a long notification fills no pipe."""
    made = a_notification(reason="x" * 100_000)
    answer = command('echo "${#PENSTOCK_EVENT_REASON} $PENSTOCK_EVENT_EXIT_CODE"').send(made, SECONDS)

    assert answer.text == "exit code 0: 100000 4"


@pytest.mark.parametrize(
    ("receiver", "text"),
    [
        (command("echo trying; echo no mail; exit 3"), "exit code 3: no mail"),
        (command("kill -9 $$"), "exit code -9"),
        (CommandReceiver(("/no/such/program",), Path("/")), "cannot be started: No such file or directory"),
        (CommandReceiver(("/etc/passwd",), Path("/")), "cannot be started: Permission denied"),
    ],
)
def test_a_command_that_fails(receiver: CommandReceiver, text: str, a_notification: Any) -> None:
    """Its exit code and last line are shown."""
    answer = receiver.send(a_notification(), SECONDS)

    assert (answer.is_taken, answer.text) == (False, text)


def test_a_command_that_prints_much(a_notification: Any) -> None:
    """The last line is kept, and no memory is filled."""
    assert command("yes | head -c 50000000; echo; echo end").send(a_notification(), SECONDS).text == "exit code 0: end"


def test_a_command_that_hangs_is_killed_with_all_that_it_started(
    a_notification: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the limit its process group ends: no process holds the pipe any more that its child had open."""
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reading, True)

    def until_it_has_started(process: Any, seconds: float) -> int:
        del process
        while not os.read(reading, 1):  # nothing until the command has opened it
            pass
        raise subprocess.TimeoutExpired("", seconds)

    monkeypatch.setattr(bounded, "_wait", until_it_has_started)
    hanging = command('exec 3>"$0"; (trap "" TERM; printf x >&3; sleep 1000) & wait', str(tmp_path / "pipe"))
    answer = hanging.send(a_notification(), 5.0)
    rest = os.read(reading, 1)
    os.close(reading)

    assert answer == Answer(False, "stopped: it did not end within 5.0 s")
    assert rest == b""


def test_what_is_left_in_the_background_does_not_hold_the_run(
    a_notification: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command may leave a process that goes on; its output is waited for a moment only."""
    monkeypatch.setattr(bounded, "_DRAIN", 0.0)
    os.mkfifo(tmp_path / "go")
    answer = command('(read word < "$0") & exit 0', str(tmp_path / "go")).send(a_notification(), SECONDS)
    with (tmp_path / "go").open("w") as go:  # it is still there, and reads
        go.write("on\n")

    assert answer.is_taken


def test_json_is_one_object(a_notification: Any, receiver: Any) -> None:
    """Also if a reason has every character that JSON escapes."""
    made = a_notification(reason='"\\\n\t\x7f\u2028é')
    webhook(receiver.url).send(made, SECONDS)

    assert json.loads(json.dumps(receiver.got[0]))["reason"] == made.reason
