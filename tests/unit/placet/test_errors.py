"""What a command says when it cannot do what was asked, to people and to programs."""

from __future__ import annotations

import json
import sys

import pytest

from services.placet.cli.main import main
from tests.support.system import free_port


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
        (("keys", "create"), 2, "Missing option '--person'"),
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
