"""What does a search here know beyond its indexes: the user's synonyms, the calibration of the active model?

Both files are read again when they change; one that cannot be read counts as absent, and a notice says so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from memoryd.models.identity import EMBEDDED as EMBEDDED_MODEL
from memoryd.search.relevance import EMBEDDED, UNCALIBRATED, Calibration
from memoryd.search.synonyms import NAME, Synonyms, parse

THRESHOLDS = "thresholds.json"
SECTION = "relevance"
MAX_BYTES = 1 << 20
SHIPPED = {EMBEDDED_MODEL.fingerprint: replace(EMBEDDED, model=EMBEDDED_MODEL.fingerprint)}
APART = ("apart_words", "apart_cosines")
NUMBERS = ("constant", "cosine", "share", "unknown", "nearest", *APART, "floor", "cosines_floor")
THREES = ("cosines", "words", "beside")
Value = TypeVar("Value")


@dataclass(slots=True)
class Remembered(Generic[Value]):
    """What a file said when its status was last another one."""

    absent: Value
    read: Callable[[str], Value]
    value: Value | None = None
    status: tuple[int, ...] | None = None

    def of(self, path: Path, notices: dict[str, str]) -> Value:
        """The value of the file as it is now."""
        status = _status(path)
        if self.value is None or status != self.status:
            self.value, self.status = self._fresh(path, notices), status
        return self.value

    def _fresh(self, path: Path, notices: dict[str, str]) -> Value:
        notices.pop(path.name, None)
        try:
            if path.exists() and not path.is_file():  # opening a pipe would wait for ever
                raise OSError("it is no file")
            with path.open(encoding="utf-8") as stream:
                return self.read(stream.read(MAX_BYTES))
        except FileNotFoundError:
            return self.absent
        except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            notices[path.name] = f"{path} cannot be read and does not count: {error}."
            return self.absent


def _status(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


@dataclass(slots=True)
class Tuning:
    """What was last read of both files of one home."""

    words: Remembered[Synonyms] = field(default_factory=lambda: Remembered(Synonyms(()), parse))
    known: Remembered[dict[str, Calibration]] = field(default_factory=lambda: Remembered(SHIPPED, calibrations))

    def synonyms(self, root: Path, notices: dict[str, str]) -> Synonyms:
        """The lines of `synonyms.txt`."""
        return self.words.of(root / NAME, notices)

    def calibration(self, root: Path, notices: dict[str, str], model: str) -> Calibration:
        """That of a model by its fingerprint: what `thresholds.json` says, else what is shipped, else a guess."""
        return self.known.of(root / THRESHOLDS, notices).get(model, UNCALIBRATED)


def calibrations(text: str) -> dict[str, Calibration]:
    """The shipped calibrations and those in `relevance` of a thresholds.json. Raises ValueError, TypeError."""
    told: dict[str, dict[str, Any]] = json.loads(text).get(SECTION, {})
    return {**SHIPPED, **{model: _one(model, values) for model, values in told.items()}}


def _one(model: str, values: dict[str, Any]) -> Calibration:
    """What is not said of a model is as shipped; `apart_...` is 0 where a `constant` is given without.

    Raises ValueError, TypeError, OverflowError.
    """
    if unknown := [name for name in values if name not in NUMBERS + THREES]:
        raise ValueError(f"`{SECTION}` has no {unknown[0]!r}, only {', '.join(NUMBERS + THREES)}")
    known = SHIPPED.get(model, UNCALIBRATED)
    numbers: dict[str, Any] = dict.fromkeys(APART, 0.0) if "constant" in values else {}  # of before there were these
    numbers |= {name: _number(values[name]) for name in NUMBERS if name in values}
    for name in THREES:
        if name in values:
            one, two, three = map(_number, values[name])
            numbers[name] = (one, two, three)
    return replace(known, **numbers, model=model)


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is no weight and no floor")
    return number
