"""The script of the scripted model server: rules that turn a transcript into an answer or a fault.

A rule looks at the transcript of one request and nothing else, so any number of conversations and replicas
may talk to one server. The only memory is a count per rule and transcript, for "the first time 500, then ok":
a retry sends the same transcript again, another conversation does not.

    rules:
      - user: find red shoes                       # words of the last user text, any case
        first: [{status: 429, retry_after: 0}]     # answers of the first hits, one each
        answer:
          text: Let me look.
          calls: [{name: search_products, arguments: {text: red shoes}}]
      - after_results_of: [search_products]        # the transcript ends with results of exactly these calls
        answer: {text: Here they are.}
    otherwise: {text: I have no line for that.}
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict


class Line(BaseModel):
    """Base of the script's values: frozen, and a misspelt key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Call(Line):
    """One scripted tool call."""

    name: str
    #: An object is sent as its JSON; a string is sent as it is, so garbage is possible; "" sends no fragment.
    arguments: dict[str, Any] | str = {}
    #: None makes a fresh id, "" leaves the id out, anything else is sent as it is (also twice).
    id: str | None = None
    #: The stream index of an OpenAI call; None is its place. Give two calls one index to repeat it.
    index: int | None = None


class Answer(Line):
    """What the model says, or how it fails. Without a fault it is a whole, valid answer."""

    text: str = ""
    #: Anthropic only: a thinking block before everything else, which must come back unchanged.
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    #: OpenAI's word (stop, tool_calls, length, content_filter); None says the true one.
    finish: str | None = None
    #: Anything but 200 is an error answer.
    status: int = 200
    #: What an error answer says, and OpenAI's code for it.
    error: str = "scripted"
    code: str | None = None
    #: The value of the Retry-After header of an error answer, in seconds or as a date.
    retry_after: str | float | None = None
    #: Drop the connection after this many stream events (or in the middle of a body that is not streamed).
    cut_after: int | None = None
    #: With `cut_after`: end the body as if it were whole, which clients do not notice.
    cut_quietly: bool = False
    #: Send the provider's error event after this many stream events.
    error_after: int | None = None
    #: Wait before the answer until somebody opens the gate of this name.
    gate: str | None = None
    #: The same in the middle of a stream: wait after this many events instead of before the first.
    gate_after: int = 0
    #: Send the argument fragments of several OpenAI calls in turns instead of call by call.
    interleave: bool = False
    input_tokens: int = 7
    output_tokens: int = 11


@dataclass(frozen=True)
class Transcript:
    """What a rule may know of a request, the same for both providers."""

    model: str
    #: The last text of the user.
    user_text: str
    #: Names of the calls whose results end the transcript, in order; empty when it ends with a user text.
    results_of: tuple[str, ...]
    #: The texts of those results.
    results: tuple[str, ...]
    #: How many model answers came since the last user text.
    step: int
    tool_choice: str
    #: Names the transcript by its content.
    digest: str


class Rule(Line):
    """An answer and the transcripts it belongs to. A condition left out holds, but for `after_results_of`."""

    #: Words found in the last user text, any case.
    user: str | None = None
    #: Names of the calls whose results end the transcript, any order; ["*"] takes any results.
    #: Left out: the transcript ends with a user text.
    after_results_of: tuple[str, ...] | None = None
    #: Words found in one of those results.
    results_contain: str | None = None
    #: How many model answers came since the last user text; 0 is the first step of a turn.
    step: int | None = None
    #: The model asked for.
    model: str | None = None
    #: "none" or "auto", as the request says it; no tools count as "none".
    tool_choice: str | None = None
    #: Answers of the first hits of one transcript, one each; afterwards `answer`.
    first: tuple[Answer, ...] = ()
    answer: Answer = Answer()

    def fits(self, seen: Transcript) -> bool:
        """Whether every condition of this rule holds for the transcript."""
        return (
            (self.user is None or self.user.lower() in seen.user_text.lower())
            and self._fits_results_of(seen)
            and (self.results_contain is None or any(self.results_contain in text for text in seen.results))
            and self.step in {None, seen.step}
            and self.model in {None, seen.model}
            and self.tool_choice in {None, seen.tool_choice}
        )

    def _fits_results_of(self, seen: Transcript) -> bool:
        if self.after_results_of == ("*",):
            return bool(seen.results_of)
        return sorted(self.after_results_of or ()) == sorted(seen.results_of)


class Script(Line):
    """Rules in order, the first that fits answers."""

    rules: tuple[Rule, ...] = ()
    otherwise: Answer = Answer(text="The script has no line for that.")

    @classmethod
    def load(cls, path: Path) -> "Script":
        """Read a script from a YAML or JSON file; pydantic's ValidationError names what is wrong."""
        return cls.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


@dataclass
class Prompter:
    """A script being played: knows how often each rule has met each transcript."""

    script: Script
    _met: Counter[tuple[int, str]] = field(default_factory=Counter)

    def answer(self, seen: Transcript) -> Answer:
        """Give the answer of the first rule that fits."""
        for place, rule in enumerate(self.script.rules):
            if rule.fits(seen):
                return self._next(place, rule, seen.digest)
        return self.script.otherwise

    def _next(self, place: int, rule: Rule, digest: str) -> Answer:
        before = self._met[place, digest]
        self._met[place, digest] += 1
        return rule.first[before] if before < len(rule.first) else rule.answer


def words(text: str) -> list[str]:
    """Cut a text into stream pieces that join to exactly the text."""
    return re.findall(r"\s*\S+|\s+$", text)


def arguments_text(call: Call) -> str:
    """Give the argument text of a scripted call, exactly as it goes over the wire."""
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)


def scripted_model(port: int) -> dict[str, str]:
    """Return the settings of a Placet whose model plays a script at this port."""
    return {
        "PLACET_MODEL": "openai/scripted",
        "PLACET_MODEL_API_BASE": f"http://127.0.0.1:{port}/v1",
        "PLACET_MODEL_API_KEY": "scripted-key",
    }


def digest_of(messages: Sequence[Any]) -> str:
    """Name a transcript by its content."""
    return sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()
