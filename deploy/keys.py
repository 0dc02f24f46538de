"""Signing keys: made for services that run apart, listed, changed and taken back.

`python -m placet.deploy.keys FOLDER [--owner UID]` keeps `FOLDER/<signer>/` for each signer, with its own private key
and everybody's public ones, and `FOLDER/public/` for those who only verify. Each folder is one volume, so a service
never sees another's private key. Existing keys stay. With `--list`, `--rotate SIGNER` or `--forget KID` the folder may
as well be that of one machine (`PLACET_KEYS`, or `keys` in the folder of `make up`), in which all keys lie together.
"""

from __future__ import annotations

import argparse
import fcntl
import math
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from placet.contracts.errors import PlacetError
from placet.contracts.signing import (
    SIGNERS,
    create_keys,
    create_next,
    key_id,
    public_keys,
    publish_keys,
    take_back,
    taken_back,
)

PUBLIC = "public"
#: Who changes keys holds it; only who may change them can open it.
LOCK = "lock"
#: So old is an announced key before it may sign: two runs at once never do both steps, whichever begins first.
ANNOUNCED_SECONDS = 60
_PRIVATE = ("*.private.json", "*.next.json")
_ANNOUNCED = (
    "{kid} is announced and signs nothing yet: restart every service, so that each knows it, then run this again"
)
_IN_USE = (
    "{kid} signs from the next start of {signer} on: restart it; what {before} has signed stays good until --forget"
)
_MEANWHILE = "another run has just changed these keys: look at --list, and run this again if it is still to be done"
_TOO_YOUNG = (
    "{kid} was announced just now: restart every service, then run this again in {seconds} seconds, or at once with"
    " --restarted"
)
_NOT_ANNOUNCED = "no key of {signer} is announced: do so first (--rotate {signer}, without --restarted)"
_HALF_GONE = "is taken back in some folders only: take it back once more (--forget), and restart every service"


@contextmanager
def in_turn(root: Path) -> Iterator[bool]:
    """Let one run at a time change the keys under `root`; tell whether this one had to wait for another."""
    # In a folder that every container has that changes them. Services see it too: one that could open it could hold it.
    path = (root / PUBLIC if (root / PUBLIC).is_dir() else root) / LOCK
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "w") as file:
        waited = False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = True
            fcntl.flock(file, fcntl.LOCK_EX)
        yield waited


def create_folders(root: Path, owner: int | None = None) -> list[Path]:
    """Make what is missing under `root`, give it to user `owner`, and return the private keys that are new."""
    (root / PUBLIC).mkdir(parents=True, exist_ok=True)
    with in_turn(root):
        made = [path for signer in SIGNERS for path in create_keys(root / signer, [signer])]
        _publish(root)
        if owner is not None:
            for path in (path for folder in _folders(root) for path in (folder, *folder.iterdir())):
                if path.name != LOCK:
                    os.chown(path, owner, owner)
    return made


def rotate(root: Path, signer: str, *, restarted: bool = False) -> str:
    """Announce a new key of `signer`, or, where one is announced, have it sign; return what is to be done now.

    It is announced once every folder has it: where publishing it failed half-way, it is announced again. Raises
    KeysUnusable, also where the signer has no key here, and PlacetError where it had to wait for another run, or was
    announced less than a minute ago: both steps may not follow each other without a restart. Who has `restarted`
    every service since need not wait for that minute.
    """
    with in_turn(root) as waited:
        if waited:
            raise PlacetError(_MEANWHILE)
        folder = root if _lie_together(root) else root / signer
        now, following = folder / f"{signer}.private.json", folder / f"{signer}.next.json"
        before = key_id(now)
        if not following.exists():
            if restarted:
                raise PlacetError(_NOT_ANNOUNCED.format(signer=signer))
            create_next(folder, signer)
        kid = key_id(following)
        announced = all(kid in {key["kid"] for key in public_keys(each)} for each in _folders(root))
        if announced:
            left = math.ceil(following.stat().st_mtime + ANNOUNCED_SECONDS - time.time())
            if left > 0 and not restarted:
                raise PlacetError(_TOO_YOUNG.format(kid=kid, seconds=left))
            following.replace(now)
        create_keys(folder, [signer])
        _publish(root)
        if announced:
            return _IN_USE.format(kid=kid, signer=signer, before=before)
        following.touch()
        return _ANNOUNCED.format(kid=kid)


def forget(root: Path, kid: str) -> int:
    """Take back the public key `kid`, so that nothing that it has signed is good any more; return in how many folders.

    No folder publishes it less before every folder knows that it may not publish it again: where this fails half-way,
    the next run of anything here finishes it. Raises PlacetError where it signs, or is about to.
    """
    with in_turn(root):
        if kid in _in_use(root):
            raise PlacetError(f"{kid} is in use: put another key in its place first (--rotate)")
        held = [folder for folder in _folders(root) if any(key["kid"] == kid for key in public_keys(folder))]
        if held:
            for folder in _folders(root):
                take_back(folder, {kid})
            _publish(root)
        return len(held)


def bring(backup: Path, folder: Path) -> list[str]:
    """Bring the keys of a backup into the folder of one machine; return the ids of those that stay taken back.

    Where private keys are, these stay and sign on: only public ones are brought, for what they have signed. A key that
    was taken back, here or where the backup was made, signs and verifies nothing again. Raises KeysUnusable before
    anything is written.
    """
    theirs, ours = ({key["kid"]: key for key in public_keys(each)} for each in (backup, folder))
    gone = taken_back(folder) | taken_back(backup)
    if not _lie_together(folder):
        shutil.copytree(backup, folder, dirs_exist_ok=True)
    for path in _private(folder):
        if key_id(path) in gone:
            path.unlink()
            # Where the backup has no other one, the next start makes a key.
            if (other := backup / path.name).exists() and key_id(other) not in gone:
                shutil.copy2(other, path)
    take_back(folder, gone)
    publish_keys(folder, {**theirs, **ours}.values())
    return sorted(gone & (theirs.keys() | ours.keys()))


def _private(folder: Path) -> list[Path]:
    return [path for pattern in _PRIVATE for path in folder.glob(pattern)]


def listed(root: Path) -> list[tuple[str, str, str]]:
    """Return id, signer and state of each key: announced, signs, kept for what it has signed, or not yet taken back."""
    states = _in_use(root) | dict.fromkeys(_gone(root), _HALF_GONE)
    known = {key["kid"]: key["iss"] for folder in _folders(root) for key in public_keys(folder)}
    return [(kid, signer, states.get(kid, "verifies what it signed")) for kid, signer in known.items()]


def _in_use(root: Path) -> dict[str, str]:
    """Return the state of each private key by its id: it signs, or is announced."""
    return {
        key_id(path): state
        for folder in _folders(root)
        for state, pattern in zip(("signs", "announced"), _PRIVATE, strict=True)
        for path in folder.glob(pattern)
    }


def _lie_together(root: Path) -> bool:
    return any(root.glob("*.private.json"))


def _folders(root: Path) -> list[Path]:
    """Return the folders that hold keys."""
    return [root] if _lie_together(root) else [root / name for name in (*SIGNERS, PUBLIC) if (root / name).is_dir()]


def _gone(root: Path) -> set[str]:
    return {kid for folder in _folders(root) for kid in taken_back(folder)}


def _publish(root: Path) -> None:
    """Have every folder hold every public key, but none that was taken back in any: that is finished first."""
    gone = _gone(root)
    for folder in _folders(root):
        take_back(folder, gone)
    public = {key["kid"]: key for folder in _folders(root) for key in public_keys(folder)}
    for folder in _folders(root):
        publish_keys(folder, public.values())


def main(arguments: Sequence[str]) -> int:
    """Do what was asked; return the exit code."""
    parser = argparse.ArgumentParser(description="Create signing keys, a folder per service; list or change them.")
    parser.add_argument("folder", type=Path, help="holds a folder per signer, and `public`, or all keys of one machine")
    parser.add_argument("--owner", type=int, help="user and group id that may read them")
    parser.add_argument("--list", action="store_true", help="print each key, whose it is, and what it is good for")
    parser.add_argument("--rotate", choices=sorted(SIGNERS), help="announce a new key; the second time, have it sign")
    parser.add_argument(
        "--restarted", action="store_true", help="with --rotate: every service was restarted since it was announced"
    )
    parser.add_argument(
        "--forget", metavar="KID", help="take a public key back: nothing that it signed is good any more"
    )
    options = parser.parse_args(_joined(arguments))
    try:
        for line in _done(options):
            sys.stdout.write(f"{line}\n")
    except (PlacetError, OSError) as error:
        sys.stderr.write(f"placet: {error}\n")
        return 1
    return 0


def _joined(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the arguments, `--forget` as one with its value: one id in 64 begins with a dash, as an option does."""
    following = iter(arguments)
    for each in following:
        value = next(following, None) if each == "--forget" else None
        yield each if value is None else f"{each}={value}"


def _done(options: argparse.Namespace) -> list[str]:
    root: Path = options.folder
    if (options.list or options.rotate or options.forget) and not root.is_dir():
        raise PlacetError(f"{root} is no folder")
    if options.list:
        return ["  ".join(row) for row in listed(root)] or ["no keys"]
    if options.rotate:
        told = [rotate(root, options.rotate, restarted=options.restarted)]
    elif options.forget:
        if not (count := forget(root, options.forget)):
            raise PlacetError(f"no key here has the id {options.forget}")
        told = [f"taken back in {count} folder{'s' if count > 1 else ''}: restart every service"]
    else:
        made = create_folders(root, options.owner)
        return [f"signing keys: {', '.join(path.name for path in made) or 'all there already'}"]
    if options.owner is not None and not _lie_together(root):
        create_folders(root, options.owner)
    return told


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
