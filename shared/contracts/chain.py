"""The audit chain: per tenant, blocks of history rows under Merkle roots, each signed and naming the one before it.

A row is a leaf as the exact text that the database tells of it, so nothing has to be written the same way twice. That
text has who did it, and the details, as a salted digest: they can be erased, and the chain still verifies. A block is
its signed checkpoint (a JWS) and the rows it stands for, in the order of service and id. Trees are those of RFC 6962:
leaves and nodes are hashed apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from json import dumps, loads
from typing import Any

from placet.contracts.signing import BadSignature, Purpose, Signer, Verifier, payload_of

#: What stands in the line of a row that says which rows were erased, as the database writes it.
ERASURE = '"event" : "erased"'
#: Seconds within which rows are sealed where nothing keeps them from it.
LATE_SECONDS = 60
#: Of fixed form, a UUID: else a text could lose its beginning to the salt, and the digest of both be the same.
SALT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def leaf(line: str) -> bytes:
    """Return the leaf of a row's text; the database computes the same."""
    return sha256(b"\x00" + line.encode()).digest()


def root(leaves: Sequence[bytes]) -> str:
    """Return the root over leaves, 64 hexadecimal digits; raise ValueError for none."""
    if not leaves:
        raise ValueError("a tree has at least one leaf")
    level = list(leaves)
    while len(level) > 1:
        pairs = [sha256(b"\x01" + level[at] + level[at + 1]).digest() for at in range(0, len(level) - 1, 2)]
        level = pairs + level[len(pairs) * 2 :]
    return level[0].hex()


def path(leaves: Sequence[bytes], place: int) -> list[str]:
    """Return the hashes, 64 hexadecimal digits each, with which the leaf at `place` makes the root, from below."""
    level, found = list(leaves), []
    while len(level) > 1:
        if (beside := place ^ 1) < len(level):
            found.append(level[beside].hex())
        pairs = [sha256(b"\x01" + level[at] + level[at + 1]).digest() for at in range(0, len(level) - 1, 2)]
        level, place = pairs + level[len(pairs) * 2 :], place // 2
    return found


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a history as it was sealed."""

    #: The text that is the leaf; of `said`, JSON of `actor` and `detail`, it has the salted digest.
    line: str
    #: Both None of a row that was erased.
    salt: str | None
    said: str | None

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Row:
        """Return a row of its columns, which pages show too, in the text that the view `read.history` has of it.

        `told` has the columns' values, `detail` as JSON text.
        """
        whole = f'{{"actor" : {dumps(told["actor"], ensure_ascii=False)}, "detail" : {told["detail"]}}}'
        said: str | None
        if (salt := told["salt"]) is not None:
            said = sha256((salt + whole).encode()).hexdigest()
        else:
            detail = loads(told["detail"])
            erased = told["actor"] == "erased" and isinstance(detail, dict) and {*detail} <= {"erased"}
            said = detail.get("erased") if erased else None
        names = ("tenant", "machine", "subject_id", "call_id", "event", "from_state", "to_state", "message_id")
        at = f"{told['at'].astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
        sealed = {"service": told["service"], "id": told["id"], "at": at} | {name: told[name] for name in names}
        line = dumps({**sealed, "said": said}, separators=(", ", " : "), ensure_ascii=False)
        return cls(line, salt, None if salt is None else whole)

    @property
    def fits(self) -> bool:
        """Whether the row says what its line has the digest of; one that was erased says nothing."""
        if self.salt is None or self.said is None:
            return (self.salt, self.said) == (None, None)
        try:
            digest = sha256((self.salt + self.said).encode()).hexdigest()
            whole = SALT.fullmatch(self.salt) and loads(self.said).keys() == {"actor", "detail"}
            return bool(whole) and bool(loads(self.line)["said"] == digest)
        except (ValueError, LookupError, TypeError, AttributeError):
            return False


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One block as it was signed. Its rows are those of the tenant with after < id <= upto, by service."""

    token: str
    tenant: str
    #: From 1, without a gap.
    number: int
    #: SHA-256 of the token before it; empty for the first.
    previous: str
    rows: int
    root: str
    after: Mapping[str, int]
    upto: Mapping[str, int]
    #: When it was signed, by the clock of who signs, and how many seconds that one had seen rows of it wait until then.
    sealed_at: str = ""
    waited_seconds: int = 0

    @property
    def digest(self) -> str:
        """What the next block names."""
        return sha256(self.token.encode()).hexdigest()


def seal(
    signer: Signer,
    tenant: str,
    before: Checkpoint | None,
    leaves: Sequence[bytes],
    upto: Mapping[str, int],
    *,
    at: datetime,
    waited_seconds: int = 0,
) -> Checkpoint:
    """Return the signed block that follows `before` over `leaves`."""
    claims: dict[str, Any] = {
        "tenant": tenant,
        "number": before.number + 1 if before else 1,
        "previous": before.digest if before else "",
        "rows": len(leaves),
        "root": root(leaves),
        "after": dict(before.upto) if before else {},
        "upto": dict(upto),
        "sealed_at": at.astimezone(UTC).isoformat(timespec="seconds"),
        "waited_seconds": waited_seconds,
    }
    return Checkpoint(signer.sign(Purpose.CHECKPOINT, claims), **claims)


def read_checkpoint(verifier: Verifier, token: str) -> Checkpoint:
    """Return the block that a token signs; raise BadSignature where it is none of the house's."""
    claims = verifier.verify(Purpose.CHECKPOINT, token)
    claims.pop("iss")
    try:
        return Checkpoint(token, **claims)
    except TypeError as error:
        raise BadSignature("this is no checkpoint") from error


def peek_checkpoint(token: str) -> Checkpoint:
    """Return what a token says, unverified: for one's own table; whoever verifies the chain verifies signatures too."""
    claims = loads(payload_of(token))
    claims.pop("iss")
    return Checkpoint(token, **claims)


def waited(block: Checkpoint, rows: Sequence[Row]) -> int:
    """Return for how many seconds rows of a block could be changed unseen, as they or whoever sealed them say."""
    if not block.sealed_at:
        return block.waited_seconds
    oldest = min(datetime.fromisoformat(loads(row.line)["at"]) for row in rows)
    return max(block.waited_seconds, int((datetime.fromisoformat(block.sealed_at) - oldest).total_seconds()))


@dataclass
class Check:
    """Follows one tenant's chain from its first block on, and remembers what is wrong."""

    verifier: Verifier
    tenant: str
    problems: list[str] = field(default_factory=list)
    rows: int = 0
    #: Rows that say no more who did it, because a person was erased.
    erased: int = 0
    #: Erasures that the chain has, as {pseudonym, at, rows}.
    erasures: list[dict[str, Any]] = field(default_factory=list)
    first: Checkpoint | None = None
    last: Checkpoint | None = None
    #: The block up to which rows were purged; 0: none were.
    begins: int = 0
    #: Blocks that a kept file has and that are gone, although nothing so young was to be purged.
    missing: list[int] = field(default_factory=list)
    #: How many kept blocks are gone of which nothing says how old they were.
    ageless: int = 0
    #: Blocks whose rows waited for longer than they should before they were sealed -> how many seconds.
    late: dict[int, int] = field(default_factory=dict)
    #: Rows of the database that no block has yet, and how many seconds the oldest of them has waited.
    unsealed: int = 0
    unsealed_seconds: int = 0
    _digests: set[str] = field(default_factory=set)
    #: Digests that erased rows kept, and those that erasures name.
    _gone: set[str] = field(default_factory=set)
    _named: set[str] = field(default_factory=set)

    def follow(self, token: str, rows: Sequence[Row]) -> None:
        """Take the next block with its rows as they stand now."""
        try:
            block = read_checkpoint(self.verifier, token)
        except BadSignature as error:
            self.problems.append(f"after block {self.last.number if self.last else 0}: {error}")
            return
        self._digests.add(block.digest)
        self.first = self.first or block
        number, digest, after = (
            (self.last.number + 1, self.last.digest, self.last.upto) if self.last else (1, "", dict[str, int]())
        )
        if self.last is None and not rows and block.tenant == self.tenant:
            # What a chain begins with whose beginning was purged: its checkpoint, which the next block names.
            self.last, self.begins = block, block.number
            return
        if (block.tenant, block.number) != (self.tenant, number):
            self.problems.append(f"block {block.number} of {block.tenant} stands where block {number} should be")
        elif (block.previous, dict(block.after)) != (digest, dict(after)):
            self.problems.append(f"block {number} does not follow the one before it")
        if len(rows) != block.rows:
            self.problems.append(f"block {block.number} has {len(rows)} rows, {block.rows} were sealed")
        elif not rows or root([leaf(row.line) for row in rows]) != block.root or not all(row.fits for row in rows):
            self.problems.append(f"rows of block {block.number} are not those that were sealed")
        else:
            self.note_erasures(rows)
            if (seconds := waited(block, rows)) > LATE_SECONDS:
                self.late[block.number] = seconds
        self.last, self.rows = block, self.rows + len(rows)
        self.erased += sum(row.salt is None for row in rows)

    def note_erasures(self, rows: Sequence[Row]) -> None:
        """Remember which rows are erased and which ones erasures name; of rows that are not sealed yet too."""
        for row in rows:
            if row.salt is None:
                self._gone.add(str(loads(row.line).get("said")) if row.line else "")
            elif ERASURE in row.line and row.said is not None:
                line, detail = loads(row.line), loads(row.said)["detail"]
                if line["machine"] != "erasure":
                    continue
                said = detail.get("said") if isinstance(detail, dict) else None
                named = {str(each) for each in said} if isinstance(said, list) else set()
                self._named |= named
                told = {"pseudonym": line["subject_id"], "at": line["at"], "rows": len(named)}
                self.erasures.append(told)

    @property
    def unnamed(self) -> set[str]:
        """Digests of rows that say that they were erased, and that no erasure names."""
        return self._gone - self._named

    def finish(self) -> None:
        """Say what is wrong with the chain as a whole: a row was erased that no erasure names, so somebody hid it."""
        if unnamed := self.unnamed:
            self.problems.append(f"{len(unnamed)} rows say that they were erased, and no erasure names them")

    def kept(self, number: int, digest: str, written: datetime | None, purged_before: datetime | None) -> None:
        """Compare with a checkpoint that was kept elsewhere: a chain that was cut or written anew lacks it.

        `written` is when the newest kept row up to this block was, None where nothing says it. A block may be gone
        whose rows are from before `purged_before`; None: no block may.
        """
        if number >= self.begins and digest not in self._digests:
            self.problems.append(f"block {number}, whose checkpoint was kept, is not in the chain")
        elif number <= self.begins:
            # Whoever deletes rows and checkpoints leaves what a purge leaves; only their age tells one from the other.
            if purged_before is None or (written is not None and written >= purged_before):
                self.missing.append(number)
            elif written is None:
                self.ageless += 1
