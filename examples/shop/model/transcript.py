"""What the demo model remembers: nothing but the transcript it is given, read anew each time.

A language model works the same way, so the demo shows the real thing: if a result is missing from the
transcript, the model does not know it.

Pure: OpenAI-shaped messages in, values out.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

#: How messages of Placet itself begin: what became of a call later, what an operator wrote; and a stopped turn's.
OUTCOME_MARK = "<placet-outcome>"
OPERATOR_MARK = "<placet-operator>"
STOPPED_HEAD = (
    "From the system, not from the user: your turn was stopped before its end, and what you were writing then was "
    "thrown away. Do not go on with it unless you are asked to."
)


@dataclass(frozen=True)
class Product:
    """One product of a search result."""

    product_id: str
    name: str
    price: str
    currency: str
    in_stock: bool
    on_sale: bool
    #: (id, label, in stock) of each variant.
    variants: tuple[tuple[str, str, bool], ...]


@dataclass(frozen=True)
class Made:
    """One call the model made, and its result so far."""

    call_id: str
    name: str
    arguments: dict[str, Any]
    #: Where its message stands in the transcript.
    place: int
    #: The JSON object of its result; {} while there is none. A late outcome replaces an interim one.
    result: dict[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The result kind (succeeded, denied ...), "" while there is none."""
        return str(self.result.get("result", ""))

    @property
    def data(self) -> dict[str, Any]:
        """The tool's data, {} if it gave none."""
        data = self.result.get("data")
        return data if isinstance(data, dict) else {}


class Transcript:
    """The conversation as the demo model sees it."""

    def __init__(self, messages: Sequence[Mapping[str, Any]]) -> None:
        #: Every call, oldest first.
        self.made: list[Made] = []
        #: What the visitor said, oldest first; messages that came before the model could speak are one text.
        self.user_texts: list[str] = []
        #: What the model said since then.
        self.said = ""
        #: Ids of the calls whose results came since the model last spoke, oldest first.
        self.news: list[str] = []
        self._asked_at = -1
        self._spoke = False
        for place, message in enumerate(messages):
            self._read(place, message)

    def fresh(self) -> list[Made]:
        """List the calls made since the visitor's last words."""
        return [made for made in self.made if made.place > self._asked_at]

    def searches(self) -> list[Made]:
        """List the searches that succeeded, newest first."""
        found = [made for made in self.made if made.name == "search_products" and made.kind == "succeeded"]
        return found[::-1]

    def shown(self) -> list[Product]:
        """List the products of the newest search that found any."""
        return next((products for made in self.searches() if (products := products_of(made))), [])

    def known(self) -> list[Product]:
        """List every product ever shown, newest search first."""
        return [product for made in self.searches() for product in products_of(made)]

    def _read(self, place: int, message: Mapping[str, Any]) -> None:
        role, text = message.get("role"), text_of(message)
        if role == "assistant":
            self.said, self.news, self._spoke = f"{self.said}\n{text}", [], True
            self.made += [_made(place, call) for call in message.get("tool_calls") or ()]
        elif role == "tool":
            self._settle(str(message.get("tool_call_id")), _object(text))
        elif text.startswith(OPERATOR_MARK):
            # What was said before, a person has answered.
            self._spoke = True
        elif not self._read_late_outcome(text) and role == "user":
            self._hear(text)
            self._asked_at = place

    def _hear(self, text: str) -> None:
        if self.user_texts and not self._spoke:
            self.user_texts[-1] += f"\n{text}"
        else:
            self.user_texts.append(text)
        self.said, self._spoke = "", False

    def _read_late_outcome(self, text: str) -> bool:
        """Read what the house says of a call, which no user can; only one that waits can have an outcome now."""
        if not text.startswith(OUTCOME_MARK):
            return False
        # What was asked for in a turn that people stopped is not to be done after all.
        self._spoke = self._spoke or STOPPED_HEAD in text
        outcome = _outcome_in(text)
        for made in self.made:
            if made.kind in {"pending_confirmation", "stopped"} and made.result.get("call") == outcome.get("call"):
                self._settle(made.call_id, outcome)
                break
        return True

    def _settle(self, call_id: str, result: dict[str, Any]) -> None:
        self.made = [replace(made, result=result) if made.call_id == call_id else made for made in self.made]
        self.news.append(call_id)


def products_of(made: Made) -> list[Product]:
    """Read the products of one search result, in its order."""
    return [_product(item) for item in made.data.get("products") or () if isinstance(item, dict)]


def text_of(message: Mapping[str, Any]) -> str:
    """Give the text of a message, whatever its content's shape."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content or ())


def _made(place: int, call: Mapping[str, Any]) -> Made:
    function = call["function"]
    arguments = _object(function["arguments"])
    # What was refused comes back wrapped; it was made all the same, and making it again would change nothing.
    if list(arguments) == ["invalid_arguments"]:
        arguments = _object(str(arguments["invalid_arguments"]))
    return Made(str(call["id"]), str(function["name"]), arguments, place)


def _outcome_in(text: str) -> dict[str, Any]:
    """Find the JSON object with a result in a text, {} if there is none."""
    start = text.find("{")
    try:
        outcome, _ = json.JSONDecoder().raw_decode(text[start:] if start >= 0 else "")
    except ValueError:
        return {}
    return outcome if isinstance(outcome, dict) and isinstance(outcome.get("result"), str) else {}


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {}


def _product(item: Mapping[str, Any]) -> Product:
    variants = [variant for variant in item.get("variants") or () if isinstance(variant, dict)]
    return Product(
        product_id=str(item.get("id", "")),
        name=str(item.get("name", "")),
        price=str(item.get("price", "")),
        currency=str(item.get("currency", "")),
        in_stock=bool(item.get("in_stock", True)),
        on_sale=bool(item.get("on_sale", False)),
        variants=tuple((str(v.get("id")), str(v.get("label")), bool(v.get("in_stock", True))) for v in variants),
    )
