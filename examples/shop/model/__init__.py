"""The built-in demo model: rule-based, and honest about it.

It takes what a model takes (messages and tools in OpenAI's shape) and answers as a model answers, with text
and tool calls, so that the whole of Placet can be seen at work without a key or a network. It calls only
tools it is offered, believes only the transcript, and never asks for an approval: that is Placet's part.

Pure: the same transcript always gets the same answer.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shop.model import words
from shop.model.shelf import Choice, choose, restated
from shop.model.shopping import Add, PayLink, Search
from shop.model.transcript import Transcript
from shop.model.wishes import Escalate, Lead, Talk, Wish, understand


@dataclass(frozen=True)
class Call:
    """One tool call of the demo model."""

    call_id: str
    name: str
    arguments: dict[str, Any]

    def in_openai_shape(self) -> dict[str, Any]:
        """Return the call as an assistant message has it."""
        arguments = json.dumps(self.arguments, ensure_ascii=False)
        return {"id": self.call_id, "type": "function", "function": {"name": self.name, "arguments": arguments}}


@dataclass(frozen=True)
class Answer:
    """What the demo model says, and the calls that it proposes."""

    text: str
    calls: tuple[Call, ...]

    def message(self) -> dict[str, Any]:
        """Return the answer as one assistant message, without its role."""
        calls = [call.in_openai_shape() for call in self.calls]
        return {"content": self.text or None, **({"tool_calls": calls} if calls else {})}


@dataclass
class _Reply:
    """An answer under construction."""

    seen: Transcript
    offered: frozenset[str]
    may_call: bool

    def __post_init__(self) -> None:
        self.sentences: list[str] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def say(self, sentence: str) -> None:
        """Say something once per turn."""
        if sentence not in self.seen.said and sentence not in self.sentences:
            self.sentences.append(sentence)

    def call(self, name: str, arguments: dict[str, Any]) -> None:
        """Make a call, unless it was made in this turn already or cannot be made here."""
        if (name, arguments) in self.calls or _was_made(self.seen, name, arguments):
            return
        if name not in self.offered:
            self.say(f"I have no tool for {words.about_to(name, arguments, self.seen.known())} here.")
        elif not self.may_call:
            self.say("I may not use my tools right now, so I stop here.")
        else:
            self.calls.append((name, arguments))

    def searches(self) -> bool:
        """Whether a search is on its way, so that what refers to its products has to wait."""
        return any(name == "search_products" for name, _ in self.calls)


def reply(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], tool_choice: str
) -> dict[str, Any]:
    """Answer as `python/shop.model:reply`."""
    return answer(messages, tools, tool_choice).message()


def answer(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], tool_choice: str = "auto"
) -> Answer:
    """Answer a transcript with text, calls or both."""
    seen = Transcript(messages)
    offered = frozenset(str(tool["function"]["name"]) for tool in tools)
    draft = _Reply(seen, offered, may_call=tool_choice != "none")
    for made in seen.made:
        if made.call_id in seen.news:
            draft.say(words.outcome(made, seen.known()))
    _fulfil_wishes(draft)
    calls = tuple(
        Call(f"demo_{place}", name, arguments)
        for place, (name, arguments) in enumerate(draft.calls, start=len(seen.made) + 1)
    )
    return Answer(_text(draft), calls)


def _fulfil_wishes(reply: _Reply) -> None:
    message = reply.seen.user_texts[-1] if reply.seen.user_texts else ""
    wishes = understand(message) or restated(reply.seen)
    for wish in wishes:
        _fulfil(reply, wish)
    if not wishes and not reply.seen.news:
        reply.say(words.NOT_UNDERSTOOD)


def _fulfil(reply: _Reply, wish: Wish) -> None:
    match wish:
        case Talk():
            reply.say(words.TALK[wish.topic])
        case Search():
            reply.call("search_products", _search_arguments(reply.seen, wish))
        case Add():
            _add(reply, wish)
        case PayLink():
            _pay_link(reply, wish)
        case Lead():
            details = {"name": wish.name, "email": wish.email, "phone": wish.phone}
            reply.call("collect_lead", {key: value for key, value in details.items() if value})
        case Escalate():
            reply.call("escalate_to_human", {"reason": f'The visitor wrote: "{wish.words}"'})


def _add(reply: _Reply, wish: Add) -> None:
    if reply.searches() and not wish.name:
        return  # "them" are products that are still being looked for: next step
    choice: Choice = choose(wish, reply.seen)
    if choice.arguments:
        reply.call("add_to_cart", choice.arguments)
    elif choice.look_for and not _was_made(reply.seen, "search_products", {"text": choice.look_for}):
        reply.call("search_products", {"text": choice.look_for})
    else:
        reply.say(choice.question)


def _pay_link(reply: _Reply, wish: PayLink) -> None:
    if wish.amount is None:
        reply.say('Over which amount? Say for example "create a payment link over 299 TRY".')
    elif not wish.currency:
        reply.say(f'In which currency? Say for example "create a payment link over {words.money(wish.amount)} TRY".')
    else:
        note = {"note": wish.note} if wish.note else {}
        reply.call("create_pay_link", {"amount": words.money(wish.amount), "currency": wish.currency, **note})


def _search_arguments(seen: Transcript, wish: Search) -> dict[str, Any]:
    said = {
        "text": wish.text,
        "category": wish.category,
        "max_price": None if wish.max_price is None else words.money(wish.max_price),
        "on_sale": wish.on_sale,
        "in_stock_only": wish.in_stock_only,
    }
    before = next((made.arguments for made in seen.searches()), {}) if wish.refine else {}
    return {**before, **{key: value for key, value in said.items() if value not in {"", None, False}}}


def _was_made(seen: Transcript, name: str, arguments: Mapping[str, Any]) -> bool:
    return any(made.name == name and made.arguments == arguments for made in seen.fresh())


def _text(reply: _Reply) -> str:
    steps = [words.about_to(name, arguments, reply.seen.known()) for name, arguments in reply.calls]
    doing = [f"I am {', '.join(steps)}."] if steps else []
    return "\n".join([*reply.sentences, *doing])
