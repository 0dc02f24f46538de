"""Whether a Python function fits the JSON Schema that its catalogue entry shows to the model.

Owns the comparison and the conversion of arguments. It is made once, at start: a function that lacks an
approved argument, or demands one nobody can give, must stop the executor before it claims a single call.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union

from annotated_types import BaseMetadata, GroupedMetadata
from pydantic import BaseModel, RootModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo

from placet.tools.contract import ToolContext, ToolError

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class SignatureError(Exception):
    """The function does not fit; the text is one line for the operator."""


@dataclass(frozen=True, slots=True)
class Signature:
    """How to call one tool function: a converter per argument, and the parameter that takes the context, if any."""

    converters: Mapping[str, TypeAdapter[Any]]
    required: frozenset[str]
    context_name: str | None

    def keywords(self, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        """Return what to call the function with; ToolError `invalid_arguments` names every argument that is wrong."""
        problems = [f"{name}: not an argument of this tool" for name in arguments if name not in self.converters]
        problems += [f"{name}: missing" for name in sorted(self.required - arguments.keys())]
        converted: dict[str, Any] = {}
        for name in self.converters.keys() & arguments.keys():
            try:
                converted[name] = self.converters[name].validate_python(arguments[name])
            except ValidationError as error:
                problems += _problems(name, error)
        if problems:
            raise ToolError("Invalid arguments: " + "; ".join(sorted(problems)), code="invalid_arguments")
        return converted if self.context_name is None else {**converted, self.context_name: context}


def read_signature(function: Callable[..., Any], schema: Mapping[str, Any]) -> Signature:
    """Return how to call `function` with arguments valid under `schema`; SignatureError when it does not fit."""
    parameters = _parameters_by_name(function)
    hints = _hints(function)
    untyped = sorted(parameters.keys() - hints.keys())
    if untyped:
        raise SignatureError(f"parameter {untyped[0]!r} has no type")
    contexts = [name for name in parameters if hints[name] is ToolContext]
    if len(contexts) > 1:
        raise SignatureError(f"takes the context twice: {contexts[0]!r} and {contexts[1]!r}")
    own = {name: parameter for name, parameter in parameters.items() if name not in contexts}
    _compare(own, contexts, schema)
    return Signature(
        converters={name: _converter(name, hints[name]) for name in own},
        required=_required(own),
        context_name=contexts[0] if contexts else None,
    )


def impossible_types(function: Callable[..., Any], schema: Mapping[str, Any]) -> list[str]:
    """Return a line for each parameter of a fitting function that could take nothing of what its schema lets through.

    Told are types that say what they take (plain ones, and what is made of them) beside plain schemas, and only where
    conversion fails too: better to miss one than to be wrong.
    """
    properties, hints = schema.get("properties", {}), _hints(function)
    return [
        f"takes {name!r} as {' | '.join(kinds)}, but the schema says {each['type']}"
        for name, each in properties.items()
        if (values := _samples(each))
        and (kinds := _kinds(hints[name]))
        and not any(_takes(kind, value) for kind in (hints[name], *kinds.values()) for value in values)
    ]


#: Types of Python that say what they take.
_PLAIN = frozenset({str, int, float, bool, list, dict, NoneType})
#: Types that take lists, though not each list.
_LISTS = frozenset({tuple, set, frozenset})
#: Of each type of JSON, values that are converted wherever another one of it can be.
_SAMPLES: Mapping[str, tuple[Any, ...]] = {
    "string": ("text",),
    "integer": (0, 1),
    "number": (0, 1, 0.5),
    "boolean": (True, False),
    "array": ([],),
    "object": ({},),
}
#: What may stand beside the type of a text. Whatever else it has to be, such as digits, may make it another type's.
_OF_ANY_TEXT = frozenset({"type", "title", "description", "default", "minLength", "maxLength"})


def _samples(schema: Any) -> tuple[Any, ...]:
    """Return values that stand for all of a schema; none where it is not plain."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if not isinstance(kind, str) or (kind == "string" and not schema.keys() <= _OF_ANY_TEXT):
        return ()
    return _SAMPLES.get(kind, ())


def _kinds(hint: Any) -> dict[str, Any]:
    """Return, by name, plain types that take all that a type takes; nothing where one of its parts says not what."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        # What pydantic calls before it converts may make anything of anything.
        tells_only = all(isinstance(each, _TELLS_ONLY) for each in parts[1:])
        return _kinds(parts[0]) if tells_only else {}
    if origin in {Union, UnionType}:
        found = [_kinds(each) for each in parts]
        return {name: kind for each in found for name, kind in each.items()} if all(found) else {}
    if origin is Literal:
        kinds = {type(each) for each in parts}
        return {str(hint).removeprefix("typing."): reduce(or_, kinds)} if kinds <= _PLAIN else {}
    kind = origin or hint
    if kind in _PLAIN:
        return {"None" if kind is NoneType else kind.__name__: hint}
    if kind in _LISTS:
        return {kind.__name__: list}
    return {kind.__name__: dict} if _takes_objects_alone(kind) else {}


#: What narrows or describes the type beside it.
_TELLS_ONLY = (str, FieldInfo, BaseMetadata, GroupedMetadata)


def _takes_objects_alone(kind: Any) -> bool:
    """Whether a type is a model that nothing but its fields converts."""
    if not (inspect.isclass(kind) and issubclass(kind, BaseModel)) or issubclass(kind, RootModel):
        return False
    as_written = kind.__get_pydantic_core_schema__.__func__ is BaseModel.__get_pydantic_core_schema__.__func__  # type: ignore[attr-defined]
    own = kind.__pydantic_decorators__.model_validators or kind.model_config.get("from_attributes")
    return as_written and not own


def _takes(hint: Any, value: Any) -> bool:
    try:
        TypeAdapter(hint).validate_python(value)
    except ValidationError:
        return False
    return True


def _parameters_by_name(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    if not inspect.isroutine(inspect.unwrap(function)):
        raise SignatureError("is an object that can be called; a tool is a function, made with def or async def")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise SignatureError("is a generator; a tool returns one value")
    parameters = dict(inspect.signature(function).parameters)
    for name, parameter in parameters.items():
        if parameter.kind not in _BY_NAME:
            raise SignatureError(f"parameter {name!r} cannot be given by name ({parameter.kind.description})")
    return parameters


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise SignatureError(f"has a type that cannot be resolved: {error}") from error


def _compare(own: Mapping[str, inspect.Parameter], contexts: list[str], schema: Mapping[str, Any]) -> None:
    properties = set(schema.get("properties", {}))
    if taken := sorted(properties.intersection(contexts)):
        raise SignatureError(f"parameter {taken[0]!r} takes the context, but the schema gives that name to the model")
    if lacking := sorted(properties - own.keys()):
        raise SignatureError(f"lacks the parameter {lacking[0]!r} of the schema")
    if unknown := sorted(own.keys() - properties):
        raise SignatureError(f"has the parameter {unknown[0]!r}, which the schema does not have")
    if demanded := sorted(_required(own) - set(schema.get("required", ()))):
        raise SignatureError(f"demands {demanded[0]!r}, which the schema does not require (give it a default)")


def _required(own: Mapping[str, inspect.Parameter]) -> frozenset[str]:
    return frozenset(name for name, parameter in own.items() if parameter.default is inspect.Parameter.empty)


def _converter(name: str, hint: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(hint)
    except PydanticUserError as error:
        raise SignatureError(f"parameter {name!r} has a type that JSON cannot be converted to: {hint!r}") from error


def _problems(name: str, error: ValidationError) -> list[str]:
    # Values stay out: this text reaches the model and the history.
    entries = error.errors(include_url=False, include_context=False, include_input=False)
    return [".".join([name, *map(str, entry["loc"])]) + f": {entry['msg']}" for entry in entries]
