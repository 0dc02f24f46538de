"""The tools of one executor: found by name, checked against the catalogue, run under a context.

Owns the way from a catalogue entry to a running function. All imports and checks happen at start, because an
executor that finds out in the middle of an approved call that its function is missing has already claimed the
permit.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import structlog

from placet.domain.catalog import ToolSpec, catalog_from
from placet.domain.yaml_source import YamlSource
from placet.runtime.threads import call_in_thread
from placet.runtime.watchdog import at_leisure, place_of
from placet.tools.contract import ToolContext, ToolError, ToolOutcomeUnknown, ToolReply
from placet.tools.probes import LoadedProbe
from placet.tools.replies import call_function, checked_description, checked_error, checked_reply, checked_unknown
from placet.tools.resources import ToolLoadError, find_opener
from placet.tools.signatures import Signature, SignatureError, impossible_types, read_signature
from placet.tools.staging import Change, Described, Staging

log = structlog.get_logger(__name__)

NEUTRAL_TEXT = (
    "The tool broke off with an internal error. What it did until then may have taken effect. "
    "Its operators can see the details."
)
"""What the model reads when a tool raised something it did not mean to say."""
CRASHED: Final = "tool_crashed"
"""Code of such a failure: unlike a ToolError, it does not say that nothing was done."""


@dataclass(frozen=True, slots=True)
class LoadedTool:
    """One tool, ready to run. `spec` is its catalogue entry, `module` where its function was found."""

    spec: ToolSpec
    module: str
    function: Callable[..., Any]
    signature: Signature
    probe: LoadedProbe | None = None
    #: The pack that can stage what the tool changes, and where it was found.
    staging: Staging | None = None
    staging_module: str = ""

    @property
    def modules(self) -> tuple[str, ...]:
        """Where its functions were found."""
        return tuple(filter(None, (self.module, self.probe.module if self.probe else "", self.staging_module)))

    async def plan(self, arguments: Mapping[str, Any], context: ToolContext) -> Sequence[Change]:
        """Return what a call would change by its pack, which changes nothing; raise as `run` does."""
        keywords = self.signature.keywords(arguments, context)
        keywords.pop(self.signature.context_name or "", None)
        assert self.staging is not None  # noqa: S101 - asked of tools that can stage only
        with self._failing(context), at_leisure():
            changes = list(await self.staging.stage(self.function.__name__, keywords, context))
        if not changes or not all(isinstance(each, Change) for each in changes):
            raise ToolError("The tool staged nothing.", code="nothing_staged")
        return changes

    async def describe(self, change: Change, context: ToolContext) -> Described:
        """Return a change as its pack shows it to people, bounded; raise as `run` does.

        Comparing long texts keeps nothing else waiting.
        """
        staging = self.staging
        assert staging is not None  # noqa: S101 - asked of tools that can stage only
        with self._failing(context):
            return checked_description(await call_in_thread(lambda: staging.describe(change), name="tool describe"))

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolReply:
        """Run the function once and return its reply of plain JSON values.

        Raises only: ToolError (the call failed, `text` is for the model), ToolOutcomeUnknown, and the
        cancellation of the caller. An exception the tool did not mean to raise is a failure too, also for a
        tool that is not safe to repeat: the function itself said that it ended and did not succeed, so nothing is
        running any more. Whether part of its work took effect nobody can say, and so the text says just that. A tool
        that cannot vouch for its effect at all raises ToolOutcomeUnknown. After a cancellation (the executor's
        time-out) the outcome is unknown.
        """
        keywords = self.signature.keywords(arguments, context)
        with self._failing(context):
            returned = await call_function(self.function, keywords, name=self.spec.name)
        return self._reply(returned, context)

    @contextmanager
    def _failing(self, context: ToolContext) -> Iterator[None]:
        """Raise what own code raises as one of our errors; the caller's own cancellation stays one."""
        try:
            yield
        except asyncio.CancelledError as error:
            if _is_cancelling():
                raise
            raise self._failure(error, context) from error
        except BaseException as error:
            # A tool that calls sys.exit(), or raises KeyboardInterrupt, must not take the executor along.
            raise self._failure(error, context) from error

    def _failure(self, error: BaseException, context: ToolContext) -> ToolError | ToolOutcomeUnknown:
        meant = _meant(error)
        if isinstance(meant, ToolOutcomeUnknown):
            return checked_unknown(meant)
        if isinstance(meant, ToolError):
            return checked_error(meant)
        self._log(context, error)
        return ToolError(NEUTRAL_TEXT, code=CRASHED)

    def _reply(self, returned: Any, context: ToolContext) -> ToolReply:
        try:
            return checked_reply(returned)
        except ToolError as error:
            self._log(context, error)
            raise

    def _log(self, context: ToolContext, error: BaseException) -> None:
        ids = {"tenant": context.tenant, "call_id": context.call_id, "fence": context.fence}
        # An error's text may quote an argument that logs must not see; its kind and its place may not.
        told = {"error": type(error).__name__, "place": place_of(error)} if self.spec.redact else {"exc_info": error}
        log.error("tool.failed", tool=self.spec.name, **told, **ids)


def load_tools(specs: Iterable[ToolSpec]) -> dict[str, LoadedTool]:
    """Import and check every tool that names a function, by tool name; ToolLoadError on the first that does not fit."""
    tools: dict[str, LoadedTool] = {}
    for spec in specs:
        if spec.function is None:
            continue
        if spec.name in tools:
            raise ToolLoadError(f"tool {spec.name!r} is listed twice")
        tools[spec.name] = _load(spec, spec.function)
    for module in modules_of(tools.values()):
        find_opener(module)
    return tools


def staging_packs(tools: Iterable[LoadedTool]) -> dict[str, Staging]:
    """Return the packs that can stage, by name; ToolLoadError where two have one name."""
    packs: dict[str, Staging] = {}
    for tool in tools:
        if tool.staging is not None:
            _keep_apart(packs, tool.spec, tool.staging)
    return packs


def _keep_apart(packs: dict[str, Staging], spec: ToolSpec, pack: Staging) -> None:
    if packs.setdefault(pack.name, pack) is not pack:
        raise ToolLoadError(f"tool {spec.name!r}: another pack that can stage is called {pack.name!r}")


def report_unfit(source: YamlSource) -> None:
    """Import what a rulebook names; note in `source` what is missing, does not fit, or cannot open its resources."""
    packs: dict[str, Staging] = {}
    looked_at: set[str] = set()
    for name, spec in catalog_from(source).items():
        for key, path in (("function", spec.function), ("verify", spec.verify), ("stage", spec.stage)):
            if path is None:
                continue
            try:
                if key == "stage":
                    module, pack = _find_staging(spec, path)
                    _keep_apart(packs, spec, pack)
                else:
                    module, function, _ = _find(spec, path)
                    for line in impossible_types(function, spec.parameters):
                        source.report(("tools", name, key), f"tool {name!r}: function {path!r} {line}")
                if module not in looked_at:
                    looked_at.add(module)
                    find_opener(module)
            except ToolLoadError as error:
                source.report(("tools", name, key), str(error))


def modules_of(tools: Iterable[LoadedTool]) -> Iterator[str]:
    """Yield the modules that these tools were found in, as often as they come."""
    for tool in tools:
        yield from tool.modules


def _load(spec: ToolSpec, path: str) -> LoadedTool:
    module, function, signature = _find(spec, path)
    probe = LoadedProbe(spec, *_find(spec, spec.verify)) if spec.verify else None
    staging_module, staging = _find_staging(spec, spec.stage) if spec.stage else ("", None)
    return LoadedTool(spec, module, function, signature, probe, staging, staging_module)


def _find_staging(spec: ToolSpec, path: str) -> tuple[str, Staging]:
    module, _, name = path.partition(":")
    found = getattr(_import(spec, module), name, None)
    if not isinstance(found, Staging):
        raise ToolLoadError(f"tool {spec.name!r}: module {module!r} has no object {name!r} that can stage")
    if not isinstance(getattr(found, "name", None), str):
        raise ToolLoadError(f"tool {spec.name!r}: what can stage, {path!r}, has no `name`")
    return module, found


def _find(spec: ToolSpec, path: str) -> tuple[str, Callable[..., Any], Signature]:
    module, colon, name = path.partition(":")
    if not (module and colon and name.isidentifier()):
        raise ToolLoadError(f"tool {spec.name!r}: function {path!r} is not written as module:function")
    function = getattr(_import(spec, module), name, None)
    if not callable(function) or inspect.isclass(function):
        raise ToolLoadError(f"tool {spec.name!r}: module {module!r} has no function {name!r}")
    try:
        signature = read_signature(function, spec.parameters)
    except SignatureError as error:
        raise ToolLoadError(f"tool {spec.name!r}: function {path!r} {_one_line(error)}") from error
    return module, function, signature


def _import(spec: ToolSpec, module: str) -> Any:
    try:
        return importlib.import_module(module)
    except BaseException as error:
        # A module that ends the process, or raises KeyboardInterrupt, must not do so without a word. Whoever
        # interrupts one that hangs reads which it was.
        text = f"tool {spec.name!r}: module {module!r} cannot be imported: {_one_line(error)}"
        raise ToolLoadError(text) from error


def _one_line(error: BaseException) -> str:
    text, kind = " ".join(str(error).split()), type(error).__name__
    return text if text and isinstance(error, Exception) else f"{kind}: {text}" if text else kind


def _meant(error: BaseException) -> BaseException:
    """Return what the tool meant to say, also out of a task group; an unknown outcome outweighs an error."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    for kind in (ToolOutcomeUnknown, ToolError):
        group = error.subgroup(kind)
        if group is not None:
            return _meant(group.exceptions[0])
    return error


def _is_cancelling() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
