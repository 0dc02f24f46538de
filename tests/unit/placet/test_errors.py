"""What a command says when it cannot do what was asked, to people and to programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from aiormq.exceptions import AMQPConnectionError

from placet.cli import main as main_module
from placet.cli.main import main
from tests.support.ports import free_port
from tests.support.system import ROOT, SHOP_RULEBOOK


@pytest.fixture
def nobody_answers(monkeypatch: pytest.MonkeyPatch) -> str:
    """An address where no gateway is."""
    url = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("PLACET_URL", url)
    monkeypatch.setenv("PLACET_KEY", "placet_x")
    return url


def outcome(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    """Run the command; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["placet", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("approvals", "list"), 1, "no answer from "),
        (("approvals", "show", "x"), 1, "no answer from "),
        (("dead-letters", "discard", "x"), 1, "no answer from "),
        (("deliveries", "list"), 1, "no answer from "),
        (("deliveries", "retry", "x"), 1, "no answer from "),
        (("webhooks", "list"), 1, "no answer from "),
        (("webhooks", "retry", "x"), 1, "no answer from "),
        (("chat", "--conversation", "c"), 2, "--conversation needs --token"),
        (("chat", "--message", ""), 2, "--message is blank"),
        (("chat", "-m", " "), 2, "--message is blank"),
        (("keys", "create"), 2, "Missing option '--person'"),
        (("audit", "verify", "--data", "nowhere"), 2, "no `placet up` runs in nowhere"),
        (("verify", "--data", "nowhere"), 2, "no `placet up` runs in nowhere"),
        (("rulebook", "explain", __file__), 2, "not JSON"),
        (("approvals", "list", "--nonsense"), 2, "No such option: --nonsense"),
        (("approvals", "list", "--limit", "0"), 2, "Invalid value for '--limit'"),
    ],
)
@pytest.mark.usefixtures("nobody_answers")
def test_an_error_is_one_line_or_one_json_object(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    told: str,
) -> None:
    """`--json` changes the form of what is said and neither the words nor the exit code."""
    assert code == outcome(monkeypatch, *arguments)
    line = capsys.readouterr().err
    assert code == outcome(monkeypatch, *arguments, "--json")
    printed = capsys.readouterr()
    error = json.loads(printed.err)
    assert (f"placet: {error['error']}\n", "", ["error"]) == (line, printed.out, list(error))
    assert told in line


@pytest.mark.usefixtures("nobody_answers")
def test_a_chat_that_goes_on_is_no_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Who asks for JSON gets JSON or is told what to do."""
    code = outcome(monkeypatch, "chat", "--json")
    told = {"error": "--json needs --message: it prints what one message led to"}
    assert (2, told) == (code, json.loads(capsys.readouterr().err))


@pytest.mark.parametrize("key", ["ü", "a\nb", "a b"])
def test_a_key_that_is_none_is_told_without_showing_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    """What no header can carry never leaves, and nobody blames the server."""
    monkeypatch.setenv("PLACET_KEY", key)
    code = outcome(monkeypatch, "approvals", "list")
    expected = "placet: PLACET_KEY is no API key: it must be printable ASCII without spaces\n"
    assert (2, expected) == (code, capsys.readouterr().err)


def test_a_key_file_that_holds_none_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What is in it is not shown."""
    monkeypatch.delenv("PLACET_KEY", raising=False)
    monkeypatch.setenv("PLACET_DATA", str(tmp_path))
    (tmp_path / "admin.key").write_text("two words")
    code = outcome(monkeypatch, "approvals", "list")
    expected = f"placet: {tmp_path / 'admin.key'} holds no API key: it must be printable ASCII without spaces\n"
    assert (2, expected) == (code, capsys.readouterr().err)


@pytest.mark.usefixtures("nobody_answers")
def test_a_token_that_is_none_is_told_before_the_chat_begins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The listener behind the chat would say it a second time, with a traceback."""
    code = outcome(monkeypatch, "chat", "--conversation", "c", "--token", "ü", "-m", "hello")
    expected = "placet: --token is no token: it must be printable ASCII without spaces\n"
    assert (2, expected) == (code, capsys.readouterr().err)


def printing_to(output: int, *arguments: str) -> tuple[int, str]:
    """Run the command with standard output there; return its exit code and what it says on standard error."""
    command = [sys.executable, "-m", "placet.cli", *arguments]
    ended = subprocess.run(command, cwd=ROOT, stdout=output, stderr=subprocess.PIPE, text=True, check=False)
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("arguments", [("--help",), ("rulebook", "check", str(SHOP_RULEBOOK), "--json")])
def test_output_that_cannot_be_written_is_one_line(arguments: tuple[str, ...]) -> None:
    """A full disk is told whether it shows at once or only at the end."""
    with Path("/dev/full").open("w") as full:
        code, said = printing_to(full.fileno(), *arguments)
    assert (1, 1, True) == (code, said.count("\n"), "cannot print: No space left on device" in said)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("postman",), "placet: no service is called 'postman'; there are gateway, agent, policy, approval, notifier"),
        (("agent", "--pool", "bulk"), "placet: --pool is for the executor"),
        (("executor", "--pool", "no pool"), "placet executor: PLACET_EXECUTOR_POOLS"),
    ],
)
def test_a_service_that_cannot_run_is_told_in_one_line(arguments: tuple[str, ...], told: str) -> None:
    """By the command, or by the service in its place."""
    code, said = printing_to(subprocess.DEVNULL, "run", *arguments)
    assert (2, 1, told) == (code, said.count("\n"), said[: len(told)])


def test_a_lost_connection_is_no_error_of_printing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The libraries' connection errors are errors of the system too, most of them without a number."""

    def lose(**_: object) -> None:
        raise AMQPConnectionError("INTERNAL_ERROR")

    monkeypatch.setattr(main_module, "app", lose)
    with pytest.raises(SystemExit) as ended:
        main_module.main()
    assert (1, "placet: AMQPConnectionError: INTERNAL_ERROR\n") == (ended.value.code, capsys.readouterr().err)


@pytest.mark.parametrize("arguments", [("--help",), ("rulebook", "check", str(SHOP_RULEBOOK), "--json")])
def test_a_reader_that_went_away_is_told_nothing(arguments: tuple[str, ...]) -> None:
    """`placet … | head -1` is no mistake."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert (1, "") == printing_to(writing, *arguments)
    finally:
        os.close(writing)
