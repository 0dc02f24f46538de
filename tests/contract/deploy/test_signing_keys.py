"""Signing keys that are changed: announced before they sign, good for the past, and taken back."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import IO

import pytest

from placet.contracts.errors import PlacetError
from placet.contracts.signing import (
    SIGNERS,
    BadSignature,
    KeysUnusable,
    Purpose,
    create_keys,
    load_signer,
    load_verifier,
)
from placet.deploy import keys

PURPOSE = Purpose.PERMIT


def apart(root: Path) -> tuple[Path, Path]:
    """Make keys of services that run apart; return where policy's lie, and where those who only verify look."""
    keys.create_folders(root)
    return root / "policy", root / keys.PUBLIC


def together(root: Path) -> tuple[Path, Path]:
    """Make keys of one machine."""
    create_keys(root)
    return root, root


LAYOUTS = pytest.mark.parametrize("layout", [apart, together])
Layout = Callable[[Path], tuple[Path, Path]]


def signed(folder: Path) -> str:
    """Return a permit that policy has signed."""
    return load_signer(folder, "policy").sign(PURPOSE, {"call": "1"})


def good(folder: Path, token: str) -> bool:
    """Tell whether a permit verifies."""
    try:
        load_verifier(folder).verify(PURPOSE, token)
    except BadSignature:
        return False
    return True


@LAYOUTS
def test_a_new_key_is_known_everywhere_before_it_signs(tmp_path: Path, layout: Layout) -> None:
    """Announced, then in use: whoever has read the keys in between verifies what is signed before and after."""
    own, others = layout(tmp_path)
    before = signed(own)
    first = keys.rotate(tmp_path, "policy")
    meanwhile, verifier = signed(own), load_verifier(others)
    second = keys.rotate(tmp_path, "policy", restarted=True)
    after = signed(own)
    ids = [(load_signer(own, "policy").key.kid or "none") in each for each in (first, second)]
    assert [True, True] == ids
    assert ["1"] * 3 == [verifier.verify(PURPOSE, token)["call"] for token in (before, meanwhile, after)]
    assert [True] * 3 == [good(others, token) for token in (before, meanwhile, after)]


@LAYOUTS
def test_a_second_run_right_behind_the_first_is_no_second_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], layout: Layout
) -> None:
    """Nobody can have restarted everything: it waits until the key is a minute old, or somebody says they did."""
    own, _ = layout(tmp_path)
    before, rotate = load_signer(own, "policy").key.kid, [str(tmp_path), "--rotate", "policy"]
    assert [1, 0, 1] == [keys.main([*rotate, *more]) for more in (["--restarted"], [], [])]
    said = capsys.readouterr().err.splitlines()
    assert [True, True] == ["no key of policy is announced" in said[0], "or at once with --restarted" in said[1]]
    assert before == load_signer(own, "policy").key.kid
    announced = own / "policy.next.json"
    then = announced.stat().st_mtime - keys.ANNOUNCED_SECONDS
    os.utime(announced, (then, then))
    assert 0 == keys.main(rotate)
    assert before != load_signer(own, "policy").key.kid


@pytest.mark.parametrize("other", ["approval", "policy", keys.PUBLIC])
def test_what_was_announced_half_way_is_announced_again(tmp_path: Path, other: str) -> None:
    """A folder that could not be written has not heard of the key: it signs nothing before that one has."""
    own, others = apart(tmp_path)
    before = load_signer(own, "policy").key.kid
    (hindrance := tmp_path / other / "public.new").mkdir()
    with pytest.raises(IsADirectoryError):
        keys.rotate(tmp_path, "policy")
    hindrance.rmdir()
    told = [keys.rotate(tmp_path, "policy", restarted=restarted) for restarted in (False, True)]
    kid = load_signer(own, "policy").key.kid
    assert [f"{kid} is announced", f"{kid} signs from"] == [" ".join(each.split()[:3]) for each in told]
    assert (True, True) == (kid != before, good(others, signed(own)))


@LAYOUTS
def test_the_next_start_keeps_what_is_announced_and_what_was_replaced(tmp_path: Path, layout: Layout) -> None:
    """Making what is missing is part of every start."""
    own, others = layout(tmp_path)
    before = signed(own)
    for restarted in (False, True, False):
        keys.rotate(tmp_path, "policy", restarted=restarted)
    listed = keys.listed(tmp_path)
    layout(tmp_path)
    assert (listed, True) == (keys.listed(tmp_path), good(others, before))
    assert ["announced", "signs", "verifies what it signed"] == sorted(
        state for _, signer, state in listed if signer == "policy"
    )
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("policy.*.json")}
    assert {0o600} == modes


def test_an_id_may_begin_with_a_dash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One in 64 does: it is no option."""
    apart(tmp_path)
    assert 1 == keys.main([str(tmp_path), "--forget", "-QbK8"])
    assert "placet: no key here has the id -QbK8\n" == capsys.readouterr().err


@LAYOUTS
def test_a_stolen_key_is_taken_back(tmp_path: Path, layout: Layout) -> None:
    """Not while it signs; once it is replaced, nothing that it signed is good any more, and the rest is."""
    own, others = layout(tmp_path)
    stolen, before = load_signer(own, "policy").key.kid or "", signed(own)
    with pytest.raises(PlacetError, match="is in use"):
        keys.forget(tmp_path, stolen)
    for restarted in (False, True):
        keys.rotate(tmp_path, "policy", restarted=restarted)
    keys.forget(tmp_path, stolen)
    layout(tmp_path)
    assert (False, True) == (good(others, before), good(others, signed(own)))
    assert set(SIGNERS) == {signer for _, signer, _ in keys.listed(tmp_path)}


def has_been_replaced(root: Path) -> tuple[str, str]:
    """Make keys of services that run apart, replace policy's, and return its old id and what it had signed."""
    own, _ = apart(root)
    stolen, before = load_signer(own, "policy").key.kid or "", signed(own)
    for restarted in (False, True):
        keys.rotate(root, "policy", restarted=restarted)
    return stolen, before


@pytest.mark.parametrize("hindered", ["taken-back.new", "public.new"])
@pytest.mark.parametrize("next_run", [[], ["--rotate", "gateway"], ["--forget"]], ids=["start", "rotate", "forget"])
def test_what_was_taken_back_half_way_is_taken_back_by_the_next_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], hindered: str, next_run: list[str]
) -> None:
    """A folder that could not be written brings a stolen key to no other one, and loses it with whatever runs next."""
    stolen, before = has_been_replaced(tmp_path)
    (hindrance := tmp_path / keys.PUBLIC / hindered).mkdir()
    assert 1 == keys.main([str(tmp_path), "--forget", stolen])
    assert not good(tmp_path / "policy", before)
    hindrance.rmdir()
    assert 0 == keys.main([str(tmp_path), "--list"])
    assert f"{stolen}  policy  is taken back in some folders only" in capsys.readouterr().out
    assert 0 == keys.main([str(tmp_path), *next_run, *([stolen] if next_run == ["--forget"] else [])])
    assert set() == {each.name for each in tmp_path.iterdir() if good(each, before)}
    assert [] == [path for path in tmp_path.rglob("public.json") if stolen in path.read_text()]
    assert stolen not in {kid for kid, _, _ in keys.listed(tmp_path)}


@pytest.mark.parametrize(
    ("layout", "change"),
    [(apart, "--rotate"), (apart, "--forget"), (apart, "start"), (together, "--rotate"), (together, "--forget")],
)
def test_changes_at_once_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: Layout, change: str
) -> None:
    """Who waited takes back or makes what they were asked to; a new key does not go on before anybody has restarted."""
    own, others = layout(tmp_path)
    replaced, before = load_signer(own, "policy").key.kid or "", signed(own)
    for restarted in (False, True):
        keys.rotate(tmp_path, "policy", restarted=restarted)
    listed, waits, flock = keys.listed(tmp_path), threading.Event(), fcntl.flock

    def lock(file: IO[str], how: int) -> None:
        try:
            flock(file, how)
        except BlockingIOError:
            waits.set()
            raise

    monkeypatch.setattr(fcntl, "flock", lock)
    arguments = {"--rotate": ["--rotate", "policy"], "--forget": ["--forget", replaced], "start": []}[change]
    with ThreadPoolExecutor() as pool:
        with keys.in_turn(tmp_path):
            done = pool.submit(keys.main, [str(tmp_path), *arguments])
            assert waits.wait(30)
            assert (listed, True) == (keys.listed(tmp_path), good(others, before))
        assert (1 if change == "--rotate" else 0) == done.result(30)
    assert change == "--forget" or listed == keys.listed(tmp_path)
    assert (change != "--forget") == good(others, before)


def test_the_next_start_of_one_machine_takes_back_what_was_begun(tmp_path: Path) -> None:
    """Its keys are made by the start itself, which knows of no command."""
    create_keys(tmp_path)
    stolen, before = load_signer(tmp_path, "policy").key.kid or "", signed(tmp_path)
    for restarted in (False, True):
        keys.rotate(tmp_path, "policy", restarted=restarted)
    (hindrance := tmp_path / "public.new").mkdir()
    with pytest.raises(IsADirectoryError):
        keys.forget(tmp_path, stolen)
    assert not good(tmp_path, before)
    hindrance.rmdir()
    create_keys(tmp_path)
    assert stolen not in (tmp_path / "public.json").read_text()


def test_a_full_disk_loses_nothing_that_was_taken_back(tmp_path: Path) -> None:
    """What was taken back before stays so where the next one cannot be written."""
    stolen, before = has_been_replaced(tmp_path)
    keys.forget(tmp_path, stolen)
    next_one = load_signer(tmp_path / "policy", "policy").key.kid or ""
    for restarted in (False, True):
        keys.rotate(tmp_path, "policy", restarted=restarted)
    (tmp_path / "policy" / "taken-back.new").mkdir()
    with pytest.raises(IsADirectoryError):
        keys.forget(tmp_path, next_one)
    assert stolen in (tmp_path / "policy" / "taken-back.txt").read_text()
    assert not good(tmp_path / "policy", before)


def test_a_backup_brings_no_stolen_key_again(tmp_path: Path) -> None:
    """Keys that are there sign on, and what they signed stays good; a key that was taken back since stays so."""
    here, backup = tmp_path / "keys", tmp_path / "backup"
    create_keys(here)
    stolen, before, voted = load_signer(here, "policy").key.kid or "", signed(here), load_signer(here, "gateway")
    shutil.copytree(here, backup)
    for signer, restarted in product(("policy", "gateway"), (False, True)):
        keys.rotate(here, signer, restarted=restarted)
    keys.forget(here, stolen)
    since = signed(here)
    assert [stolen] == keys.bring(backup, here) == keys.bring(backup, here)
    assert (False, True, True) == (good(here, before), good(here, since), good(here, signed(here)))
    assert voted.key.kid in {kid for kid, _, _ in keys.listed(here)}


def test_a_key_that_was_stolen_where_the_backup_was_made_signs_nowhere(tmp_path: Path) -> None:
    """A second machine had it from an earlier backup, and would have signed on with it."""
    first, second = tmp_path / "first", tmp_path / "second"
    create_keys(first)
    keys.bring(first, second)
    stolen = load_signer(first, "policy").key.kid
    for restarted in (False, True):
        keys.rotate(first, "policy", restarted=restarted)
    keys.forget(first, stolen or "")
    told = [keys.bring(first, second) for _ in range(2)]
    create_keys(second)
    assert [[stolen], []] == told
    assert load_signer(first, "policy").key.kid == load_signer(second, "policy").key.kid
    assert stolen not in {kid for kid, _, _ in keys.listed(second)}


def test_a_backup_brings_its_keys_where_there_are_none_or_others(tmp_path: Path) -> None:
    """On a new machine the backup's keys sign; where a start has made some, those do, and the old ones verify."""
    backup, empty, begun = (tmp_path / name for name in ("backup", "empty", "begun"))
    create_keys(backup)
    before = signed(backup)
    create_keys(begun)
    since = signed(begun)
    assert [[], []] == [keys.bring(backup, each) for each in (empty, begun)]
    assert (True, before) == (good(empty, before), signed(empty))
    assert (True, True, since) == (good(begun, before), good(begun, since), signed(begun))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rotate", "policy"], "announced and signs nothing yet"),
        (["--list"], "signs"),
        (["--forget", "nobody's"], "no key here has the id nobody's"),
    ],
    ids=["rotate", "list", "forget"],
)
def test_the_command_says_what_is_to_be_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """One line, and 1 where it could not be done."""
    create_keys(tmp_path)
    code = keys.main([str(tmp_path), *arguments])
    told = capsys.readouterr()
    assert (arguments[0] == "--forget", True) == (code == 1, said in told.out + told.err)


@pytest.mark.parametrize("arguments", [["--list"], ["--rotate", "policy"], ["--forget", "x"]], ids=lambda each: each[0])
def test_a_folder_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """Nothing is made where nothing was asked to be made."""
    code = keys.main([str(tmp_path / "nowhere"), *arguments])
    assert (1, f"placet: {tmp_path / 'nowhere'} is no folder\n") == (code, capsys.readouterr().err)
    assert [] == list(tmp_path.iterdir())


def test_a_signer_without_a_key_gets_none_by_rotation(tmp_path: Path) -> None:
    """It says which file is missing."""
    create_keys(tmp_path, ["approval"])
    with pytest.raises(KeysUnusable, match=r"policy\.private\.json"):
        keys.rotate(tmp_path, "policy")


def test_who_may_only_read_keys_keeps_nobody_from_changing_them(tmp_path: Path) -> None:
    """Services have the folder of public keys: one that could open what a run holds could hold it for ever."""
    keys.create_folders(tmp_path)
    assert 0o600 == (tmp_path / keys.PUBLIC / keys.LOCK).stat().st_mode & 0o777
