"""Verify the receipt of a tool call offline: no database, no Placet, only Python and PyNaCl.

This file needs no other of Placet's, so it can be handed on alone:

    pip install pynacl
    python receipts.py receipt.json --keys public.json

`public.json` has the public keys of the house, as `placet migrate` made them; get it from the house itself. Exit code
0: all of it holds; 1: something was changed or does not fit; 2: no receipt, or no keys.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

from nacl.exceptions import CryptoError
from nacl.signing import VerifyKey

FORMAT = "placet-receipt/1"
#: What a signature may say -> whose keys may say it, where it is not the gateway.
SIGNERS = {"permit": {"policy", "approval"}}
#: Seconds within which rows are sealed where nothing keeps them from it.
LATE_SECONDS = 60
#: What people end an approval by, what they can do with one, and what the clock does while it waits.
DECIDED = frozenset({"approve", "deny", "respond"})
VERBS = DECIDED | {"abstain", "edit", "delegate", "claim", "release", "cancel"}
STEPS = frozenset({"reminded", "escalated"})
#: Of what people do, those that are about what was seen, and those that are votes.
BINDING = VERBS - {"claim", "release", "cancel"}
VOTING = frozenset({"approve", "deny", "abstain", "edit"})
#: A decision -> what ends the approval where it was the last one: an edit counts as its maker's approval.
ENDS = {"edit": "approve", "cancel": "withdraw"}
#: Every way of an approval and of an execution: from where, by what, to where, as the `states.py` of both services say.
_WAYS = """new opened pending, pending approve approved, pending deny denied, pending respond answered,
pending time_out expired, pending withdraw withdrawn, pending withdraw pending, new claimed running,
new refused refused, new expired expired, new abandoned refused, running refused refused, running expired expired,
running let_go running, running reclaimed running, running succeeded succeeded, running failed failed,
running gave_up unknown, running probed verifying, running staged staged, running applied committing,
staged released running, committing succeeded succeeded, committing failed failed, committing gave_up unknown,
verifying succeeded succeeded, verifying failed failed, verifying gave_up unknown, unknown resolved resolved"""
WAYS = {f"pending {event} pending" for event in VERBS | STEPS} | {way.strip() for way in _WAYS.split(",")}
#: Tools whose calls no executor takes.
OWN = frozenset({"accomplish", "final_answer"})
#: Parts of a receipt, in the order in which they are told.
PARTS = ("receipt", "chain", "proposal", "verdict", "votes", "permit", "execution", "result")

Json = Mapping[str, Any]
Keys = Mapping[str, tuple[str, VerifyKey]]


class NotVerifiable(Exception):
    """There is no receipt, or there are no keys to verify it with."""


@dataclass(frozen=True)
class Finding:
    """What was found of one part: that it holds and why one may believe it, or what is wrong with it."""

    part: str
    holds: bool
    said: str


def load_keys(text: str) -> Keys:
    """Return the public keys of `public.json` by their id; raise NotVerifiable."""
    try:
        given = json.loads(text)["keys"]
        return {str(each["kid"]): (str(each["iss"]), VerifyKey(_decoded(each["x"]))) for each in given}
    except (ValueError, LookupError, TypeError) as error:
        raise NotVerifiable(f"these are no public keys: {type(error).__name__}") from error


def load_receipt(text: str) -> dict[str, Any]:
    """Return a receipt as a JSON object; raise NotVerifiable."""
    try:
        found = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise NotVerifiable(f"this is no JSON: {error}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise NotVerifiable(f"this is no receipt of the format {FORMAT}")
    return found


def digest_of(receipt: Json) -> str:
    """Return the digest that the gateway signs: of all that a receipt says, its signature aside."""
    said = {name: value for name, value in receipt.items() if name != "signature"}
    return _sha256(json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False))


def verify(receipt: Json, keys: Keys) -> list[Finding]:
    """Return what was found of each part; the receipt is good where all of them hold."""
    check = _Check(receipt, keys)
    for part in PARTS:
        try:
            if said := getattr(check, part)():
                check.good.append(Finding(part, holds=True, said=said))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            check.problem(part, f"it is not as receipts are: {type(error).__name__} {error}".rstrip())
    good = [each for each in check.good if each.part not in {other.part for other in check.problems}]
    return sorted([*good, *check.problems], key=lambda each: PARTS.index(each.part))


class _Check:
    """Goes through one receipt."""

    def __init__(self, receipt: Json, keys: Keys) -> None:
        self.told, self.keys = receipt, keys
        self.good: list[Finding] = []
        self.problems: list[Finding] = []
        #: Rows of the history that are in the chain: the sealed line, and what it says of who and why.
        self.rows: list[_Row] = []
        #: The names of all that lead on from each other, those of its execution, and the one that it ran by.
        self.led: set[str] = set()
        self.ran, self.began = [*self.rows], [*self.rows]
        #: What the permit says; nothing where there is none, or none of the house's.
        self.permitted = self.claims("permit", "permit", token) if (token := receipt.get("permit")) is not None else {}

    def problem(self, part: str, said: str) -> None:
        """Note that something is wrong."""
        self.problems.append(Finding(part, holds=False, said=said))

    def expect(self, part: str, what: str, expected: object, actual: object) -> None:
        """Note a problem where two values that must be the same are not."""
        if expected != actual:
            shown = [json.dumps(each, default=str)[:80] for each in (actual, expected)]
            self.problem(part, f"{what} is {shown[0]}, and {shown[1]} elsewhere")

    def claims(self, part: str, purpose: str, token: object) -> Json:
        """Return what a token says that the house signed for a purpose; nothing, and a problem, where it did not."""
        try:
            return _verified(self.keys, purpose, str(token))
        except (ValueError, LookupError, TypeError, CryptoError) as error:
            self.problem(part, f"the signature of placet-{purpose} is not the house's ({type(error).__name__})")
            return {}

    def moves(self, service: str, *events: str) -> list[_Row]:
        """Return sealed rows of a service in their order, those of some events or all; of a commit's workspace none."""
        found = [each for each in self.rows if each.sealed["service"] == service]
        found = [each for each in found if service != "executor" or each.sealed["machine"] == "execution"]
        return [each for each in found if not events or each.sealed["event"] in events]

    def course(self, part: str, service: str) -> list[_Row]:
        """Return rows that lead on from each other: a late word, or one after the end, explains nothing."""
        told: list[_Row] = []
        for row in self.moves(service):
            left, event, to_state = (row.sealed[each] for each in ("from_state", "event", "to_state"))
            at = told[-1].sealed["to_state"] if told else None
            if left == at and f"{left or 'new'} {event} {to_state}" in WAYS and not row.details.get("late"):
                told.append(row)
            elif left != to_state:
                self.problem(part, f"row {row.name} leads on from {left}, and it was {at}")
        self.led |= {row.name for row in told}
        return told

    def receipt(self) -> str:
        claims = self.claims("receipt", "receipt", self.told["signature"])
        self.expect("receipt", "its digest", claims.get("digest"), digest_of(self.told))
        return f"signed by the gateway, {self.told['made_at']}"

    def chain(self) -> str:
        proposal, blocks = self.told["proposal"], self.told["checkpoints"]
        known = {number: self.claims("chain", "checkpoint", token) for number, token in blocks.items()}
        for number, block in known.items():
            self.expect("chain", "the tenant of a block", proposal["tenant"], block.get("tenant"))
            self.expect("chain", "the number of a block", number, str(block.get("number")))
        for each in self.told["history"]:
            row, block = _Row.of(each), known.get(str(each["block"]), {})
            if _root(each["line"], each["place"], each["path"], block.get("rows", 0)) != block.get("root"):
                self.problem("chain", f"row {row.name} is not in block {each['block']}")
            if not row.opened:
                self.problem("chain", f"row {row.name} was sealed with another actor or other details")
            whose = (row.sealed["tenant"], row.sealed["call_id"])
            self.expect("chain", f"the call of row {row.name}", (proposal["tenant"], proposal["call_id"]), whose)
            self.rows.append(row)
        self.rows.sort(key=lambda row: int(row.sealed["id"]))
        self.expect("chain", "the blocks", sorted({str(each["block"]) for each in self.told["history"]}), sorted(known))
        self.expect("chain", "how many rows stand once", len(self.rows), len({row.name for row in self.rows}))
        self.ran = self.course("execution", "executor")
        self.began = ([row for row in self.ran if row.sealed["event"] == "released"] or self.ran)[:1]
        erased = f", {gone} of them erased" if (gone := sum(not row.said for row in self.rows)) else ""
        late = max((block.get("waited_seconds", 0) for block in known.values()), default=0)
        held = f"; for {late} s it was changeable unseen" if late > LATE_SECONDS else ""
        return f"{len(self.rows)} changes of state in {len(known)} signed blocks{erased}{held}"

    def proposal(self) -> str:
        said = self.told["proposal"]
        rows = self.moves("agent", "proposed")
        self.expect("proposal", "how often it was proposed", 1, len(rows))
        for row, name in product(rows, ("tool", "digest")):
            self.opened("proposal", row, name, said[name])
        return self.digests("proposal", said, said["schema_digest"], rows)

    def digests(self, part: str, said: Json, schema_digest: str | None, rows: Iterable[_Row]) -> str:
        """Compute a call's digest anew where its arguments are whole, and else that of what people saw of them."""
        told = [row.details for row in rows if row.said]
        # Of each state of its arguments one thing is shown, or they are whole.
        if any(shown := {each.get("shown") for each in told if each.get("digest") == said["digest"]}):
            self.expect(part, "what is shown of it", {_sha256(said["arguments"])}, shown)
            hidden = "; of its redacted arguments the digest" if said["digest"] else ": it is no valid call"
            return f"sealed, as it is shown{hidden}"
        if said["digest"] is None:
            return "no valid call: it has no digest"
        if schema_digest is None and self.told["verdict"] is not None:
            self.problem(part, "the digest of its tool's schema is not here, with which it was judged")
        if schema_digest is None or (said["redacted"] and not told):
            return "sealed; of its arguments only the digest"
        call = {**self.told["proposal"], "schema_digest": schema_digest}
        self.expect(part, "its digest", said["digest"], call_digest(call, said["arguments"]))
        return "its digest is computed from its arguments, and sealed"

    def verdict(self) -> str:
        said, approval, claims = self.told["verdict"], self.told["approval"], self.permitted
        rows = self.moves("approval", "opened")
        given = [row for row in self.moves("policy", "given") if row.sealed["machine"] == "verdict"]
        if said is None:
            if rows or given or any(self.told[part] is not None for part in ("approval", "permit", "execution")):
                self.problem("verdict", "there is none, and something followed from it")
            return "none: the call was never judged"
        effects, proofs = [str(row.sealed["to_state"]) for row in given], ["sealed with it"] if given else []
        if approval is not None:
            self.expect("verdict", "how often it was opened for people", 1, len(rows))
            effects.append("require_approval")
            proofs += ["sealed as it was held"] if all(row.said for row in rows) else []
        for row, each, name in product([*rows, *given], filter(None, (said, approval)), ("rule", "rulebook_digest")):
            self.opened("verdict", row, name, each[name])
        for row in given:
            self.expect("verdict", "its id", said["id"], row.sealed["subject_id"])
        if claims:
            run = "require_approval" if claims["iss"] == "approval" else "allow"
            effects.append("stage" if "stage" in claims.get("mode", "run") else run)
            # What was staged runs under a permit for the commit, which names no rule.
            proofs += ["named by the permit"] if "rule" in claims else []
        for effect in effects:
            self.expect("verdict", "its effect", effect, said["effect"])
        if said["effect"] in {"deny", "stage"} and not given:
            self.problem("verdict", f"nothing sealed says that its effect was {said['effect']}")
        return ", ".join(proofs) or "stated by the gateway alone"

    def votes(self) -> str:
        approval, votes, every = self.told["approval"], self.told["votes"], self.moves("approval")
        rows = self.course("votes", "approval")
        for each in (vote for vote in votes if vote["signed"] is not None):
            self.vote(each, approval or {})
        if approval is None:
            if votes or every:
                self.problem("votes", "people were asked, and no approval is here")
            return f"none of its own{self.elsewhere()}" if self.elsewhere() else "none: nobody was asked"
        ends = [row for row in rows if row.sealed["from_state"] == "pending" != row.sealed["to_state"]]
        self.expect("votes", "how often it ended", int(approval["state"] != "pending"), len(ends))
        for row in ends:
            self.expect("votes", "how it ended", approval["state"], row.sealed["to_state"])
            for name in ("digest", "revision"):
                self.opened("votes", row, name, approval[name])
            if row.said and (approval["decided_by"] or row.sealed["event"] in DECIDED):
                self.expect("votes", "who decided", approval["decided_by"], row.said["actor"])
        accepted = [each for each in votes if each["outcome"] == "accepted"]
        if approval["decided_by"] and approval["decided_by"] not in {each["person"] for each in accepted}:
            self.problem("votes", f"no decision of {approval['decided_by']}, who ended it, is among them")
        for each in (vote for vote in accepted if vote["verb"] in BINDING):
            if each["seen"]["digest"] != approval["digest"] and not approval["edited"]:
                self.problem("votes", f"{each['person']} saw another call")
        by = "" if all(row.said for row in ends) else ", by whom the gateway states"
        edits = {each["decision_id"] for each in accepted if each["verb"] == "edit"}
        self.expect("votes", "whether it was edited", bool(edits), approval["edited"])
        self.expect("votes", "how many decisions stand once", len(votes), len({each["decision_id"] for each in votes}))
        told, spared = self.sealed_votes(votes, every)
        self.changes(approval, rows, edits, spared)
        return f"ended {approval['state']}{by}; {told}"

    def changes(self, approval: Json, rows: list[_Row], edits: Collection[str], spared: int) -> None:
        """Miss a change of what waits: each has the next number, an end the last one; so many erased rows had one."""
        # What made the arguments as they are: the beginning, edits, and what may be one and was erased.
        made = [row for row in rows if (edits and not row.said) or row.details.get("decision_id") in edits]
        made = rows[:1] + [row for row in made if row.details.get("outcome") != "asked"]
        self.opened("votes", made[-1], "digest", approval["digest"])
        if not edits:
            self.expect("votes", "its digest", self.told["proposal"]["digest"], approval["digest"])
        self.digests("votes", approval, approval["schema_digest"], rows[rows.index(made[-1]) :])
        stepped = [row for row in rows if row.sealed["event"] in STEPS and row.said.get("actor") == "clock"]
        counted = [row for row in rows if row.details.get("outcome") == "counted"]
        numbers = {row.details.get("revision") for row in [*made, *stepped, *counted]}
        if len(gone := {*range(1, approval["revision"] + 1)} - numbers) > spared:
            self.problem("votes", f"rows of revisions {', '.join(map(str, sorted(gone)))} are not here")

    def sealed_votes(self, votes: Iterable[Json], rows: Iterable[_Row]) -> tuple[str, int]:
        """Find the row of each decision, and what took its signature away; count erased rows that had a number too."""
        left, signed, withheld, spared = [*rows], 0, 0, 0
        # Who signed has a row of their own: of what is not signed it is the one that is left, or that was erased.
        for vote in sorted(votes, key=lambda each: each["signed"] is None):
            part, has = f"of vote {vote['decision_id']}", vote["signed"] is not None
            accepted, is_edit = vote["outcome"] == "accepted", vote["verb"] == "edit"
            self.expect("votes", f"whether it counted {part}", accepted and vote["verb"] in VOTING, vote["counted"])
            # Policy judges an edit: a row says that it was asked for, and another one what became of it.
            asked = self.take(left, vote, {"edit"}, {"asked"}) if accepted and is_edit else None
            # What ends it by a decision of another name counts as that one.
            events = {vote["verb"], ENDS.get(vote["verb"], "")} if accepted else {vote["verb"]}
            row = self.take(left, vote, events, {None, "counted"} if accepted else {vote["outcome"]})
            signed, withheld = signed + has, withheld + (not has)
            if row is None or (accepted and is_edit and asked is None):
                self.problem("votes", f"nothing sealed tells {part}")
            if row is None or not row.said:
                spared += row is not None and accepted and (is_edit or row.sealed["to_state"] == "pending")
                continue
            if accepted:
                self.opened("votes", row, "proof", vote["known_by"])
            # An edit is signed with the arguments as they were typed; those of a refused one nobody may see.
            redacted = any(each and each.details.get("shown") for each in (asked, row))
            if not has and not (is_edit and (redacted or not accepted)):
                self.problem("votes", f"the signature {part} is not here, and nothing was erased or redacted")
        for row in left:
            # Of an edit that was never judged, or refused then, the row that asks policy is left.
            waits = row.details.get("outcome") == "asked" if row.said else row.sealed["event"] == "edit"
            spared += not row.said and row.sealed["event"] in STEPS | {"opened"} and row.name in self.led
            cancelled = row.sealed["event"] == "withdraw" and row.details.get("decision_id")
            if cancelled or (row.sealed["event"] in VERBS and not waits):
                who = row.said["actor"] if row.said else "somebody who was erased"
                self.problem("votes", f"a decision of {who} is not here, which row {row.name} tells")
        stated = "withheld or erased: the gateway states whose they are, what they say and what came of them"
        more = f"; {withheld} more, {stated}" if withheld else ""
        return f"{signed} decisions, signed with what was seen and how their makers were known{more}", spared

    def take(self, left: list[_Row], vote: Json, events: Collection[str], outcomes: Collection[object]) -> _Row | None:
        """Take the row that tells of a decision, with one of these outcomes or erased, out of those that are left."""
        by = [row for row in left if row.sealed["event"] in events and row.said.get("actor") in {None, vote["person"]}]
        by = [row for row in by if not row.said or row.details.get("outcome") in outcomes]
        by = [row for row in by if row.details.get("decision_id") in {None, vote["decision_id"]}]
        by = [row for row in by if row.name in self.led or vote["outcome"] != "accepted"]
        # Only an edit may have no signature although its row was not erased.
        has_row = vote["signed"] is not None or vote["verb"] == "edit"
        found = min(by, key=lambda each: bool(each.said) != has_row, default=None)
        left[:] = [row for row in left if row is not found]
        return found

    def vote(self, vote: Json, approval: Json) -> None:
        """Compare a decision with what the gateway signed of it."""
        claims, part = self.claims("votes", "decision", vote["signed"]), f"of vote {vote['decision_id']}"
        told = {name: vote[name] for name in ("decision_id", "person", "verb", "reason", "key_id", "key_made_by")}
        told |= {"digest": vote["seen"]["digest"], "revision": vote["seen"]["revision"], "proof": vote["known_by"]}
        told |= {"tenant": self.told["proposal"]["tenant"], "approval_id": approval.get("id")}
        for name, value in told.items():
            self.expect("votes", f"the {name} {part}", value or None, claims.get(name) or None)

    def permit(self) -> str:
        execution, approval, claims = self.told["execution"], self.told["approval"], self.permitted
        if self.told["permit"] is None:
            # With a permit goes what was said where it was used. What a restore began, since it may have run, has none.
            away = {None: "erased with a person", "restore": "none: a restore took it away"}
            by = [row.said.get("actor") for row in self.began]
            ends = {row.sealed["to_state"] for row in self.moves("executor")}
            if ends - {"refused", "expired"} and away.keys().isdisjoint(by):
                self.problem("permit", "it ran, and no permit is here")
            return next((away[each] for each in by if each in away), "none")
        said, taken = self.told["proposal"], execution or {"permit_id": None, "pool": None}
        expected = {"sub": said["call_id"], "jti": taken["permit_id"], "aud": taken["pool"]}
        expected |= {"digest": (approval or said)["digest"], "tenant": said["tenant"], "message_id": said["message_id"]}
        expected |= {"requester": approval["requester"]} if approval else {}
        for name, value in expected.items():
            self.expect("permit", f"its {name}", value, claims.get(name))
        for row, (name, claim) in product(self.began, (("issuer", "iss"), ("reference", "reference"))):
            self.opened("permit", row, name, claims.get(claim))
        released, mode = any(row.sealed["event"] == "released" for row in self.began), claims.get("mode")
        self.expect("permit", "whether it lets a staged call run", released, mode == "staged_call")
        if mode != "staged_call" and (verdict := self.told["verdict"]) is not None:
            self.expect("permit", "its rule", verdict["rule"], claims.get("rule"))
            self.expect("permit", "its rulebook", verdict["rulebook_digest"], claims.get("rulebook"))
            self.expect("permit", "what stands behind it", (approval or verdict)["id"], claims.get("reference"))
        people = {each["person"] for each in self.told["votes"] if each["outcome"] == "accepted"}
        # Of a staged call they voted on its commit; who was erased has another name in the votes.
        missing = {*claims.get("by", ())} - people if all(row.said for row in self.rows) else set()
        if mode != "staged_call" and missing:
            self.problem("permit", f"no vote of {', '.join(sorted(missing))}, whose yes it names, is here")
        return f"signed by {claims.get('iss')}, for this call alone"

    def elsewhere(self) -> str:
        """Return where more is told of a staged call, as its permit says, which is verified elsewhere; else nothing."""
        commit = self.permitted.get("commit")
        return f"; the receipt of its commit, {commit}, has the rest" if commit else ""

    def execution(self) -> str:
        said, rows = self.told["execution"], self.ran
        self.expect("execution", "whether an executor took it", said is not None, bool(rows))
        if said is None or not rows:
            return "none: no executor took it"
        self.expect("execution", "its state", said["state"], rows[-1].sealed["to_state"])
        self.opened("execution", self.began[0], "permit_id", said["permit_id"])
        self.opened("execution", rows[0], "pool", said["pool"])
        for row in [row for row in rows if row.details.get("fence")][-1:]:
            self.opened("execution", row, "fence", said["attempt"])
        resolved = [row for row in rows if row.sealed["event"] == "resolved"]
        for row in (each for each in resolved if each.said):
            word = {"by": said["resolved_by"], "call_id": row.sealed["call_id"], "note": said["resolution_note"]}
            word |= {"outcome": said["resolution"], "pool": said["pool"], "tenant": row.sealed["tenant"]}
            told = {"by": row.said["actor"], **{each: row.details.get(each) for each in ("note", "outcome")}}
            self.expect("execution", "how it was resolved", word, word | told)
            text = json.dumps({name: each for name, each in word.items() if each}, separators=(",", ":"))
            signed = self.claims("execution", "resolution", said["resolution_signed"]).get("digest")
            self.expect("execution", "what was signed of how", _sha256(text), signed)
        for name in ("resolution", "resolved_by", "resolution_note", "resolved_at") if not resolved else ():
            self.expect("execution", f"its {name}, which nothing sealed tells,", None, said[name] or None)
        gone = "; who resolved it and how, the gateway states" if any(not row.said for row in resolved) else ""
        return f"sealed: attempt {said['attempt']} in pool {said['pool']}, {said['state']}{gone}"

    def result(self) -> str:
        said = self.told["result"]
        rows = [row for row in self.moves("agent", "proposed", "result_came") if row.sealed["to_state"] == "answered"]
        rows = [row for row in rows if row.sealed["from_state"] != "answered"]
        self.expect("result", "how often it was answered", 1, len(rows))
        for row in rows:
            self.opened("result", row, "kind", said["kind"])
            self.opened("result", row, "result_digest", data_digest(said["data"]))
        # What was lost on its way is unknown, or failed; of an erased row only that there was a result is left.
        ends = {row.sealed["to_state"] for row in self.ran} - {"running", "verifying", "committing"}
        sure, erased = said["kind"] in {"succeeded", "staged"}, not all(row.said for row in rows)
        if said["kind"] not in ends and ((sure and self.told["proposal"]["tool"] not in OWN) or (erased and ends)):
            self.problem("result", f"it is {said['kind']}, and no execution ended so")
        if erased:
            return f"{said['kind']}, stated by the gateway: erased with a person"
        return f"sealed: {said['kind']}{self.elsewhere() if said['kind'] == 'staged' else ''}"

    def opened(self, part: str, row: _Row, name: str, expected: object) -> None:
        """Compare with a detail of a sealed row; an erased row says nothing."""
        if row.said:
            self.expect(part, f"the {name} of row {row.name}", expected, row.details.get(name))


@dataclass(frozen=True)
class _Row:
    sealed: Json
    said: Json = field(default_factory=dict)
    opened: bool = True

    @classmethod
    def of(cls, each: Json) -> _Row:
        sealed = json.loads(each["line"])
        if each["salt"] is None:
            return cls(sealed, {}, each["said"] is None)
        # 36 characters of a UUID: a longer salt could have taken the beginning of the text.
        fits = len(each["salt"]) == 36 and sealed["said"] == _sha256(each["salt"] + each["said"])  # noqa: PLR2004
        return cls(sealed, json.loads(each["said"]), fits)

    @property
    def details(self) -> Json:
        return self.said.get("detail") or {}

    @property
    def name(self) -> str:
        return f"{self.sealed['service']} {self.sealed['id']}"


def call_digest(call: Json, arguments: str) -> str:
    """Return the digest of a call: SHA-256 of a prefix and the RFC 8785 form of what would run."""
    fields = {name: call[name] for name in ("conversation_id", "schema_digest", "tenant", "tool")}
    text = json.dumps({**fields, "arguments": arguments}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return _sha256("placet.call.v1\n" + text)


def data_digest(value: object) -> str:
    """Return the digest of a result: SHA-256 of its JSON with sorted keys and whole floats as integers."""
    return _sha256(json.dumps(_whole(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False))


def _whole(value: object) -> object:
    if isinstance(value, dict):
        return {name: _whole(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(Decimal(repr(value))) if isinstance(value, float) and value.is_integer() else value


def _root(line: str, place: int, path: Iterable[str], rows: int) -> str:
    """Return the Merkle root (RFC 6962) of a line at its place among `rows`, with the hashes beside its way up."""
    found, beside = hashlib.sha256(b"\x00" + line.encode()).digest(), list(path)
    if not 0 <= place < rows:
        return ""
    while rows > 1:
        if place ^ 1 < rows:
            other = bytes.fromhex(beside.pop(0))
            found = hashlib.sha256(b"\x01" + (other + found if place % 2 else found + other)).digest()
        place, rows = place // 2, (rows + 1) // 2
    return "" if beside else found.hex()


def _verified(keys: Keys, purpose: str, token: str) -> Json:
    head, body, signature = token.split(".")
    header = json.loads(_decoded(head))
    issuer, key = keys[header["kid"]]
    if urlsafe_b64encode(_decoded(signature)).rstrip(b"=").decode() != signature:
        raise ValueError("another form of base64")
    key.verify(f"{head}.{body}".encode(), _decoded(signature))
    claims: Json = json.loads(_decoded(body))
    allowed = issuer in SIGNERS.get(purpose, {"gateway"})
    if (header["typ"], claims["iss"]) != (f"placet-{purpose}", issuer) or not allowed:
        raise ValueError("signed for something else")
    return claims


def _decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Verify a file and print what was found; return the exit code."""
    parser = argparse.ArgumentParser(description="Verify the receipt of a tool call, offline.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--keys", type=Path, required=True, help="public.json of the house")
    try:
        given = parser.parse_args(arguments)
        found = verify(load_receipt(given.file.read_text("utf-8")), load_keys(given.keys.read_text("utf-8")))
    except (NotVerifiable, OSError, UnicodeDecodeError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    code = sys.stdout.encoding or "utf-8"
    for each in found:
        said = "".join(sign if sign.isprintable() else "?" for sign in each.said).encode(code, "replace").decode(code)
        sys.stdout.write(f"{'holds' if each.holds else 'WRONG'}  {each.part:<9}  {said}\n")
    return 0 if all(each.holds for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
