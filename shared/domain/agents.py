"""Agents as a file says them: which there are, whose they are, and how each differs from what the settings say.

The agent service runs them and the gateway refuses conversations with others, so both read the same file. It is read
like the rulebook: every mistake is told by file, line and column, and a file with one stops the start. Keys of
models never stand in it; an entry names the environment variable that has its key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, ValidationError

from placet.contracts.messages.message import Identifier
from placet.domain.catalog import Catalog
from placet.domain.yaml_source import Steps, WrittenEntry, YamlSource, did_you_mean, read_yaml

#: The agent of a conversation that names none.
DEFAULT = "default"

_Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]
_Glob = Annotated[str, Field(min_length=1, max_length=64)]
_Seconds = Annotated[float, Field(gt=0, le=86_400)]
_Amount = Annotated[float, Field(gt=0, le=1e9)]
_Tokens = Annotated[int, Field(ge=1)]


#: Tells what is wrong with a text; None where nothing is.
WhyNot = Callable[[str], str | None]


class _Entry(WrittenEntry):
    model_config = ConfigDict(strict=True)


class PriceEntry(_Entry):
    """What a model costs, in the currency of the budgets (that of litellm's price map: US dollars)."""

    input_per_million: Annotated[float, Field(ge=0, description="A million tokens that it reads.")]
    output_per_million: Annotated[float, Field(ge=0, description="A million tokens that it writes.")]


class BudgetEntry(_Entry):
    """What may be used up. What is left out has no bound of its own; a day is one of UTC."""

    tokens_per_conversation: _Tokens | None = Field(default=None, description="Tokens of one conversation, ever.")
    cost_per_conversation: _Amount | None = Field(default=None, description="What one conversation may cost.")
    tokens_per_day: _Tokens | None = Field(default=None, description="Tokens of this agent for one tenant on one day.")
    cost_per_day: _Amount | None = Field(default=None, description="What it may cost one tenant on one day.")


class ModelEntry(_Entry):
    """One model and how to reach it."""

    model: Annotated[str, Field(min_length=1, description="`provider/name` as litellm spells it.")]
    model_api_base: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="Where it answers; none: its public address."
    )
    model_api_key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = Field(
        default=None, description="The environment variable of the agent service that has its key."
    )
    timeout_seconds: _Seconds | None = Field(default=None, description="One attempt, request to last word.")
    retries: Annotated[int, Field(ge=0, le=10)] | None = Field(
        default=None, description="Further attempts after the first."
    )
    price: PriceEntry | None = Field(default=None, description="What it costs, where litellm does not know better.")


class AttemptEntry(ModelEntry):
    """How some attempts at a task of a job differ from the others."""

    model: Annotated[str, Field(min_length=1)] | None = Field(  # type: ignore[assignment]  # here it may be left out
        default=None, description="`provider/name` as litellm spells it; none: the agent's own."
    )
    temperature: Annotated[float, Field(ge=0, le=2)] | None = Field(
        default=None, description="None leaves it to the provider."
    )


class AccomplishEntry(_Entry):
    """The tool `accomplish`: what its jobs may use up, and how deep they may stand in each other."""

    depth_max: Annotated[int, Field(ge=1, le=5)] = Field(
        default=1, description="Jobs in jobs at most; 1: the attempts of a job have none done themselves."
    )
    k: Annotated[int, Field(ge=1, le=20)] | None = Field(default=None, description="Votes ahead; none: computed.")
    attempts_max: Annotated[int, Field(ge=1, le=100)] = 25
    tasks_max: Annotated[int, Field(ge=1, le=100)] = 20
    tokens: _Tokens | None = Field(default=None, description="Of one job.")
    cost: _Amount | None = Field(default=None, description="Of one job, in US dollars.")
    tokens_per_attempt: Annotated[int, Field(ge=1, le=10_000_000)] = 20_000


class AgentEntry(ModelEntry):
    """One of `agents`. What it leaves out is as the settings of the agent service say.

    Model, address, key and fallbacks belong together: an entry with a `model` of its own takes none of the settings'.
    """

    model: Annotated[str, Field(min_length=1)] | None = Field(  # type: ignore[assignment]  # here it may be left out
        default=None, description="`provider/name` as litellm spells it; none: the settings' model."
    )
    description: Annotated[_Text, Field(max_length=300, description="For people who choose.")] = ""
    suggestions: Annotated[list[Annotated[_Text, Field(min_length=1, max_length=120)]], Field(max_length=6)] | None = (
        Field(default=None, description="What the chat's start page suggests to write.")
    )
    fallbacks: list[ModelEntry] | None = Field(default=None, description="Models to try when this one cannot answer.")
    attempts: Annotated[list[AttemptEntry], Field(max_length=16)] = Field(
        default_factory=list, description="Whom attempts of jobs ask, in turn; none: all ask the agent's own model."
    )
    accomplish: AccomplishEntry | None = Field(
        default=None, description="Offer the tool `accomplish`, which has a job done; none: it has no such tool."
    )
    stream: bool | None = Field(default=None, description="Stream the text as it comes.")
    instructions: Annotated[_Text, Field(max_length=100_000)] | None = Field(
        default=None, description="Who the agent is; the house's own words about results and consent follow them."
    )
    tools: list[_Glob] = Field(
        default_factory=lambda: ["*"], description="Globs over the rulebook's tools; empty: it has none."
    )
    max_steps: Annotated[int, Field(ge=1, le=100)] | None = Field(default=None, description="Model steps per turn.")
    final_answer: bool | None = Field(default=None, description="Offer the tool `final_answer` that ends a turn.")
    pending: Literal["continue", "wait", "supersede"] | None = Field(
        default=None, description="What a message does that comes while people think about calls."
    )
    while_pending: Literal["hold", "continue"] | None = Field(
        default=None, description="While people think and nobody writes: hold the turn, or continue it."
    )
    pseudonyms: bool | None = Field(default=None, description="The model sees pseudonyms instead of personal data.")
    pseudonym_names: list[_Glob] = Field(
        default_factory=lambda: ["name", "name.*"],
        description="Globs over the labels of a conversation whose values are names of people.",
    )
    pseudonym_patterns: Annotated[
        dict[
            Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")],
            Annotated[_Text, Field(min_length=1, max_length=1_000)],
        ],
        Field(max_length=32),
    ] = Field(default_factory=dict, description="Kind to a pattern (RE2) of what is personal data here as well.")
    pseudonym_region: Annotated[str, Field(pattern=r"^[A-Z]{2}$")] | None = Field(
        default=None, description="Country of phone numbers that name none, by ISO 3166; none: they are not found."
    )
    tenants: list[_Glob] = Field(
        default_factory=lambda: ["*"], description="Globs over the tenants that it exists for; empty: for nobody."
    )
    labels: Annotated[
        dict[
            Annotated[_Text, Field(min_length=1, max_length=64)],
            Annotated[_Text, Field(max_length=256)],
        ],
        Field(max_length=32),
    ] = Field(default_factory=dict, description="Labels of its conversations; what their opener says goes first.")
    budget: BudgetEntry = Field(default_factory=BudgetEntry, description="What it may use up.")

    def serves(self, tenant: str) -> bool:
        """Tell whether the agent exists for a tenant."""
        return any(fnmatchcase(tenant, pattern) for pattern in self.tenants)

    def models(self) -> Iterator[ModelEntry]:
        """Yield what the entry says of models: of its own, where it has one, and of its fallbacks."""
        if self.model is not None:
            yield self
        yield from self.fallbacks or ()


class AgentsEntry(_Entry):
    """The whole file."""

    version: Literal[1]
    agents: Annotated[dict[Identifier, AgentEntry], Field(min_length=1, description="Name to agent.")]


class Agents:
    """Which agents there are. Without a file there is one behaviour, and a conversation may call it what it likes.

    `names` are then those that a list of agents shows.
    """

    def __init__(
        self,
        entries: Mapping[str, AgentEntry] | None = None,
        names: Iterable[str] = (DEFAULT,),
        *,
        source: YamlSource | None = None,
    ) -> None:
        """Take the entries of a file, read from `source`."""
        self._entries = entries
        self._source = source
        self._any = AgentEntry()
        self._all = dict.fromkeys(names, self._any) if entries is None else entries

    @property
    def any_name(self) -> bool:
        """Whether conversations may call their agent what they like, because no file says which there are."""
        return self._entries is None

    def find(self, tenant: str, name: str) -> AgentEntry | None:
        """Return a tenant's agent; None where it has none of that name."""
        if self._entries is None:
            return self._any
        entry = self._entries.get(name)
        return entry if entry is not None and entry.serves(tenant) else None

    def of(self, tenant: str) -> dict[str, AgentEntry]:
        """Return a tenant's agents by name, in the order of the file."""
        return {name: entry for name, entry in self.all().items() if entry.serves(tenant)}

    def place_of(self, name: str, *below: str) -> str:
        """Return `FILE:LINE:COLUMN: ` of what an agent says `below` or, where it does not, of the agent.

        Empty where no file says it.
        """
        if self._source is None:
            return ""
        return self._source.place_of(("agents", name, *below))

    def all(self) -> Mapping[str, AgentEntry]:
        """Return every agent by name."""
        return self._all


def load_agents(
    path: Path | str | None,
    *,
    catalog: Catalog | None = None,
    environment: Mapping[str, str] | None = None,
    names: Iterable[str] = (DEFAULT,),
    why_not_a_pattern: WhyNot = lambda _: None,
    why_not_a_region: WhyNot = lambda _: None,
) -> Agents:
    """Return the agents of the file at `path`; where there is none, those without a file, listed by `names`.

    `catalog` are the tools that globs must match, `environment` the variables that must have the keys,
    `why_not_a_pattern` and `why_not_a_region` tell what is wrong with one; each is checked where it is given.
    Raises RulebookInvalid with everything that is wrong.
    """
    if path is None:
        return Agents(names=names)
    source = read_yaml(path)
    try:
        found = AgentsEntry.model_validate(source.data).agents
    except ValidationError as error:
        source.report_validation(error, ())
        found = {}
    for name, entry in found.items():
        steps: Steps = ("agents", name)
        _check_models(source, steps, entry, environment)
        if catalog is not None:
            _check_tools(source, (*steps, "tools"), entry, catalog)
        for kind, pattern in entry.pseudonym_patterns.items():
            if problem := why_not_a_pattern(pattern):
                source.report((*steps, "pseudonym_patterns", kind), problem)
        if entry.pseudonym_region and (problem := why_not_a_region(entry.pseudonym_region)):
            source.report((*steps, "pseudonym_region"), problem)
    source.check()
    return Agents(found, source=source)


def _check_models(source: YamlSource, steps: Steps, entry: AgentEntry, environment: Mapping[str, str] | None) -> None:
    if entry.model is None:
        for key in ("model_api_base", "model_api_key_env", "price"):
            if getattr(entry, key) is not None:
                source.report((*steps, key), f"{key!r} belongs to a model: name it with 'model'", at_key=True)
    own: list[tuple[Steps, ModelEntry]] = [(steps, entry)]
    own += [((*steps, "fallbacks", place), each) for place, each in enumerate(entry.fallbacks or ())]
    own += [((*steps, "attempts", place), each) for place, each in enumerate(entry.attempts) if each.model]
    for at, each in own:
        name = each.model_api_key_env
        if name and environment is not None and not environment.get(name):
            source.report((*at, "model_api_key_env"), f"the environment variable {name} is not set")


def _check_tools(source: YamlSource, steps: Steps, entry: AgentEntry, catalog: Catalog) -> None:
    for place, pattern in enumerate(entry.tools if steps in source.values else ()):
        if not any(fnmatchcase(name, pattern) for name in catalog):
            source.report((*steps, place), _no_tool(pattern, list(catalog)))


def _no_tool(pattern: str, names: list[str]) -> str:
    if any(char in pattern for char in "*?["):
        return f"pattern {pattern!r} matches no tool"
    return f"unknown tool {pattern!r}{did_you_mean(pattern, names)}"
