"""What both OpenAI dialects do with a request: find the conversation, decide, write, and listen until nothing goes on.

How far a client was told is kept with the conversation, so what people decided elsewhere reaches it with its next
request. That is kept just before a response's last words are sent: a client that vanished is told again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from itertools import count

from placet.contracts.errors import Refused
from placet.contracts.ids import derived_id, new_id, own_id
from placet.gateway.approvals.answers import Answer, asked_alone
from placet.gateway.approvals.consent import may_consent
from placet.gateway.approvals.voting import count_votes, ways_words
from placet.gateway.conversations.access import may_read, no_conversation
from placet.gateway.conversations.items import Item
from placet.gateway.conversations.rules import author_of
from placet.gateway.conversations.service import Plan, Writing, open_conversation
from placet.gateway.conversations.store import mark_told
from placet.gateway.dialects import streams
from placet.gateway.dialects.conversation_state import ConversationState
from placet.gateway.dialects.openai import Goal, Progress, ResponseId, is_answering, request_id
from placet.gateway.dialects.streams import Snapshot
from placet.gateway.http.deps import Deps
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope, hash_secret
from placet.gateway.store import reading
from placet.gateway.store.read import list_votes, load_approvals
from placet.runtime.queries import load_queries

_QUERIES = load_queries(__file__)
#: States of a call in the log that has its result.
_ENDED = frozenset({"success", "error"})


def agent_of(deps: Deps, caller: Caller, snapshot: Snapshot | None, model: str | None) -> str:
    """Return the agent that a request is for; raise Refused where there is none of the name (404), or another (400)."""
    at_home = snapshot.conversation.agent if snapshot else None
    name = model or at_home or "default"
    if name not in deps.agents.of(caller.tenant) and name != at_home:
        raise no_model(name)
    if at_home and name != at_home:
        fault = {"detail": f"this conversation is with {at_home}", "pointer": "#/model"}
        raise Refused("The conversation has another agent.", status=400, kind="model-mismatch", errors=[fault])
    return name


def no_model(name: str) -> Refused:
    """Return the answer for an agent that nobody may name."""
    fault = {"detail": "no such agent", "pointer": "#/model"}
    return Refused(f"There is no model {name[:64]!r}.", status=404, kind="model-not-found", errors=[fault])


async def find(deps: Deps, caller: Caller, conversation_id: str) -> Snapshot | None:
    """Return a conversation that exists for the caller; raise Refused (403) for one who may not chat."""
    caller.need(Scope.CHAT)
    return await streams.find(deps, caller, conversation_id)


async def found(deps: Deps, caller: Caller, conversation_id: str) -> Snapshot:
    """Return a conversation that exists for the caller; raise Refused (403, 404)."""
    caller.need(Scope.CHAT)
    return await streams.read(deps, caller, conversation_id)


def begun_by(caller: Caller, key: str) -> str:
    """Return the conversation that the caller's request with an `Idempotency-Key` begins; empty where it has none."""
    return own_id(caller.tenant, derived_id("openai-begun", caller.person, key)) if key else ""


async def begin(deps: Deps, caller: Caller, agent: str, language: str, conversation_id: str = "") -> Snapshot:
    """Open a conversation, under its id where it has one already; one that is open by then stays as it is.

    Raises Refused (400) where somebody else opened it meanwhile, with another agent.
    """
    opened, token = await open_conversation(
        deps.runtime.units, caller, Plan(agent, language), conversation_id, agents=deps.agents
    )
    snapshot = await found(deps, caller, opened)
    agent_of(deps, caller, snapshot, agent)
    return snapshot._replace(is_new=snapshot.conversation.token_hash == hash_secret(token))


async def beside(deps: Deps, caller: Caller, chat: Snapshot, begun_with: Sequence[str]) -> Snapshot:
    """Return the conversation of a chat's request whose history begins with a text, which may be read in several ways.

    That is the chat's own where its user has written the text there, or nothing at all. What begins otherwise is asked
    beside it (titles, queries), or is a branch (the first message was edited): the same text has the same conversation.
    Where somebody else has just opened the chat, what they wrote is waited for.
    """
    if not (chat.is_new or chat.items or caller.conversation_id):
        await deps.log.appears(caller, chat.conversation.conversation_id, 0)
        chat = await found(deps, caller, chat.conversation.conversation_id)
    conversation, of_chat = chat.conversation, chat.conversation.conversation_id
    place = {"tenant": caller.tenant, "conversation_id": of_chat}
    async with reading(deps.runtime.database) as connection:
        (row,) = await connection.run(_QUERIES.is_of_chat, **place, texts=list(begun_with))
    if row["is_of_chat"]:
        return chat
    if caller.conversation_id is not None:
        raise no_conversation()
    branch = own_id(caller.tenant, derived_id("openai-beside", of_chat, begun_with[0]))
    return await begin(deps, caller, conversation.agent or "default", conversation.language, branch)


async def asked_again(deps: Deps, caller: Caller, snapshot: Snapshot, text: str, history: str) -> str:
    """Return the id of the message, a text, that a chat's history ends with, by the digest of that history.

    A frontend that asks for another answer posts the same history once more. While the newest answer to it is being
    made, or waits for people, that is the same message, whoever wrote it: a second one would propose the same payment
    twice. So it is for all who ask at the same moment, but for a yes or no while a call waits: each of them may vote.
    """
    conversation_id, log = snapshot.conversation.conversation_id, snapshot.log
    async with reading(deps.runtime.database) as connection:
        rows = await connection.run(_QUERIES.written, tenant=caller.tenant, conversation_id=conversation_id)
    written = {row["message_id"]: row["seq"] for row in rows}
    own = caller.person if log.waiting and may_consent(text) else ""
    another = ""
    for person in dict.fromkeys([own, "", *(row["author"] for row in rows)]):
        ids = (derived_id("openai", conversation_id, person, f"{history}.{number}") for number in count())
        newest, following = "", next(ids)
        while following in written:
            newest, following = following, next(ids)
        if newest and (is_answering(log, newest) or written[newest] > snapshot.newest):
            return newest
        another = another or following
    return another


def message_id_of(caller: Caller, snapshot: Snapshot, text: str, key: str, headers: Mapping[str, str]) -> str:
    """Return the id of a message that may come twice: by its key, else as it is repeated; empty where it is new."""
    if key:
        return derived_id("openai", snapshot.conversation.conversation_id, caller.person, key)
    return _untold_id(caller, snapshot, text, headers)


def _untold_id(caller: Caller, snapshot: Snapshot, text: str, headers: Mapping[str, str]) -> str:
    """Return the id of the message that OpenAI's SDK repeats by itself, as its header counts; empty for a new one.

    That is its author's newest one of this text whose answer nobody was told: what was told is no lost answer.
    """
    if headers.get("x-stainless-retry-count", "0") == "0" or not text:
        return ""
    told = snapshot.conversation.told_seq or 0
    wanted = ("user", text, author_of(caller, snapshot.conversation, None).model_dump())
    said = (each.data for each in reversed(snapshot.items) if each.type == "message" and each.id > told)
    same = (each for each in said if wanted == (each["role"], each["text"], each.get("author")))
    return str(next(same, {}).get("message_id", ""))


async def ask(
    deps: Deps,
    caller: Caller,
    snapshot: Snapshot,
    text: str,
    answers: Sequence[Answer] = (),
    message_id: str = "",
    behind: ResponseId | None = None,
) -> Goal:
    """Decide what the client answered and post what it wrote; return what it then waits for.

    The same `message_id` is the same message, told again; empty for a new one. `behind` is the last response that the
    client has, where it says so.
    Raises Refused as deciding and writing do; what was decided before the refusal stays decided.
    """
    conversation, newest = snapshot.conversation, snapshot.newest
    conversation_id = conversation.conversation_id
    may_read(caller, conversation_id)
    decided, refused = await streams.decide(deps, caller, conversation_id, answers, all_count=True)
    left = frozenset(answer.approval_id for answer in answers) - decided - refused.keys()
    log = snapshot.log
    decided_now = decided | await streams.decided_since(deps, caller, log)
    goal = Goal(
        conversation_id,
        told=newest if conversation.told_seq is None else min(conversation.told_seq, newest),
        newest=newest,
        decided=decided_now,
        asked_again=left,
        over=decided_now | over(log),
        asked_alone=await _next_alone(deps, caller, log, decided | left) if answers else "",
        voted=await voted_on(deps, caller, log, conversation.language),
        language=conversation.language,
        holder=snapshot.holder,
        holder_revision=conversation.holder_revision,
    )
    goal = _retold(goal, snapshot, decided | (await _missed(deps, caller, snapshot, behind) if behind else frozenset()))
    if not text:
        return goal
    writing = Writing(text, message_id or new_id())
    taken = await deps.consents.take(caller, conversation_id, writing)
    if taken is None or taken.posted.taken_as is None:
        await deps.posts.post(caller, conversation_id, writing)
        return _written(goal, snapshot, str(writing.message_id))
    if taken.outcome not in {None, "accepted"}:
        title = "The message was taken for a decision, which did not count."
        raise Refused(title, status=409, kind="decision-refused", outcome=taken.outcome)
    approval = await deps.decisions.find(caller, taken.posted.taken_as["approval_id"])
    consented = frozenset({str(approval["approval_id"])})
    if approval["state"] == "pending":
        voted = await voted_on(deps, caller, log, conversation.language)
        return replace(goal, asked_again=goal.asked_again | consented, voted=voted)
    return replace(goal, decided=goal.decided | consented)


def said_before(snapshot: Snapshot, answered: Collection[str]) -> set[str]:
    """Return what users wrote before all that is answered was asked."""
    asked = dict[str, int]()
    for item in snapshot.items:
        if item.type == "approval":
            asked.setdefault(item.data["approval_id"], item.id)
    end = max((asked.get(approval_id, 0) for approval_id in answered), default=0)
    return {item.data["text"] for item in snapshot.items if item.id < end and begins_anew(item)}


async def voted_on(deps: Deps, caller: Caller, log: ConversationState, language: str) -> dict[str, Progress]:
    """Return the requests that wait although the caller's vote counts, with how far their approvals are."""
    waiting = {(caller.tenant, call.approval_id) for call in log.waiting}
    if not waiting:
        return {}
    async with reading(deps.runtime.database) as connection:
        rows = [row for row in (await load_approvals(connection, waiting)).values() if row["state"] == "pending"]
        counted = await count_votes(connection, caller.tenant, rows, deps.directory())
    return {
        request_id(row): Progress(ways_words(each.tally, language), [asdict(panel) for panel in each.tally.panels])
        for row in rows
        if (each := counted[row["approval_id"]]).of(caller.person)
    }


def over(log: ConversationState) -> frozenset[str]:
    """Return the approvals of a log that nobody is asked about any more."""
    return frozenset(call.approval_id for call in log.calls.values() if not log.asks(call))


def _retold(goal: Goal, snapshot: Snapshot, decided: frozenset[str]) -> Goal:
    """Return the goal of a client that answers what was decided already: it is told what came of it, if again.

    That ends with the user's next message behind the results; what the client was told after it is not told again.
    """
    cards = [item for item in snapshot.items if item.type == "approval" and item.data["approval_id"] in decided]
    ended = {item.data["call_id"]: item.id for item in cards if item.data["state"] != "pending"}
    results = _results(snapshot, {item.data["call_id"] for item in cards})
    # A result may come before its approval's end.
    first = min((*ended.values(), *results.values()), default=goal.told + 1)
    if first > goal.told:
        return goal
    last = max(results.values()) if results.keys() >= ended.keys() else goal.told
    end = next((item.id for item in snapshot.items if item.id > last and begins_anew(item)), goal.told + 1)
    return replace(goal, told=first - 1, skipped=range(end, goal.told + 1))


def _results(snapshot: Snapshot, call_ids: Collection[str]) -> dict[str, int]:
    """Return the numbers of the items that have the results of calls, by call."""
    calls = (item for item in snapshot.items if item.type == "tool_call" and item.data["call_id"] in call_ids)
    return {item.data["call_id"]: item.id for item in calls if item.data["status"] in _ENDED}


async def _missed(deps: Deps, caller: Caller, snapshot: Snapshot, behind: ResponseId) -> frozenset[str]:
    """Return the approvals with a vote of the caller that others ended behind a response, which could not tell of it.

    How far clients were told is kept for all of a conversation, and whoever gave the last vote may have been told.
    """
    voted, ended = dict[str, int](), dict[str, int]()
    rests_at, log, goal = 0, ConversationState(), Goal("", behind.told, message_id=behind.message_id)
    for item in snapshot.items:
        log.read(item)
        rests_at = rests_at or (item.id if goal.rests(log) else 0)
        data, call = item.data, log.calls.get(str(item.data.get("call_id")))
        if call is None or item.type not in {"approval", "tool_call"}:
            continue
        if (data.get("kind"), data.get("person")) == ("voted", caller.person):
            voted[call.approval_id] = item.id
        elif data.get("decided_by") == caller.person:
            ended.pop(call.approval_id, None)
        elif data.get("state", "pending") != "pending" or (call.approval_id and data.get("status") in _ENDED):
            ended.setdefault(call.approval_id, item.id)
    if behind.message_id:
        ended = {each: at for each, at in ended.items() if 0 < rests_at < at}
    else:
        # A response of answers alone is the one that voted; another one that begins there has told of it.
        ended = {each: at for each, at in ended.items() if voted.get(each, at) > behind.told}
    if ended.keys() <= voted.keys():
        return frozenset(ended)
    # The log has no vote that came behind the end that it led to.
    async with reading(deps.runtime.database) as connection:
        votes = await list_votes(connection, caller.tenant, list(ended))
    return frozenset(each["approval_id"] for each in votes if each["person"] == caller.person)


def begins_anew(item: Item, message_id: str = "") -> bool:
    """Tell whether an item is a message of the user, which what is told before it does not answer."""
    said = item.type == "message" and item.data["role"] == "user" and not item.data.get("taken_as")
    return said and item.data["message_id"] != message_id


async def _next_alone(deps: Deps, caller: Caller, log: ConversationState, seen: frozenset[str]) -> str:
    """Return the next approval to ask about of those that are given by themselves; empty where none waits.

    Clients that post the answers of one response together can answer such calls only if they are asked one by one.
    """
    waiting = [call.approval_id for call in log.waiting if call.approval_id not in seen]
    risky = await asked_alone(deps.decisions, caller, waiting)
    return next((each for each in waiting if each in risky), "")


def _written(goal: Goal, snapshot: Snapshot, message_id: str) -> Goal:
    """Return what a client waits for that wrote; where it had written that already, it is told again from there."""
    known = (item for item in snapshot.items if item.type == "message" and item.data["message_id"] == message_id)
    again = next(known, None)
    goal = replace(goal, message_id=message_id)
    return replace(goal, told=min(goal.told, again.id), skipped=range(0)) if again else goal


async def tell(deps: Deps, caller: Caller, snapshot: Snapshot, goal: Goal, number: int) -> tuple[int, int] | None:
    """Keep that the client was told all up to item `number`; return the tokens that what it was told took."""
    async with deps.runtime.database.single() as connection:
        await mark_told(connection, (caller.tenant, goal.conversation_id), number)
    parts = [(goal.told, goal.skipped.start), (goal.skipped.stop - 1, 0)] if goal.skipped else [(goal.told, 0)]
    found = [
        await token_usage(deps, caller, goal.conversation_id, snapshot.moment(since), snapshot.moment(until))
        for since, until in parts
    ]
    counted = [each for each in found if each]
    return (sum(read for read, _ in counted), sum(written for _, written in counted)) if counted else None


async def token_usage(
    deps: Deps, caller: Caller, conversation_id: str, since: datetime | None, until: datetime | None = None
) -> tuple[int, int] | None:
    """Return the tokens that the model read and wrote in a conversation; None where it counted none."""
    place = {"tenant": caller.tenant, "conversation_id": conversation_id}
    async with reading(deps.runtime.database) as connection:
        (row,) = await connection.run(_QUERIES.token_usage, **place, since=since, until=until)
    return (int(row["read"] or 0), int(row["written"] or 0)) if row["read"] or row["written"] else None
