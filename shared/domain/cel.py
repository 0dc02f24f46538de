"""CEL, the language of conditions: types, environments, and compiled expressions with their errors in their places.

Nothing else imports the library. Where a variable has no value, what depends on it has none either: `&&` and `||` still
answer where their other side decides, so an expression can be asked before everything is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, TypeAlias

from cel_expr_python import cel
from cel_expr_python.ext import ext_strings

from placet.contracts.canonical import ARGUMENTS_BYTES_MAX
from placet.contracts.errors import PlacetError
from placet.domain.cel_cost import Extent, TooCostly, check_cost, extent_of
from placet.domain.cel_tree import Node, Tree
from placet.domain.cel_zones import zone_problems

#: A type of CEL; of its kind the library says nothing to a type checker.
Kind: TypeAlias = Any

BOOL: Kind = cel.Type.BOOL
DOUBLE: Kind = cel.Type.DOUBLE
DYN: Kind = cel.Type.DYN
INT: Kind = cel.Type.INT
STRING: Kind = cel.Type.STRING
#: Texts by name.
TEXTS: Kind = cel.Type.Map(STRING, STRING)
#: Values of any type by name.
VALUES: Kind = cel.Type.Map(STRING, DYN)

#: What every condition must bear: variables of two kilobytes, with lists of so many elements.
_USUAL = Extent(2_048.0, 256.0)
#: The most that the arguments of a call can be: a list of one digit numbers has the most elements.
_LARGEST = Extent(8.0 * ARGUMENTS_BYTES_MAX, ARGUMENTS_BYTES_MAX / 2)

_ERROR = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_OVERLOAD = re.compile(r"found no matching overload for '[^']+' applied to '\((?P<types>.*)\)'")
_NOISE = re.compile(r"^[A-Z_]+: | \(in container ''\)| expecting \{.*\}| \[[A-Z_]+\]$")


class ConditionInvalid(PlacetError):
    """A condition does not compile. `problems` pairs a character offset in its text with what is wrong there."""

    def __init__(self, problems: list[tuple[int, str]]) -> None:
        super().__init__("; ".join(text for _, text in problems))
        self.problems = problems


class ConditionFailed(PlacetError):
    """A condition gave no answer, for example because a value it compares is absent."""


class Variables:
    """What expressions of one environment look at. Whoever asks several of the same makes it once: it is dear."""

    def __init__(self, values: Mapping[str, Any], environment: Any, beside: Variables | None = None) -> None:
        self.values: Mapping[str, Any] = {**values, **(beside.values if beside else {})}
        self._environment = environment
        self._own, self._beside = values, beside

    @cached_property
    def activation(self) -> Any:
        """The values as the library takes them; raises where it cannot."""
        return self._environment.Activation(self.values)

    @cached_property
    def extent(self) -> Extent:
        """How large they are; what stands beside is measured once, however many share it."""
        own = extent_of(self._own)
        return own if self._beside is None else own.beside(self._beside.extent)


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression."""

    text: str
    _compiled: Any = field(repr=False, compare=False)
    _environment: Any = field(repr=False, compare=False)
    #: Its tree where it must be weighed before each evaluation; None where variables of any size cost little.
    _weighed: Node | None = field(default=None, repr=False, compare=False)

    @property
    def type_name(self) -> str:
        """Its type in capitals, such as `BOOL`."""
        return str(self._compiled.return_type().name())

    @property
    def checked(self) -> bytes:
        """What the compiler made of it: a `google.protobuf.Any` with a `cel.expr.CheckedExpr`."""
        return bytes(self._compiled.serialize())

    def looks_at(self, of: str) -> bool:
        """Tell whether it looks at a variable whose name begins with `of`; a word in a text is none."""
        return any(name.startswith(of) for name in Tree.of(self.checked).names())

    def fields_of(self, variable: str) -> frozenset[str] | None:
        """Return the fields of a variable that it looks at; None where it may look at all of them."""
        return Tree.of(self.checked).fields_of(variable)

    def part(self, checked: bytes) -> Expression:
        """Return an expression of the same environment that `checked` has in the form of `Expression.checked`."""
        return Expression(self.text, self._environment.deserialize(checked), self._environment)

    def value(self, variables: Mapping[str, Any] | Variables) -> Any:
        """Return its value; raise ConditionFailed where it has none, or where its variables are too large for it."""
        ready = variables if isinstance(variables, Variables) else Variables(variables, self._environment)
        if self._weighed is not None:
            try:
                check_cost(self._weighed, ready.extent)
            except TooCostly as error:
                raise ConditionFailed(f"the call is too large for the condition: {error}") from error
        try:
            found = self._compiled.eval(activation=ready.activation)
        except Exception as error:  # fail closed: a value that CEL cannot take has no answer
            raise ConditionFailed(str(error) or type(error).__name__) from error
        if found.type() == cel.Type.ERROR:
            raise ConditionFailed(_plain(str(found.value())))
        return found.value()

    def holds(self, variables: Mapping[str, Any] | Variables) -> bool:
        """Return its value, which must be true or false; raise ConditionFailed for any other, and for none."""
        value = self.value(variables)
        if value is not True and value is not False:
            raise ConditionFailed(f"neither true nor false: {value}")
        return value

    def decided(self, variables: Mapping[str, Any]) -> bool | None:
        """Return what it comes to whatever the other variables are; None where it depends on them, or fails."""
        try:
            return self.holds(variables)
        except ConditionFailed:
            return None


def list_of(kind: Kind) -> Kind:
    """Return the type of lists of `kind`."""
    return cel.Type.List(kind)


class Environment:
    """What expressions may look at: `variables` maps the name of each, dots included, to its type.

    Functions on texts are those of the strings extension, and `functions` by name: one that raises has no value.
    """

    def __init__(
        self, variables: Mapping[str, Kind], functions: Mapping[str, Callable[[str], str]] | None = None
    ) -> None:
        """Prepare it, which takes a moment: keep it where it is used again."""
        declared = [
            cel.FunctionDecl(name, [cel.Overload(f"{name}_string", STRING, [STRING], is_member=False, impl=function)])
            for name, function in (functions or {}).items()
        ]
        self._environment = cel.NewEnv(
            variables=dict(variables), extensions=[ext_strings.ExtStrings()], functions=declared
        )

    def variables(self, values: Mapping[str, Any], beside: Variables | None = None) -> Variables:
        """Return values that several expressions of this environment look at; `beside` are more, which others share."""
        return Variables(values, self._environment, beside)

    def compile(self, text: str) -> Expression:
        """Return the compiled `text`; raise ConditionInvalid with everything that CEL says against it.

        So is one that costs too much even where its variables are small, and one that names time zones as it goes.
        """
        try:
            expression = Expression(text, self._environment.compile(text), self._environment)
        except RuntimeError as error:
            found = _ERROR.findall(str(error))
            problems = [(_offset(text, int(line), int(column)), _hinted(_plain(said))) for line, column, said in found]
            raise ConditionInvalid(problems or [(0, _plain(str(error)))]) from error
        return _weighed(expression)

    def compile_condition(self, text: str) -> Expression:
        """Return the compiled `text`, which must be true or false; raise ConditionInvalid with every problem."""
        expression = self.compile(text)
        check_condition(expression.type_name)
        return expression


def _weighed(expression: Expression) -> Expression:
    """Return an expression that is weighed before each evaluation where it must be; raise ConditionInvalid."""
    tree = Tree.of(expression.checked)
    if problems := [(tree.places.get(number, 0), said) for number, said in zone_problems(tree)]:
        raise ConditionInvalid(problems)
    try:
        check_cost(tree.root, _USUAL)
    except TooCostly as error:
        raise ConditionInvalid([(tree.places.get(error.number, 0), f"this costs too much: {error}")]) from error
    try:
        check_cost(tree.root, _LARGEST)
    except TooCostly:
        return replace(expression, _weighed=tree.root)
    return expression


def check_condition(type_name: str) -> None:
    """Raise ConditionInvalid unless an expression of this type is true or false."""
    if type_name != "BOOL":
        raise ConditionInvalid([(0, f"the condition must be true or false, but its type is {type_name.lower()}")])


def constant(text: str) -> bool | None:
    """Return the value of a condition that looks at nothing; None for any other, also for one that is wrong."""
    try:
        return _nothing().compile_condition(text).decided({})
    except ConditionInvalid:
        return None


@cache
def _nothing() -> Environment:
    return Environment({})


def _plain(said: str) -> str:
    """Return a message of CEL without what only its makers understand."""
    return _NOISE.sub("", said)


def _hinted(said: str) -> str:
    found = _OVERLOAD.match(said)
    if found and "'origin'" in said and found["types"].startswith("list("):
        return f"{said}: ask each, LIST.all(each, origin(each) == ...)"
    mixed = found and {"double", "int"} <= set(found["types"].split(", "))
    return f"{said}: beside a number with decimals write 2.0 for 2" if mixed else said


def _offset(text: str, line: int, column: int) -> int:
    before = text.split("\n")[: line - 1]
    return sum(len(part) + 1 for part in before) + column - 1
