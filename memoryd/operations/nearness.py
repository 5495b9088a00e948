"""How near are two whole memories in meaning, and from which nearness on does that say anything?

A memory of several passages is as near to another one as its passages are on average to the nearest ones there, looked
at from the side from which it is nearer: the shorter one may be a part of the longer.
"""

from __future__ import annotations

import json
import logging
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from operator import mul
from typing import Any

from memoryd.operations.home import Home
from memoryd.operations.tuning import THRESHOLDS

NOTICE = "likeness"
"""What `read_cuts` has to say of that file; a notice by its name is of the calibrations that stand beside."""
PLAIN = "words"
"""The name under which cuts stand that hold without any model."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cuts:
    """From where on two memories are called similar, and one a likely revision of the other; `gap` is False where the
    measured pairs leave no gap between what is the same and what is not."""

    similar: float
    revision: float
    gap: bool = True


DEFAULT = Cuts(similar=0.3252, revision=0.7212, gap=False)
"""Of `likeness`, where nothing was calibrated: what the embedded model gives on the pairs that memoryd ships with."""
DEFAULT_WORDS = Cuts(similar=0.1997, revision=0.6384, gap=False)
"""The same where a text has no vector, so that words alone speak."""


def likeness(overlap: float, cosine: float | None) -> float:
    """One number for how alike two texts are: words alone where there is no vector, else words and meaning together."""
    return overlap if cosine is None else (overlap + max(0.0, cosine)) / 2


def cosine(one: Sequence[bytes], other: Sequence[bytes]) -> float | None:
    """Nearness (-1 to 1) of two texts by the unit vectors (float32) of their passages; None where one has none."""
    if not one or not other:
        return None
    left, right = [array("f", vector) for vector in one], [array("f", vector) for vector in other]
    table: list[list[float]] = [[sum(map(mul, a, b)) for b in right] for a in left]
    there = sum(map(max, table)) / len(left)
    back = sum(map(max, zip(*table, strict=True))) / len(right)
    return float(max(there, back))


def cuts(home: Home, measured: Mapping[str, Cuts] | None = None, *, vectors: bool = True) -> Cuts:
    """The cuts that `memoryd calibrate` measured (`read_cuts`) with the active model, or without any, else the default
    ones; never those of another model."""
    known = read_cuts(home) if measured is None else measured
    if not vectors:
        return known.get(PLAIN, DEFAULT_WORDS)
    return known.get(home.host.identity.fingerprint, DEFAULT)


def read_cuts(home: Home) -> dict[str, Cuts]:
    """Cuts by model fingerprint; what cannot be read counts as never measured, and a notice says so."""
    path = home.root / THRESHOLDS
    try:
        told = json.loads(path.read_bytes()).get("models", {})
        names = {one.name for one in fields(Cuts)}
        found = {model: Cuts(**{k: v for k, v in told[model].items() if k in names}) for model in told}
    except FileNotFoundError:
        found = {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        home.notices[NOTICE] = f"{path} cannot be read ({error}): run `memoryd calibrate`."
        return {}
    home.notices.pop(NOTICE, None)
    return found


def _beside(home: Home) -> dict[str, Any]:
    """What else the file holds: calibrations of relevance."""
    with suppress(OSError, ValueError, RecursionError):
        told = json.loads((home.root / THRESHOLDS).read_bytes())
        return told if isinstance(told, dict) else {}
    return {}


def keep_cuts(home: Home, measured: Mapping[str, Cuts]) -> None:
    """Note what was measured, by model; what is known of other models stays. Raises OSError."""
    told = {name: asdict(one) for name, one in {**read_cuts(home), **measured}.items()}
    data = json.dumps({**_beside(home), "v": 1, "models": told}, indent=2, sort_keys=True) + "\n"
    home.files.replace(home.root / THRESHOLDS, data.encode(), owner="thresholds")
    home.notices.pop(NOTICE, None)
