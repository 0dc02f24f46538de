"""Makes the receipt of one call: its parts as services know them, each with what proves it, signed as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from placet.contracts.errors import Refused
from placet.contracts.receipts import FORMAT, digest_of
from placet.contracts.signing import Purpose, Signer, payload_of
from placet.domain.card_text import REDACTED
from placet.gateway.audit import store as audit
from placet.gateway.identity.auth import Caller
from placet.gateway.receipts.store import ROWS_MAX, Chain, ChainChanged, Parts, load_parts
from placet.gateway.store import read
from placet.runtime.database import Database

Json = dict[str, Any]

#: Seconds after which what was not sealed is, as a rule.
SEALED_SOON_SECONDS = 10


async def make_receipt(database: Database, signer: Signer, caller: Caller, call_id: str) -> Json:
    """Return the signed receipt of a call that has its answer.

    Raises Refused: 404 where there is no such call for the caller, 409 where it is not over (`not-over`) or its history
    is not sealed yet (`not-sealed`), not what was sealed (`history-changed`) or too long (`too-long`), 410 where it is
    not kept any more.
    """
    async with database.transaction() as connection:
        await audit.read_whole(connection)
        call = await read.load_call(connection, caller.tenant, call_id)
        if call is None or not caller.sees(call["conversation_id"]):
            raise Refused("There is no such call.", status=404, kind="not-found")
        if call["result_kind"] is None:
            raise Refused("This call is not over yet.", status=409, kind="not-over")
        parts = await load_parts(connection, call)
        chain = Chain(connection, caller.tenant)
        if not parts.history or (await chain.is_cut() and not _begins(parts.history)):
            raise Refused("The history of this call is not kept any more.", status=410, kind="gone")
        if parts.too_many:
            raise Refused(f"More than {ROWS_MAX:,} changes of this call are kept.", status=409, kind="too-long")
        history, checkpoints = await _proved(chain, parts)
    receipt = {
        "format": FORMAT,
        "made_at": _moment(datetime.now(UTC)),
        **_told(parts),
        "history": history,
        "checkpoints": checkpoints,
    }
    return {**receipt, "signature": signer.sign(Purpose.RECEIPT, {"digest": digest_of(receipt)})}


def _begins(history: Iterable[Mapping[str, Any]]) -> bool:
    """Tell whether the call's first row is there: old rows are purged from the front, also of calls that go on."""
    lines = [json.loads(row["line"]) for row in history]
    return any((each["service"], each["event"]) == ("agent", "proposed") for each in lines)


async def _proved(chain: Chain, parts: Parts) -> tuple[list[Json], dict[str, str]]:
    rows, blocks = [], {}
    gone = {json.loads(row["line"])["said"] for row in parts.history if row["salt"] is None}
    try:
        proofs = [await chain.prove(row["service"], row["id"]) for row in parts.history]
        sealed = await chain.erased(gone)
    except ChainChanged as error:
        title = "The history of this call is not the one that was sealed."
        raise Refused(title, status=409, kind="history-changed", found=str(error)) from error
    for row, proof in zip(parts.history, proofs, strict=True):
        if proof is None or not sealed:
            title = "The history of this call is not sealed yet. Try again in a few seconds."
            raise Refused(title, status=409, kind="not-sealed", retry_after_seconds=SEALED_SOON_SECONDS)
        blocks[str(proof.block.number)] = proof.block.token
        place = {"block": proof.block.number, "place": proof.place, "path": list(proof.path)}
        rows.append({"line": row["line"], "salt": row["salt"], "said": row["said"], **place})
    return rows, blocks


def _told(parts: Parts) -> Json:
    call, approval, execution, verdict = parts.call, parts.approval, parts.execution, parts.verdict
    names = ("call_id", "tenant", "conversation_id", "turn_id", "message_id", "step", "position", "tool")
    proposal = _of(call, *names, "arguments", "digest", "proposed_at")
    proposal |= {"redacted": REDACTED in call["arguments"], "schema_digest": parts.schema_digest}
    return {
        "proposal": proposal,
        "verdict": verdict
        and {"id": verdict["verdict_id"], **_of(verdict, "effect", "rule", "reason", "rulebook_digest", "judged_at")},
        "approval": approval and _approval(approval),
        "votes": [_vote(each) for each in parts.votes],
        "permit": parts.permit or None,
        "execution": execution and _execution(execution),
        "result": {"kind": call["result_kind"], "data": call["result"], "answered_at": _moment(call["answered_at"])},
    }


def _approval(row: Mapping[str, Any]) -> Json:
    names = ("state", "summary", "requester", "rule", "rulebook_digest", "reason", "arguments", "digest")
    times = ("schema_digest", "revision", "created_at", "expires_at", "closed_at", "decided_by")
    edited = {"redacted": bool(row["arguments_masked"]), "edited": row["edited"] is not None}
    return {"id": row["approval_id"], **_of(row, *names, *times), **edited}


def _vote(row: Mapping[str, Any]) -> Json:
    signed = row["signed"] or None
    claims: Json = {}
    # What is no signature the verifier says.
    with suppress(ValueError, IndexError):
        claims = json.loads(payload_of(signed)) if signed else {}
    return {
        **_of(row, "decision_id", "person", "verb", "reason", "outcome", "counted"),
        "seen": {"digest": row["digest"], "revision": row["revision"]},
        "known_by": row["proof"],
        "key_id": row["key_id"],
        "key_made_by": claims.get("key_made_by") or None,
        "decided_at": _moment(row["decided_at"]),
        "signed": signed,
    }


def _execution(row: Mapping[str, Any]) -> Json:
    names = ("pool", "state", "worker", "permit_id", "permit_expires_at", "started_at", "finished_at", "error")
    resolved = ("resolution", "resolved_by", "resolution_note", "resolution_signed", "resolved_at")
    return {**_of(row, *names, *resolved), "attempt": row["fence"]}


def _of(row: Mapping[str, Any], *names: str) -> Json:
    return {name: _moment(row[name]) if isinstance(row[name], datetime) else row[name] for name in names}


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()
