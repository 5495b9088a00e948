"""What can go wrong, under which stable code, and what the user does next?

    MemorydError
      InvalidInput            invalid-input
        UnknownParameter        unknown-parameter
        BlankContent            blank-content
        ContentTooLarge         content-too-large
        BadCharacters           bad-characters
        SecretFound             secret-found
        BadAddress              bad-address
        AmbiguousAddress        ambiguous-address
        BadCitation             bad-citation
        ReadOnlyEntry           read-only
        SupersedeReversed       supersede-reversed
        TokenInvalid            token-invalid
        HeldElsewhere           held-elsewhere
        ContentForgotten        content-forgotten
        OutsideProject          outside-project
        PersonNeeded            person-needed
        NotText                 not-text
      NotFound                not-found
      ScopeError              scope-error
        ScopeUnknown            scope-unknown
        ScopeRequired           scope-required
      ConfigError             config-error
        ConfigKeyUnknown        config-key-unknown
        ExtraMissing            extra-missing
      HomeError               home-error
        HomeBusy                home-busy
        HomeOpening             home-opening
        FormatDamaged           format-damaged
        ViewsLost               views-lost
        FormatUnsupported       format-unsupported
        DatabaseDamaged         database-damaged
      StoreError              store-error
        ContentDamaged          content-damaged
        PackDamaged             pack-damaged
        StorePoisoned           store-poisoned
        ReachUnknown            reach-unknown
        DiskFull                disk-full
      VaultError              vault-error
        VaultNotARepository     vault-not-a-repository
        VaultFileInvalid        vault-file-invalid
        VaultBusy               vault-busy
        VaultConflict           vault-conflict
        RemoteFailed            remote-failed
          PushRejected            push-rejected
        GitMissing              git-missing
        GitTooOld               git-too-old
        GitLocked               git-locked
        GitTimeout              git-timeout
        GitFailed               git-failed
      CorpusError             corpus-error
        CorpusDuplicate         corpus-duplicate
        CorpusNested            corpus-nested
        CorpusUnreadable        corpus-unreadable
      SnapshotError           snapshot-error
        SnapshotIncomplete      snapshot-incomplete
        RestoreRefused          restore-refused
      IndexProblem            index-problem
        IndexDamaged            index-damaged
        IndexMismatch           index-mismatch
        IndexOutdated           index-outdated
        VectorServerProblem     vector-server-problem
          VectorServerAway        vector-server-away
          VectorServerRefused     vector-server-refused
          VectorServerUnfit       vector-server-unfit
      ModelError              model-error
        ModelFilesWrong         model-files-wrong
        ModelUnavailable        model-unavailable
        TextPoisoned            text-poisoned
      WireError               wire-error
        DaemonUnavailable       daemon-unavailable
        WireMismatch            wire-mismatch
        ShuttingDown            shutting-down
        JobUnfinished           job-unfinished

A code never changes its meaning. `next_step` is one sentence that tells a person or an agent what to do.
"""

from __future__ import annotations

from typing import Any, ClassVar


class MemorydError(Exception):
    """Root of every error that memoryd raises on purpose.

    `details` holds JSON-ready facts (paths, addresses, limits); never secrets, never whole contents.
    """

    code: ClassVar[str] = "memoryd-error"
    default_next_step: ClassVar[str] = "Run `memoryd doctor` and read the daemon's log."

    def __init__(self, message: str, *, next_step: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step or self.default_next_step
        self.details = details

    def to_dict(self) -> dict[str, Any]:
        """The error as every surface shows it: code, message, next_step and, where there are any, details."""
        shown: dict[str, Any] = {"code": self.code, "message": self.message, "next_step": self.next_step}
        if self.details:
            shown["details"] = self.details
        return shown


class InvalidInput(MemorydError):
    code = "invalid-input"
    default_next_step = "Correct the argument that the message names and call again."


class UnknownParameter(InvalidInput):
    code = "unknown-parameter"


class BlankContent(InvalidInput):
    code = "blank-content"
    default_next_step = "Pass the words to remember; nothing was written."


class ContentTooLarge(InvalidInput):
    code = "content-too-large"
    default_next_step = "Store the essential statement, and keep the long text in a file that a corpus covers."


class BadCharacters(InvalidInput):
    code = "bad-characters"
    default_next_step = "Remove NUL characters and unpaired surrogates; nothing was written."


class SecretFound(InvalidInput):
    """`details.findings` holds kind and place of each, never the words."""

    code = "secret-found"
    default_next_step = (
        "Nothing was written: leave it out and call again. If it is none, or is meant to be kept, a person gives the "
        "command `memoryd remember`, `supersede` or `archive` with --allow-secret."
    )


class BadAddress(InvalidInput):
    code = "bad-address"
    default_next_step = "Use sha256:<64 hex digits>, as a search result shows it, or a prefix of at least 8 digits."


class AmbiguousAddress(InvalidInput):
    code = "ambiguous-address"
    default_next_step = "Give more digits of the address."


class BadCitation(InvalidInput):
    code = "bad-citation"
    default_next_step = "Nothing was written: look at the file, then cite `path#L10-L20` as it stands there now."


class ReadOnlyEntry(InvalidInput):
    code = "read-only"
    default_next_step = "Only memories can be superseded or archived; add a memory that says what is different."


class SupersedeReversed(InvalidInput):
    code = "supersede-reversed"
    default_next_step = "Call memory_supersede the other way round: `id` is the older one, `by` the newer."


class TokenInvalid(InvalidInput):
    code = "token-invalid"
    default_next_step = "Call again without `confirm` to see the current plan and get a fresh token."


class HeldElsewhere(InvalidInput):
    code = "held-elsewhere"
    default_next_step = "Nothing was written: say it in other words, or give it a `key` of its own."


class ContentForgotten(InvalidInput):
    code = "content-forgotten"
    default_next_step = "Leave it out. If it is to be stored again, a person runs `memoryd add FILE --allow-forgotten`."


class OutsideProject(InvalidInput):
    code = "outside-project"
    default_next_step = "Name a file of the project that this session started in, or pass what it says as `text`."


class PersonNeeded(InvalidInput):
    code = "person-needed"
    default_next_step = "Run the command at a terminal: a person has to read the plan and type what it asks for."


class NotText(InvalidInput):
    code = "not-text"
    default_next_step = "Leave `redact` out to keep it as it is, if you know that it holds no secret."


class NotFound(MemorydError):
    code = "not-found"
    default_next_step = "Search for it, or check the scope of the call."


class ScopeError(MemorydError):
    code = "scope-error"
    default_next_step = "Pass `scope` as `global` or as a project id that memory_status lists."


class ScopeUnknown(ScopeError):
    code = "scope-unknown"
    default_next_step = (
        "Pass `scope` as `global` or as a project id that memory_status lists. What `scopes.private` in config.json "
        "names is open inside that project alone."
    )


class ScopeRequired(ScopeError):
    code = "scope-required"
    default_next_step = "Pass `scope` (`global` or a project id): this session did not start inside a git project."


class ConfigError(MemorydError):
    code = "config-error"
    default_next_step = "Correct config.json, then run `memoryd config` to see what is in force."


class ConfigKeyUnknown(ConfigError):
    code = "config-key-unknown"


class ExtraMissing(ConfigError):
    """Something needs an optional part of memoryd that is not installed."""

    code = "extra-missing"


def install_extra(name: str) -> str:
    """What brings an optional part of memoryd into a clone; the beginning of a next step, without its full stop."""
    return f"Install the extra `memoryd[{name}]`: in memoryd's clone, `.venv/bin/pip install -e '.[{name}]'`"


class HomeError(MemorydError):
    code = "home-error"
    default_next_step = "Check that the home directory exists, is yours and is writable, or set MEMORYD_HOME."


class HomeBusy(HomeError):
    code = "home-busy"
    default_next_step = "Another memoryd process owns this home: use it, or run `memoryd stop` first."


class HomeOpening(HomeError):
    code = "home-opening"
    default_next_step = "Call again in a moment; `memoryd status` shows when the home is open."


class FormatDamaged(HomeError):
    code = "format-damaged"
    default_next_step = "Restore the FORMAT file from a backup; its last line is the SHA-256 of all lines before it."


class ViewsLost(HomeError):
    code = "views-lost"
    default_next_step = "Run `memoryd stop`: the next start makes them again from packs and vault."


class FormatUnsupported(HomeError):
    code = "format-unsupported"
    default_next_step = "Open this home with the memoryd version that wrote it, or upgrade memoryd."


class DatabaseDamaged(HomeError):
    code = "database-damaged"
    default_next_step = "Restart memoryd: the damaged file is set aside and made again from the store and the vault."


class StoreError(MemorydError):
    code = "store-error"
    default_next_step = "Run `memoryd check`."


class ContentDamaged(StoreError):
    code = "content-damaged"
    default_next_step = "Run `memoryd check --read-data`; adding the same content again heals it."


class PackDamaged(StoreError):
    code = "pack-damaged"
    default_next_step = "Run `memoryd check --read-data` to see what the damaged place held."


class StorePoisoned(StoreError):
    code = "store-poisoned"
    default_next_step = "Free disk space or repair the disk, then restart the daemon; nothing acknowledged is lost."


class ReachUnknown(StoreError):
    code = "reach-unknown"
    default_next_step = "Run `memoryd check`, mend what it names (`memoryd repair`), then call again."


class DiskFull(StoreError):
    code = "disk-full"
    default_next_step = "Free disk space and call again; nothing was written and everything stored stays readable."


class VaultError(MemorydError):
    code = "vault-error"
    default_next_step = "Run `git status` in the vault directory that the message names."


class VaultNotARepository(VaultError):
    code = "vault-not-a-repository"
    default_next_step = "Restore the vault's .git directory, or move the folder away so that a new vault is made."


class VaultFileInvalid(VaultError):
    code = "vault-file-invalid"
    default_next_step = "Correct the named line of the Markdown file by hand; memoryd never rewrites such a file."


class VaultBusy(VaultError):
    """A person has something under way in the vault that a commit would take along, undo or lose."""

    code = "vault-busy"
    default_next_step = "Finish or abort it in the vault, then call again; nothing was written."


class VaultConflict(VaultError):
    code = "vault-conflict"
    default_next_step = "Merge it by hand in the vault, see docs/vault.md; until then both sides stay as they are."


class RemoteFailed(VaultError):
    code = "remote-failed"
    default_next_step = "Check the remote's address, the network and your access, then run `memoryd vault sync` again."


class PushRejected(RemoteFailed):
    code = "push-rejected"
    default_next_step = "Run `memoryd vault sync` again; what was merged meanwhile stays."


class GitMissing(VaultError):
    code = "git-missing"
    default_next_step = "Install git 2.36 or newer and make sure that it is on PATH."


class GitTooOld(VaultError):
    code = "git-too-old"
    default_next_step = "Install git 2.36 or newer."


class GitLocked(VaultError):
    code = "git-locked"
    default_next_step = "Finish or end the git process that holds the named lock, then call again."


class GitTimeout(VaultError):
    code = "git-timeout"
    default_next_step = (
        "A hook, a signer or a credential helper did not finish in time: make it quick, or switch it off."
    )


class GitFailed(VaultError):
    code = "git-failed"
    default_next_step = "Read git's message, correct the vault, then call again; nothing was stored."


class CorpusError(MemorydError):
    code = "corpus-error"
    default_next_step = "Correct the corpus in config.json, or run `memoryd corpus list`."


class CorpusDuplicate(CorpusError):
    code = "corpus-duplicate"


class CorpusNested(CorpusError):
    code = "corpus-nested"


class CorpusUnreadable(CorpusError):
    code = "corpus-unreadable"
    default_next_step = "Make the path readable and scan again; nothing was removed from the index."


class SnapshotError(MemorydError):
    code = "snapshot-error"
    default_next_step = "Run `memoryd snapshots` to see what was kept."


class SnapshotIncomplete(SnapshotError):
    code = "snapshot-incomplete"
    default_next_step = "Make the named paths readable, or take it without them: `--partial` marks what was left out."


class RestoreRefused(SnapshotError):
    code = "restore-refused"
    default_next_step = "Name a target that does not exist yet, or an empty directory; nothing was written over."


class IndexProblem(MemorydError):
    code = "index-problem"
    default_next_step = "Run `memoryd rebuild`; no truth is lost, indexes are views."


class IndexDamaged(IndexProblem):
    code = "index-damaged"


class IndexMismatch(IndexProblem):
    code = "index-mismatch"
    default_next_step = (
        "Nothing to do: the index is being repaired; search again in a moment, or run `memoryd rebuild`."
    )


class IndexOutdated(IndexProblem):
    code = "index-outdated"
    default_next_step = "Nothing to do: a new generation is built in the background and then takes its place."


class VectorServerProblem(IndexProblem):
    """The Qdrant server of `vector.url` cannot be used now; what it holds may be whole."""

    code = "vector-server-problem"


class VectorServerAway(VectorServerProblem):
    """It does not answer in time, or fails."""

    code = "vector-server-away"
    default_next_step = (
        "Start or reach the Qdrant server that `vector.url` names; keyword search works without it, and search by "
        "meaning comes back by itself."
    )


class VectorServerRefused(VectorServerProblem):
    code = "vector-server-refused"
    default_next_step = (
        "Correct the key that `vector.api_key_file` or `vector.api_key_env` names; keyword search works without it."
    )


class VectorServerUnfit(VectorServerProblem):
    code = "vector-server-unfit"
    default_next_step = (
        "Let `vector.url` name a Qdrant server of a version that the message allows; keyword search works without it."
    )


class ModelError(MemorydError):
    code = "model-error"
    default_next_step = "Keyword search works without the model; run `memoryd doctor` to see what is wrong with it."


class ModelFilesWrong(ModelError):
    code = "model-files-wrong"
    default_next_step = "Reinstall memoryd: the embedding model's files are missing or are not the expected ones."


class ModelUnavailable(ModelError):
    code = "model-unavailable"


class TextPoisoned(ModelError):
    code = "text-poisoned"
    default_next_step = "This text ended the model's process twice; it stays findable by keyword."


class WireError(MemorydError):
    code = "wire-error"
    default_next_step = "Run `memoryd status`."


class DaemonUnavailable(WireError):
    code = "daemon-unavailable"
    default_next_step = "Run `memoryd start` and read the log that the message names."


class WireMismatch(WireError):
    code = "wire-mismatch"
    default_next_step = "Run `memoryd stop`: the next call starts a daemon of the installed version."


class JobUnfinished(WireError):
    code = "job-unfinished"
    default_next_step = "Give the same command again; what was done already is kept."


class ShuttingDown(WireError):
    code = "shutting-down"
    default_next_step = "Call again: a fresh daemon answers."
