"""The audit chain in memory: blocks that follow each other, and rows that say what was sealed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from placet.contracts.chain import Check, Checkpoint, Row, leaf, seal
from placet.contracts.signing import Signer, Verifier, create_keys, load_signer, load_verifier


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Signer, Verifier]:
    """The gateway's key, and what verifies it."""
    folder: Path = tmp_path_factory.mktemp("keys")
    create_keys(folder)
    return load_signer(folder, "gateway"), load_verifier(folder)


def a_row(number: int) -> Row:
    """Return one row as it is sealed."""
    said, salt = (
        json.dumps({"actor": "person:ada", "detail": {"n": number}}),
        f"{number:08x}-0000-4000-8000-000000000000",
    )
    digest = sha256((salt + said).encode()).hexdigest()
    return Row(json.dumps({"id": number, "at": "2026-01-01T00:00:00.000000Z", "said": digest}), salt, said)


def a_block(signer: Signer, before: Checkpoint | None, *rows: Row) -> Checkpoint:
    """Return the block over rows that follows another."""
    upto = {"approval": (before.upto["approval"] if before else 0) + len(rows)}
    return seal(signer, "acme", before, [leaf(row.line) for row in rows], upto, at=datetime.now(UTC))


def test_a_block_of_another_branch_does_not_follow(keys: tuple[Signer, Verifier]) -> None:
    """Both branches were signed by the house, as before and after a restore: one of them is the chain."""
    signer, verifier = keys
    first, other = a_block(signer, None, a_row(1)), a_block(signer, None, a_row(2))
    second = a_block(signer, first, a_row(3))
    found = []
    for begin, row in ((first, a_row(1)), (other, a_row(2))):
        check = Check(verifier, "acme")
        check.follow(begin.token, [row])
        check.follow(second.token, [a_row(3)])
        found.append(check.problems)
    assert [[], ["block 2 does not follow the one before it"]] == found


@pytest.mark.parametrize(
    "change",
    [
        lambda row: replace(row, said=row.said.replace("ada", "eve")),
        lambda row: replace(row, salt="another"),
        lambda row: replace(row, said=None),
        lambda row: replace(row, salt=None),
        lambda row: replace(row, salt=row.salt + row.said, said=""),
        lambda row: replace(row, salt=row.salt + row.said[:10], said=row.said[10:]),
        lambda row: replace(row, salt=row.salt[:-1], said=row.salt[-1] + row.said),
    ],
    ids=["who", "salt", "nothing said", "no salt", "all in the salt", "begun in the salt", "begun too early"],
)
def test_what_a_row_says_is_what_its_line_has_the_digest_of(
    keys: tuple[Signer, Verifier], change: Callable[[Row], Row]
) -> None:
    """The line alone is under the root: who did it stands beside, and is bound by it."""
    signer, verifier = keys
    check = Check(verifier, "acme")
    check.follow(a_block(signer, None, a_row(1)).token, [change(a_row(1))])
    assert ["rows of block 1 are not those that were sealed"] == check.problems
