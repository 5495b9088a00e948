"""What did the user set, and does each key mean something?

`<home>/config.json` (or the file that MEMORYD_CONFIG names) is read once; its hash stays with the daemon, so that a
changed file is noticed. Unknown keys are refused with the nearest known name. Every key has an effect and a test.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from memoryd.digest import sha256_hex
from memoryd.errors import ConfigError, ConfigKeyUnknown
from memoryd.records import ARTIFACT_SOURCE, VAULT_SOURCE

CONFIG_VARIABLE = "MEMORYD_CONFIG"
RESERVED_LABELS = frozenset({VAULT_SOURCE, ARTIFACT_SOURCE})
"""Sources that are no corpora."""
SCOPE_PATTERN = r"^(global|p-[a-z0-9-]+-[0-9a-f]{8})$"
PRIVATE_PATTERN = r"^(\*|p-[a-z0-9-]+-[0-9a-f]{8})$"


class Section(BaseModel):
    """A closed group of settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class CorpusConfig(Section):
    """One labelled read-only root."""

    label: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    path: str
    include: tuple[str, ...] = ("**/*.md",)
    exclude: tuple[str, ...] = ()
    scope: Annotated[str, Field(pattern=SCOPE_PATTERN)] = "global"
    code: bool = False

    @field_validator("include", "exclude", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("label")
    @classmethod
    def _not_reserved(cls, value: str) -> str:
        if value.lower() in RESERVED_LABELS:
            raise ValueError("the labels `vault` and `artifact` are reserved for memories and artifacts")
        return value


class SearchConfig(Section):
    """Bounds of a search."""

    model_wait_ms: Annotated[int, Field(ge=0, le=60_000)] = 1500
    candidates: Annotated[int, Field(ge=20, le=1000)] = 200
    """Hits asked of each leg."""
    dense_candidates: Annotated[int, Field(ge=20, le=1000)] = 100
    """Of the dense leg, at most `candidates`, where words are looked up as well and find no turns of a conversation."""
    excerpt_tokens: Annotated[int, Field(ge=50, le=8000)] = 1500
    reranker: Literal["auto", "maxsim", "bge-reranker", "off"] = "auto"
    """`auto`: maxsim with BGE-M3, off with the embedded model."""
    rerank_budget_ms: Annotated[int, Field(ge=0, le=60_000)] = 600
    """A reranking that would take longer is left out, with its reason."""


class ModelConfig(Section):
    """The embedding model and its process."""

    name: Literal["auto", "embedded", "bge-m3"] = "auto"
    """`auto`: BGE-M3 where its files are whole and the extra `bge-m3` is installed, else the embedded model."""
    path: str | None = None
    """Where BGE-M3 lies; default `<home>/models/bge-m3`."""
    reranker_path: str | None = None
    """Where bge-reranker lies; default `<home>/models/bge-reranker`."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Of BGE-M3; `auto`: bf16 where the processor computes with it."""
    warm_up: bool = False
    """Load the model when the daemon starts, not with the first text."""
    idle_seconds: Annotated[int, Field(ge=1, le=86_400)] = 900
    threads: Annotated[int, Field(ge=1, le=64)] = 1


class VectorConfig(Section):
    """Where vectors are kept: in the home (`url` unset), or on a Qdrant server or cluster."""

    url: str | None = None
    """`https://host:port`; without a port 6333."""
    api_key_file: str | None = None
    """The key is read from there, relative to the configuration file, whenever a connection is made."""
    api_key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    """Name of the environment variable that holds the key."""
    api_key_in_clear: bool = False
    """Send the key also without TLS to another machine."""
    shards: Annotated[int, Field(ge=1, le=1024)] = 1
    replication_factor: Annotated[int, Field(ge=1, le=64)] = 1
    timeout_seconds: Annotated[int, Field(ge=1, le=600)] = 5
    """The longest wait for one request."""
    collection_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] = "memoryd"

    @field_validator("url")
    @classmethod
    def _plain(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("a URL is http://host:port or https://host:port")
        if parts.username is not None or parts.password is not None:
            raise ValueError("a URL holds no user and no password; a key goes into a file or an environment variable")
        _ = parts.port  # raises ValueError for one that is none
        return value.rstrip("/")

    @model_validator(mode="after")
    def _key_is_safe(self) -> VectorConfig:
        keyed = self.api_key_file is not None or self.api_key_env is not None
        if self.api_key_file is not None and self.api_key_env is not None:
            raise ValueError("the key is in `api_key_file` or in `api_key_env`, not in both")
        if keyed and not self.encrypted and not self.loopback and not self.api_key_in_clear:
            raise ValueError(
                "the key would travel in the clear: use https, or set `api_key_in_clear` where the network is trusted"
            )
        return self

    @property
    def encrypted(self) -> bool:
        """Whether TLS is used."""
        return urlsplit(self.url or "").scheme != "http"

    @property
    def loopback(self) -> bool:
        """Whether the server is on this machine."""
        host = urlsplit(self.url or "").hostname or ""
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"


class HealthConfig(Section):
    """The optional loopback port of the read-only operations routes, as `127.0.0.1:PORT`."""

    listen: Annotated[str, Field(pattern=r"^(127\.0\.0\.1|\[::1\]|localhost):\d{1,5}$")] | None = None


class VaultConfig(Section):
    """The memories' git repository."""

    path: str | None = None
    git_timeout_seconds: Annotated[int, Field(ge=1, le=600)] = 20
    poll_seconds: Annotated[float, Field(ge=0.1, le=3600)] = 2.0
    network_timeout_seconds: Annotated[int, Field(ge=1, le=3600)] = 60


class StoreConfig(Section):
    """Chunker and chunk sizes in bytes of a new store; one that exists keeps those in its FORMAT."""

    chunker: Literal["fastcdc2020", "rabin"] = "fastcdc2020"
    chunk_min: Annotated[int, Field(ge=256, le=1 << 20)] = 2048
    chunk_avg: Annotated[int, Field(ge=512, le=4 << 20)] = 8192
    chunk_max: Annotated[int, Field(ge=1024, le=16 << 20)] = 65536


class RetentionConfig(Section):
    """What a collection (`memoryd gc`) leaves. What is current stays in any case, memories and artifacts with their
    whole history."""

    history_revisions: Annotated[int, Field(ge=0, le=1_000_000)] = 20
    """Former states of each document of a corpus that stay whatever their age."""
    history_days: Annotated[int, Field(ge=0, le=36_500)] = 90
    """Former states stay this many days after they were replaced, however many they are."""
    snapshots: Annotated[int, Field(ge=1, le=1_000_000)] = 30
    """Snapshots of each label that stay whatever their age, the newest first."""
    snapshot_days: Annotated[int, Field(ge=0, le=36_500)] = 90
    """Snapshots stay this many days, however many they are."""
    grace_hours: Annotated[int, Field(ge=1, le=87_600)] = 72
    """What nothing needs any more lies this long before its bytes go."""


class GcConfig(Section):
    """Collections that the daemon makes by itself."""

    every_hours: Annotated[int, Field(ge=0, le=87_600)] = 24
    """0: never."""


class ReviewConfig(Section):
    """When a review (`memoryd review`) proposes to look at a memory; nothing is retired by it."""

    stale_days: Annotated[int, Field(ge=1, le=36_500)] = 180
    """So long after it was last handed out or called useful."""
    unrecalled_days: Annotated[int, Field(ge=1, le=36_500)] = 90
    """So long after it was made, where nobody was ever shown it."""
    verbose_words: Annotated[int, Field(ge=20, le=1_000_000)] = 250
    """Beyond so many words."""


class ScopesConfig(Section):
    """Which projects may be named from elsewhere."""

    private: tuple[Annotated[str, Field(pattern=PRIVATE_PATTERN)], ...] = ()
    """Projects (`*`: all of them) that only their own sessions read and write, also where `scope` names them."""

    @field_validator("private", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class LimitsConfig(Section):
    """What a single call may bring."""

    memory_bytes: Annotated[int, Field(ge=1024, le=16 << 20)] = 256 * 1024
    file_bytes: Annotated[int, Field(ge=1024, le=1 << 34)] = 64 << 20


class Config(Section):
    """All settings; defaults are what an empty file means."""

    corpora: tuple[CorpusConfig, ...] = ()
    search: SearchConfig = SearchConfig()
    model: ModelConfig = ModelConfig()
    vector: VectorConfig = VectorConfig()
    health: HealthConfig = HealthConfig()
    vault: VaultConfig = VaultConfig()
    store: StoreConfig = StoreConfig()
    retention: RetentionConfig = RetentionConfig()
    gc: GcConfig = GcConfig()
    review: ReviewConfig = ReviewConfig()
    scopes: ScopesConfig = ScopesConfig()
    limits: LimitsConfig = LimitsConfig()
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"

    @field_validator("corpora", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class LoadedConfig:
    """A configuration and the file it came from; `sha256` is that of the file's bytes (of b"" where none is)."""

    def __init__(self, config: Config, path: Path, sha256: str) -> None:
        self.config = config
        self.path = path
        self.sha256 = sha256

    def model_folder(self, root: Path) -> Path:
        """Where BGE-M3 lies: `model.path`, relative to the file, else in the home `root`. Raises ConfigError."""
        return self._folder("model.path", self.config.model.path, root / "models" / "bge-m3")

    def reranker_folder(self, root: Path) -> Path:
        """Where bge-reranker lies: `model.reranker_path`, else in the home `root`. Raises ConfigError."""
        return self._folder("model.reranker_path", self.config.model.reranker_path, root / "models" / "bge-reranker")

    def vault_folder(self, root: Path) -> Path:
        """Where the vault lies: `vault.path`, relative to the file, else in the home `root`. Raises ConfigError."""
        return self._folder("vault.path", self.config.vault.path, root / "vault")

    def _folder(self, key: str, named: str | None, default: Path) -> Path:
        try:
            return default if named is None else self.path.parent / Path(named).expanduser()
        except RuntimeError as error:  # the home directory of an unknown user
            raise ConfigError(f"{self.path}: `{key}`: {named!r} is not a path.", key=key) from error

    def key_file(self) -> Path | None:
        """Where the key of `vector.url` lies: `vector.api_key_file`, relative to the file. Raises ConfigError."""
        named = self.config.vector.api_key_file
        return None if named is None else self._folder("vector.api_key_file", named, Path())

    def file_differs(self) -> bool:
        """Whether the file on disk is no longer the one in force (also when it cannot be read)."""
        try:
            return file_hash(self.path) != self.sha256
        except OSError:
            return True


def config_path(home: Path, environment: Mapping[str, str]) -> Path:
    """The file that holds the settings of this home."""
    named = environment.get(CONFIG_VARIABLE)
    return Path(named).expanduser().absolute() if named else home / "config.json"


def file_hash(path: Path) -> str:
    """SHA-256 of the file's bytes; a missing file counts as empty. Raises OSError where it cannot be read."""
    try:
        return sha256_hex(path.read_bytes())
    except FileNotFoundError:
        return sha256_hex(b"")


def load_config(path: Path) -> LoadedConfig:
    """Read and check the file; a missing one gives the defaults. Raises ConfigError, ConfigKeyUnknown."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return LoadedConfig(Config(), path, sha256_hex(b""))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.", path=str(path)) from error
    return LoadedConfig(parse_config(raw, str(path)), path, sha256_hex(raw))


def parse_config(raw: bytes, name: str) -> Config:
    """Check the bytes of a configuration file called `name`."""
    try:
        data = json.loads(raw.decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ConfigError(f"{name} is not JSON: {error}.", path=name) from error
    if not isinstance(data, dict):
        raise ConfigError(f"{name} must hold one JSON object.", path=name)
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        raise _explain(error, name) from error


def _explain(error: ValidationError, name: str) -> ConfigError:
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        nearest = difflib.get_close_matches(where, known_keys(), n=1, cutoff=0.5)
        hint = f" Did you mean `{nearest[0]}`?" if nearest else ""
        return ConfigKeyUnknown(f"{name} holds the unknown key `{where}`.{hint}", path=name, key=where)
    return ConfigError(f"{name}: `{where}`: {first['msg']}.", path=name, key=where)


def known_keys() -> list[str]:
    """Every dotted key that a configuration file may hold."""
    return _keys_of(Config, "")


def _keys_of(section: type[BaseModel], prefix: str) -> list[str]:
    keys: list[str] = []
    for key, field in section.model_fields.items():
        keys.append(prefix + key)
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            keys += _keys_of(kind, f"{prefix}{key}.")
        elif key == "corpora":
            keys += _keys_of(CorpusConfig, "corpora.")
    return keys
