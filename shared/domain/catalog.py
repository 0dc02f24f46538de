"""The tool catalogue: what a tool is called, which arguments it takes, how dangerous it is and who runs it.

Every service reads it from the rulebook file, because they must agree: the agent offers exactly the schema
whose digest policy checks and an executor runs. Rules stay with policy; this module never looks at them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from jsonschema import Draft202012Validator
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError, from_json, to_json

from placet.contracts.canonical import NotStrictJson, canonical_text, sha256_hex
from placet.contracts.messages.jobs import ACCOMPLISH_TOOL
from placet.contracts.messages.stage import COMMIT_TOOL, PROPOSE_TOOL
from placet.contracts.messages.tool_calls import Category, Pool, ToolName
from placet.domain.card_text import REDACTED, loose_braces, placeholders, render, render_call
from placet.domain.tool_schema import ArgumentError, argument_errors, argument_names, closed, compiled, schema_problems
from placet.domain.yaml_source import Steps, YamlSource, read_yaml


def placed_error(problems: list[tuple[Steps, str]]) -> PydanticCustomError:
    """Return an error for a pydantic validator that carries problems, each with the steps to its place."""
    text = "; ".join(problem for _, problem in problems)
    return PydanticCustomError("placed", "{text}", {"text": text, "problems": problems})


def _by_language(value: Any) -> Any:
    return {"en": value} if isinstance(value, str) else value


_FUNCTION = r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$"
Language = Annotated[str, Field(pattern=r"^[a-z]{2}$")]
Template = Annotated[str, Field(min_length=1, max_length=300)]


class ToolSpec(BaseModel):
    """One tool. Frozen; what is written here is part of what people approve."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ToolName
    description: Annotated[str, Field(min_length=1, max_length=1024, description="For the model.")]
    parameters: dict[str, Any] = Field(
        description="JSON Schema draft 2020-12 of type object; arguments it does not name are refused."
    )
    category: Category
    function: Annotated[
        str | None,
        Field(
            pattern=_FUNCTION,
            description="`module:function` that an executor calls; None for a tool that runs elsewhere.",
        ),
    ] = None
    verify: Annotated[
        str | None,
        Field(
            pattern=_FUNCTION,
            description="`module:function` that finds out whether a call of unknown outcome ran; None: nobody can.",
        ),
    ] = None
    stage: Annotated[
        str | None,
        Field(
            pattern=_FUNCTION,
            description="`module:object` of the pack that can stage what it changes; None: only the call can wait.",
        ),
    ] = None
    pool: Annotated[Pool, Field(description="Executor pool whose workers run it.")] = "default"
    timeout_seconds: Annotated[float, Strict(), Field(gt=0, le=86_400)] = 30.0
    idempotent: Annotated[bool, Strict(), Field(description="True: running it again with the same key is safe.")] = (
        False
    )
    redact: list[Annotated[str, Field(pattern=r"^(/([^~/]|~[01])*)+$")]] = Field(
        default_factory=list, description="JSON pointers to arguments that people and logs must not see."
    )
    summary: Annotated[dict[Language, Template] | None, BeforeValidator(_by_language)] = Field(
        default=None,
        min_length=1,
        description="Card text by language, with `{argument}` placeholders; plain text means English.",
    )

    @field_validator("parameters", mode="after")
    @classmethod
    def _check_parameters(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        try:
            canonical_text(parameters)
        except NotStrictJson as error:
            raise placed_error([((), f"the schema has no canonical JSON form: {error}")]) from error
        if problems := schema_problems(parameters):
            raise placed_error(problems)
        return closed(parameters)

    @model_validator(mode="after")
    def _check_names(self) -> ToolSpec:
        names = argument_names(self.parameters)
        used: list[tuple[Steps, str]] = [(("redact", at), text.split("/")[1]) for at, text in enumerate(self.redact)]
        for language, template in (self.summary or {}).items():
            used += [(("summary", language), path.split(".")[0]) for path in placeholders(template)]
        problems: list[tuple[Steps, str]] = [
            (steps, f"the tool has no argument {name!r}")
            for steps, name in used
            if names is not None and name not in names
        ]
        if problems:
            raise placed_error(problems)
        return self

    @cached_property
    def schema_digest(self) -> str:
        """SHA-256 of the canonical JSON of name and parameters: another digest is another tool."""
        return sha256_hex({"name": self.name, "parameters": self.parameters})

    @cached_property
    def validator(self) -> Draft202012Validator:
        """The compiled parameter schema."""
        return compiled(self.parameters)


class Catalog(Mapping[str, ToolSpec]):
    """All tools by name, in the order of the file."""

    def __init__(self, specs: Iterable[ToolSpec], *, redacts: bool = False) -> None:
        """`redacts`: of a larger catalogue this is a part of, some tool has arguments that people must not see."""
        self._specs = {spec.name: spec for spec in specs}
        self._larger_redacts = redacts

    def __getitem__(self, name: str) -> ToolSpec:
        return self._specs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    @cached_property
    def redacts(self) -> bool:
        """Whether any tool has arguments that people must not see, also one that this is not given."""
        return self._larger_redacts or any(spec.redact for spec in self.values())

    def part(self, names: Iterable[str]) -> Catalog:
        """Return the catalogue of these tools alone, in the order of the file."""
        chosen = set(names)
        return Catalog((spec for name, spec in self.items() if name in chosen), redacts=self.redacts)

    def as_openai_tools(self) -> list[dict[str, Any]]:
        """Return the tools as a chat completion request lists them; a copy, since model libraries edit it."""
        tools: list[dict[str, Any]] = from_json(self._openai_tools)
        return tools

    @cached_property
    def _openai_tools(self) -> bytes:
        # Reading JSON takes a tenth of the time of copying what it says.
        names = ("name", "description", "parameters")
        functions = ({name: getattr(spec, name) for name in names} for spec in self.values())
        return to_json([{"type": "function", "function": function} for function in functions])


def validate_arguments(spec: ToolSpec, arguments: dict[str, Any]) -> list[ArgumentError]:
    """Return how `arguments` do not fit the tool, sorted by pointer; empty when they do."""
    return argument_errors(spec.validator, arguments, spec.redact)


def redact_arguments(spec: ToolSpec, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of `arguments` that people and logs may see.

    Where a value is not of the shape that a pointer goes through, such as a text instead of an object, all of it is
    masked: what the pointer meant could be anywhere in it.
    """
    result = deepcopy(arguments) if spec.redact else arguments
    for text in spec.redact:
        _mask(result, [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:]])
    return result


def shown_text(spec: ToolSpec, text: str, arguments: dict[str, Any]) -> str:
    """Return what people may see of `text`, the JSON text of `arguments`: all of it where nothing is redacted."""
    return canonical_text(redact_arguments(spec, arguments)) if spec.redact else text


def render_summary(spec: ToolSpec, arguments: dict[str, Any], language: str) -> str:
    """Return the card's sentence: redacted, nothing invisible, at most 300 characters.

    The language falls back to English, then to the first one written. Without a template the call itself is
    shown.
    """
    shown = redact_arguments(spec, _defaults(spec) | arguments)
    if not spec.summary:
        return render_call(spec.name, shown)
    template = spec.summary.get(language) or spec.summary.get("en") or next(iter(spec.summary.values()))
    return render(template, shown)


def catalog_from(source: YamlSource) -> Catalog:
    """Return the tools under the document's `tools` key; what is wrong with them is noted in `source`."""
    tools = source.data.get("tools")
    if not isinstance(tools, dict) or not tools:
        source.report(("tools",), "key 'tools' must map the name of each tool to its description")
        return Catalog([])
    specs = (_spec_from(source, name, body) for name, body in tools.items())
    return Catalog(spec for spec in specs if spec is not None)


def load_catalog(path: Path | str) -> Catalog:
    """Return the tools of the rulebook at `path`; raise RulebookInvalid with everything wrong in them."""
    source = read_yaml(path)
    catalog = catalog_from(source)
    source.check()
    return catalog


def _spec_from(source: YamlSource, name: str, body: Any) -> ToolSpec | None:
    steps: Steps = ("tools", name)
    if not isinstance(body, dict):
        source.report(steps, f"tool {name!r} must be a mapping")
    elif name in (COMMIT_TOOL, PROPOSE_TOOL, ACCOMPLISH_TOOL):
        source.report(steps, f"{name!r} is a tool of the house: give yours another name", at_key=True)
    elif "name" in body:
        source.report((*steps, "name"), "unknown key 'name': the tool's key is its name", at_key=True)
    else:
        try:
            spec = ToolSpec.model_validate({"name": name, **body})
        except ValidationError as error:
            source.report_validation(error, steps)
        else:
            _check_summary(source, (*steps, "summary"), spec)
            return spec
    return None


def _check_summary(source: YamlSource, steps: Steps, spec: ToolSpec) -> None:
    """Report what a summary has in braces and would show to people as it stands, in place of an argument."""
    for language, template in (spec.summary or {}).items():
        here = (*steps, language) if (*steps, language) in source.values else steps
        for offset, text in loose_braces(template):
            wanted = "an argument is '{argument}' or '{argument.inner}', and a brace means nothing else"
            source.report(here, f"{text!r} shows no argument: {wanted}", inside=offset)


def _defaults(spec: ToolSpec) -> dict[str, Any]:
    """Return what the tool takes for top-level arguments that a call leaves out: people must see it too."""
    properties = spec.parameters.get("properties", {}).items()
    return {name: schema["default"] for name, schema in properties if isinstance(schema, dict) and "default" in schema}


def _mask(node: dict[str, Any] | list[Any], steps: list[str]) -> None:
    """Mask what `steps` lead to from `node`, or the nearest value above it that they cannot lead through."""
    step, *further = steps
    place: Any = int(step) if isinstance(node, list) else step
    if place not in (range(len(node)) if isinstance(node, list) else node):
        return
    child = node[place]
    leads_on = further and (isinstance(child, dict) or (isinstance(child, list) and further[0].isdecimal()))
    if leads_on:
        _mask(child, further)
    else:
        node[place] = REDACTED
