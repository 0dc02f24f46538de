"""What an installation makes and asks before its services run: keys, passwords, readiness, the list of settings."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from joserfc.jwk import OKPKey

from placet.contracts.signing import SIGNERS, KeysUnusable, Purpose, create_keys, load_signer, load_verifier
from placet.deploy import example_env, keys, readiness
from placet.runtime.settings import NAMES, Settings

ROOT = Path(__file__).parents[3]
#: A key, but none that signs.
OTHER = OKPKey.generate_key("X25519", auto_kid=True).as_dict(private=True) | {"iss": "policy"}
OURS = OKPKey.generate_key("Ed25519", auto_kid=True).as_dict(private=True) | {"iss": "policy"}


def test_each_signer_has_one_private_key_and_everybody_verifies_it(tmp_path: Path) -> None:
    """A folder per signer; each holds all public keys, and no folder another's private one."""
    keys.create_folders(tmp_path)
    private = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.private.json")}
    assert {f"{signer}/{signer}.private.json" for signer in SIGNERS} == private
    token = load_signer(tmp_path / "policy", "policy").sign(Purpose.PERMIT, {"call": "1"})
    for folder in (*SIGNERS, keys.PUBLIC):
        assert load_verifier(tmp_path / folder).verify(Purpose.PERMIT, token)["iss"] == "policy"


def test_keys_outlive_the_next_start(tmp_path: Path) -> None:
    """Permits and sessions signed before stay good."""
    assert len(SIGNERS) == len(keys.create_folders(tmp_path))
    before = {path: path.read_text() for path in tmp_path.rglob("*.json")}
    assert keys.create_folders(tmp_path) == []
    assert before == {path: path.read_text() for path in tmp_path.rglob("*.json")}


def test_a_private_key_is_its_owner_s_alone(tmp_path: Path) -> None:
    """Also where the folder is given to the services' user."""
    keys.create_folders(tmp_path, os.getuid())
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*.private.json")}
    assert {0o600} == modes


def test_env_sh_adds_what_is_missing_and_keeps_the_rest(tmp_path: Path) -> None:
    """Passwords are random, long, and written once."""
    file = tmp_path / "env"
    file.write_text("PLACET_MODEL=x\nPLACET_RABBITMQ_PASSWORD_AGENT=mine\n")
    for _ in range(2):
        subprocess.run([ROOT / "deploy" / "env.sh", file], check=True, capture_output=True)
    lines = [line.split("=") for line in file.read_text().splitlines()]
    values = dict(lines)
    assert (len(values), "mine", "x") == (len(lines), values["PLACET_RABBITMQ_PASSWORD_AGENT"], values["PLACET_MODEL"])
    made = [value for name, value in lines if "PASSWORD" in name and value != "mine"]
    assert {48} == {len(value) for value in made}
    assert len(made) == len(set(made))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_demo_that_was_taken_out_does_not_come_back(tmp_path: Path) -> None:
    """A password that is made anew is no reason to start it: only a new file has it."""
    file, profile = tmp_path / "env", "COMPOSE_PROFILES=demo\n"
    subprocess.run([ROOT / "deploy" / "env.sh", file], check=True, capture_output=True)
    new = file.read_text()
    file.write_text(new.replace(profile, ""))
    subprocess.run([ROOT / "deploy" / "env.sh", file], check=True, capture_output=True)
    assert (True, new.replace(profile, "")) == (profile in new, file.read_text())


@contextmanager
def answering(status: int) -> Iterator[int]:
    """Serve one status at /readyz, 404 elsewhere; yield the port."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("status", "path", "ready"), [(200, "/readyz", True), (503, "/readyz", False), (200, "/", False)]
)
def test_the_health_check_says_what_the_service_says(status: int, path: str, ready: bool) -> None:  # noqa: FBT001  # a table
    """Only a 200 is ready."""
    with answering(status) as port:
        assert ready is readiness.is_ready(port, path)


def test_the_health_check_fails_where_nobody_listens() -> None:
    """A service that has not opened its port is not ready."""
    with answering(200) as port:
        pass
    assert readiness.is_ready(port, "/readyz") is False


def test_the_health_check_asks_on_the_health_port() -> None:
    """Unless its arguments say otherwise."""
    environment = {"PLACET_HEALTH_PORT": "8081"}
    asked = [readiness.place(arguments, environment) for arguments in ([], ["9090"], ["9090", "/healthz"])]
    assert [(8081, "/readyz"), (9090, "/readyz"), (9090, "/healthz")] == asked


def test_the_example_names_every_setting() -> None:
    """`python -m placet.deploy.example_env` would change nothing."""
    assert example_env.COMMITTED.read_text() == example_env.text()
    assert NAMES.read_text() == example_env.names_text()


def test_the_pages_name_no_setting_that_the_example_hides() -> None:
    """Whoever reads of one finds its default and its meaning."""
    shown = set(re.findall(r"(?m)^#(PLACET_\w+)=", example_env.text()))
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), ROOT / "compose.yaml"]
    told = {name for page in pages for name in re.findall(r"\bPLACET_[A-Z_]*[A-Z]\b", page.read_text())}
    assert set() == told & example_env.known_names() - shown


def test_the_example_shows_defaults_as_the_environment_spells_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taking the comment signs away from what has a default changes nothing, in any service."""
    lines = [line[1:] for line in example_env.text().splitlines() if line.startswith("#PLACET_")]
    given = {name: value for name, _, value in (line.partition("=") for line in lines) if value and value[0] != '"'}
    kinds: list[Callable[[], object]] = [Settings, *(kind for _, kind in example_env.settings_classes())]
    plain = [kind() for kind in kinds]
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert plain == [kind() for kind in kinds]


def test_the_committed_files_hold_no_password() -> None:
    """The definitions have empty hashes, and the example no value but a default."""
    users = json.loads((ROOT / "deploy" / "rabbitmq" / "definitions.json").read_text())["users"]
    assert not any(user["password_hash"] for user in users)
    values = [line for line in example_env.text().splitlines() if line and not line.startswith("#")]
    assert values == []


def started(folder: Path, *command: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a module in a folder with some settings; return what it said when it had ended."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PLACET_TOOLS": str(ROOT / "examples")} | settings
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("command", "speaker"),
    [
        (["placet.dead_letters"], "placet dead_letters"),
        (["placet.cli", "migrate"], "placet"),
        (["placet.cli", "up"], "placet"),
    ],
)
def test_a_misspelt_setting_stops_the_start_with_one_line(tmp_path: Path, command: list[str], speaker: str) -> None:
    """Nothing is begun, and no file is made, with a setting that its author only believes to count."""
    done = started(tmp_path, *command, PLACET_DATABSE_URL="x")
    line = f"{speaker}: PLACET_DATABSE_URL is no setting of Placet, did you mean PLACET_DATABASE_URL?\n"
    assert (2, line, []) == (done.returncode, done.stderr, list(tmp_path.iterdir()))


def test_a_taken_port_stops_the_start_with_one_line(tmp_path: Path) -> None:
    """Whoever reads the second one's output is told the address; above it stands what the web server logs of it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = started(tmp_path, "placet.dead_letters", PLACET_HEALTH_PORT=port, PLACET_HEALTH_HOST="127.0.0.1")
    line = f"placet dead_letters: cannot listen on 127.0.0.1:{port}: Address already in use\n"
    logged, told = done.stderr.splitlines(keepends=True)
    assert (2, line, "error") == (done.returncode, told, json.loads(logged)["level"])


def test_a_missing_key_stops_the_start_with_one_line(tmp_path: Path) -> None:
    """It says which file is missing and what makes it."""
    rulebook = str(ROOT / "deploy" / "rulebook.yaml")
    done = started(tmp_path, "placet.executor", PLACET_KEYS=str(tmp_path), PLACET_RULEBOOK=rulebook)
    told = f"cannot read {tmp_path / 'public.json'}: No such file or directory; "
    told += "`placet migrate` makes signing keys for one machine, "
    told += "`python -m placet.deploy.keys` for services that run apart"
    assert (2, f"placet executor: {told}\n") == (done.returncode, done.stderr)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        "7",
        "[" * 100_000,
        '{"keys": []}',
        '{"keys": [{"iss": "policy"}]}',
        '{"keys": [{"iss": "policy", "kid": "k", "kty": "OKP"}]}',
        json.dumps(OTHER | {"keys": [OTHER]}),
        json.dumps((odd := OURS | {"kid": [1]}) | {"keys": [odd]}),
    ],
    ids=range(10),
)
def test_a_file_without_keys_is_named_and_not_shown(tmp_path: Path, text: str) -> None:
    """Whatever stands in it, it may be half of a private key."""
    create_keys(tmp_path)
    loads: dict[str, Callable[[Path], object]] = {
        "policy.private": partial(load_signer, issuer="policy"),
        "public": load_verifier,
    }
    told = []
    for name, load in loads.items():
        (tmp_path / f"{name}.json").write_text(text)
        with pytest.raises(KeysUnusable) as refused:
            load(tmp_path)
        told.append(str(refused.value) == f"{tmp_path / name}.json holds no signing keys")
    assert [True, True] == told


@pytest.mark.parametrize("said", [[1], 7])
def test_a_public_key_of_no_issuer_is_named(tmp_path: Path, said: object) -> None:
    """Who makes keys, and who verifies by them, hears of the file."""
    create_keys(tmp_path)
    (tmp_path / "public.json").write_text(json.dumps({"keys": [OURS | {"iss": said}]}))
    for load in (load_verifier, create_keys):
        with pytest.raises(KeysUnusable, match=r"public\.json holds no signing keys"):
            load(tmp_path)


def test_keys_that_were_taken_back_are_never_forgotten_for_a_damaged_file(tmp_path: Path) -> None:
    """Nothing verifies until it can be read again."""
    create_keys(tmp_path)
    (tmp_path / "taken-back.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(KeysUnusable, match=r"cannot read .*taken-back\.txt"):
        load_verifier(tmp_path)


def test_a_public_key_signs_nothing(tmp_path: Path) -> None:
    """It is refused when it is loaded, not when the first permit is due."""
    create_keys(tmp_path, ["policy"])
    (key,) = json.loads((tmp_path / "public.json").read_text())["keys"]
    (tmp_path / "policy.private.json").write_text(json.dumps(key))
    with pytest.raises(KeysUnusable, match=r"policy\.private\.json holds no private key"):
        load_signer(tmp_path, "policy")


@pytest.mark.parametrize("changed", ["another signer's", "another pair's", "half of a pair"])
def test_a_key_that_nobody_could_verify_is_refused_when_it_is_loaded(tmp_path: Path, changed: str) -> None:
    """Not when the first permit is due: that call would never run, and nobody would be told."""
    create_keys(tmp_path)
    path = tmp_path / "policy.private.json"
    ours, other = (json.loads((tmp_path / f"{name}.private.json").read_text()) for name in ("policy", "approval"))
    new = OKPKey.generate_key("Ed25519", auto_kid=True).as_dict(private=True)
    found = {"another signer's": other, "another pair's": new, "half of a pair": ours | {"d": other["d"]}}
    path.write_text(json.dumps(found[changed]))
    with pytest.raises(KeysUnusable, match=r"policy\.private\.json does not fit the public keys beside it"):
        load_signer(tmp_path, "policy")


def test_a_damaged_key_is_neither_replaced_nor_a_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever was signed with it would be good no more; so who makes keys says which file it is, and stops."""
    (tmp_path / "policy").mkdir()
    damaged = tmp_path / "policy" / "policy.private.json"
    damaged.write_text("{")
    assert 1 == keys.main([str(tmp_path)])
    assert ("{", f"placet: {damaged} holds no signing keys\n") == (damaged.read_text(), capsys.readouterr().err)
