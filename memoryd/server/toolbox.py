"""What is a tool, what may be passed to it, and how does each call end?

Schemas are plain (one type a parameter, no combinators: not every host takes more), unknown parameters are refused by
name, `null` counts as absent. Every failure leaves as data: a typed error, or a reference into the log.
"""

from __future__ import annotations

import difflib
import json
import logging
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from memoryd.errors import BadCharacters, InvalidInput, MemorydError, NotFound, UnknownParameter
from memoryd.server.lanes import Duty, JobBody, JobDesk, JobStore, Lanes

_log = logging.getLogger(__name__)
MAX_ITEMS = 100
"""Items of a list argument; looked at before anything that takes time for each."""
NAME_LIMIT = 64
"""Characters of an unknown name that are compared with the known ones."""


@dataclass(frozen=True)
class Asker:
    """Who calls: the directory its session started in, and a name for the log."""

    directory: str | None = None
    name: str = ""


Run = Callable[[Asker, dict[str, Any]], dict[str, Any]]


class Tool:
    """One tool: what hosts are told about it, and the blocking function behind it.

    `confirms`: its answer may be a preview with a `confirm` token, which a person may be asked about.
    `quick`: it only looks at counters and never waits behind other work.
    """

    def __init__(
        self,
        name: str,
        title: str,
        description: str,
        parameters: Mapping[str, dict[str, Any]],
        run: Run,
        *,
        required: tuple[str, ...] = (),
        read_only: bool = False,
        destructive: bool = False,
        idempotent: bool = True,
        confirms: bool = False,
        quick: bool = False,
    ) -> None:
        self.name = name
        self.title = title
        self.description = description
        self.run = run
        self.read_only = read_only
        self.destructive = destructive
        self.idempotent = idempotent
        self.confirms = confirms
        self.quick = quick
        self.schema: dict[str, Any] = {
            "type": "object",
            "properties": {key: dict(value) for key, value in parameters.items()},
            "additionalProperties": False,
        }
        if required:
            self.schema["required"] = list(required)
        self._validator = Draft202012Validator(self.schema)

    def checked(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments without absent ones (null is absent). Raises UnknownParameter, InvalidInput, BadCharacters."""
        known = self.schema["properties"]
        for name, value in arguments.items():
            if name not in known:
                raise self._unknown(name)
            if isinstance(value, (list, dict)) and len(value) > MAX_ITEMS:
                raise InvalidInput(f"{self.name}: `{name}` holds more than {MAX_ITEMS} items.", parameter=name)
        given = {name: value for name, value in arguments.items() if value is not None}
        error = min(self._validator.iter_errors(given), key=lambda found: str(list(found.path)), default=None)
        if error is not None:
            raise self._invalid(error, given)
        for name, value in given.items():
            _check_characters(name, value)
            if known[name]["type"] == "integer":
                given[name] = int(value)  # 3.0 is an integer in JSON Schema
        return given

    def _unknown(self, name: str) -> UnknownParameter:
        known = list(self.schema["properties"])
        near = difflib.get_close_matches(name[:NAME_LIMIT], known, n=1, cutoff=0.5)
        hint = f" Did you mean `{near[0]}`?" if near else ""
        shown = name[:80].encode("ascii", "backslashreplace").decode()
        return UnknownParameter(f"{self.name} has no parameter `{shown}`.{hint}", parameter=shown, known=known)

    def _invalid(self, error: ValidationError, arguments: Mapping[str, Any]) -> InvalidInput:
        where = ".".join(str(part) for part in error.path)
        if error.validator == "required":
            missing = [name for name in self.schema["required"] if name not in arguments]
            return InvalidInput(f"{self.name} needs `{missing[0]}`.", parameter=missing[0])
        given = json.dumps(error.instance)
        given = given if len(given) <= NAME_LIMIT else f"{given[:NAME_LIMIT]}..."
        said = f"{self.name}: `{where}` is {given}; it must be {_wanted(error)}."
        allowed: dict[str, Any] = {"allowed": error.validator_value} if error.validator == "enum" else {}
        return InvalidInput(said + _nearest(error), parameter=where, **allowed)


def _wanted(error: ValidationError) -> str:
    """What a rule of our plain schemas asks for, in words."""
    rule: Any = error.validator
    value: Any = error.validator_value
    schema: Any = error.schema
    if rule == "enum":
        return "one of " + ", ".join(f"`{one}`" for one in value)
    if rule == "type":
        return f"{'an' if value[0] in 'aeio' else 'a'} {value}"
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"from {low} to {high}"
    return f"at least {low}" if rule == "minimum" else f"at most {high}" if rule == "maximum" else f"{rule} {value}"


def _nearest(error: ValidationError) -> str:
    allowed: Any = error.validator_value
    if error.validator != "enum" or not isinstance(error.instance, str):
        return ""
    near = difflib.get_close_matches(error.instance[:NAME_LIMIT].lower(), allowed, n=1, cutoff=0.5)
    return f" Did you mean `{near[0]}`?" if near else ""


def _check_characters(name: str, value: Any) -> None:
    for part in value if isinstance(value, list) else (value,):
        if not isinstance(part, str):
            continue
        if "\0" in part:
            raise BadCharacters(f"`{name}` holds a NUL character.", parameter=name)
        try:
            part.encode()
        except UnicodeEncodeError:
            raise BadCharacters(f"`{name}` holds an unpaired surrogate.", parameter=name) from None


class Toolbox:
    """What a daemon does for its callers: everything that is not wire. Subclassed by the product and by tests."""

    instructions = ""
    tools: tuple[Tool, ...] = ()
    commands: tuple[Tool, ...] = ()
    """What the command line may call besides; no session is offered it."""
    desk: JobDesk | None = None
    """Takes the long work that a duty finds to be due; set before the duties run."""

    def open(self) -> None:
        """Open what the tools need (blocking; may take long). Raises MemorydError."""

    def close(self) -> None:
        """Close it again."""

    @property
    def listen(self) -> str | None:
        """Where the read-only operations routes are served besides the socket, once open."""
        return None

    def seal_key(self) -> bytes:
        """The secret (32 bytes) that state sent through clients is sealed with; the product's is persistent."""
        return os.urandom(32)

    def ready(self) -> list[str]:
        """Reasons why answers would be incomplete now."""
        return []

    def numbers(self) -> dict[str, float]:
        """Gauges for /metrics."""
        return {}

    def status(self) -> dict[str, Any]:
        """What /status shows of the home."""
        return {}

    def duties(self) -> tuple[Duty, ...]:
        """Loops that run beside the calls."""
        return ()

    def jobs(self) -> tuple[Mapping[str, JobBody], JobStore] | None:
        """Kinds of long work, and where it is noted down."""
        return None

    def command(self, name: str) -> Tool:
        """The tool or command of this name. Raises NotFound."""
        return next((one for one in self.commands if one.name == name), None) or self.named(name)

    def named(self, name: str) -> Tool:
        """The tool of this name. Raises NotFound."""
        for tool in self.tools:
            if tool.name == name:
                return tool
        near = difflib.get_close_matches(name[:NAME_LIMIT], [tool.name for tool in self.tools], n=1)
        hint = f" Did you mean `{near[0]}`?" if near else ""
        raise NotFound(f"There is no tool `{name[:80]}`.{hint}", next_step="Use one of the tools in tools/list.")


@dataclass(frozen=True)
class Outcome:
    """How a call ended: JSON-ready data, the same as JSON text (what hosts show), and whether it is an error."""

    data: dict[str, Any]
    text: str
    error: bool

    @classmethod
    def of(cls, data: dict[str, Any], *, error: bool = False) -> Outcome:
        """The outcome with text that every JSON reader takes: unpaired surrogates are shown as escapes."""
        text = _dumps(data)
        try:
            text.encode()
        except UnicodeEncodeError:
            data = dict(_clean(data))
            text = _dumps(data)
        return cls(data, text, error)


def _dumps(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


async def call(lanes: Lanes, tool: Tool, asker: Asker, arguments: Mapping[str, Any]) -> Outcome:
    """Run a tool; every failure but ShuttingDown (which means: not run) becomes an outcome."""
    ended = "cancelled"
    try:
        with lanes.counted(tool.name):
            outcome = await _run(lanes, tool, asker, arguments)
            ended = "error" if outcome.error else "ok"
            return outcome
    finally:
        lanes.calls[tool.name, ended] += 1
        _log.debug("%s of %s: %s", tool.name, asker.name, ended)


async def _run(lanes: Lanes, tool: Tool, asker: Asker, arguments: Mapping[str, Any]) -> Outcome:
    try:
        given = tool.checked(arguments)
        await lanes.open_enough()
        work = lanes.watch if tool.quick else lanes.read if tool.read_only else lanes.write
        return Outcome.of(await work(lambda: tool.run(asker, given)))
    except MemorydError as error:
        return Outcome.of(error.to_dict(), error=True)
    except Exception:  # noqa: BLE001 - the border: what escapes here would show internals to the client
        reference = uuid.uuid4().hex[:8]
        _log.exception("%s failed (reference %s)", tool.name, reference)
        failure = {
            "code": "internal-error",
            "message": f"{tool.name} failed for an internal reason (reference {reference}).",
            "next_step": "Look for the reference in the daemon's log; `memoryd doctor` names the log.",
            "details": {"reference": reference},
        }
        return Outcome.of(failure, error=True)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item) for item in value]
    return value
