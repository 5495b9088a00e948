"""Does the house stand: arrows down only, one owner a foreign package, a light proxy, files of a readable size?"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

GROUND = ["errors", "records", "digest", "files", "runtime", "config"]
ROOMS: dict[str, list[str]] = {
    "store": [
        "format",
        "rabin",
        "chunker",
        "pack",
        "manifest",
        "merkle",
        "treediff",
        "renames",
        "shelf",
        "chunkindex",
        "survey",
        "census",
        "condemned",
        "noted",
        "reach",
        "keeper",
        "reader",
        "recent",
        "bulk",
        "inventory",
        "reserve",
        "seal",
        "stream",
        "drafts",
        "group",
        "arrange",
        "rewrite",
        "sweep",
        "salvage",
        "mend",
        "findings",
        "chunkstore",
        "onlooker",
    ],
    "catalog": [
        "schema",
        "journal",
        "aside",
        "db",
        "scopes",
        "documents",
        "memories",
        "passages",
        "snapshots",
        "told",
        "jobs",
        "visits",
        "statcache",
        "findings",
        "feedback",
        "put_off",
        "state",
        "onlooker",
    ],
    "sources": [
        "frontmatter",
        "entry",
        "markers",
        "proposal",
        "same",
        "process",
        "objects",
        "halfway",
        "git",
        "locks",
        "folder",
        "commit",
        "remote",
        "standing",
        "merge",
        "vault",
        "projects",
        "ignore",
        "regular",
        "citation",
        "tree",
        "corpora",
    ],
    "extract": [
        "wording",
        "orders",
        "ruling",
        "text",
        "lines",
        "worddiff",
        "symbols",
        "blocks",
        "markdown",
        "passages",
        "likeness",
        "tokens",
        "turns",
        "dates",
        "assignments",
        "secret",
    ],
    "models": [
        "identity",
        "checkpoint",
        "choice",
        "frames",
        "process",
        "waiting",
        "host",
        "pull",
        "proof",
        "maxsim",
        "embedded",
        "narrow",
        "bge_m3",
        "reranker",
        "child",
    ],
    "index": [
        "analysis",
        "entry",
        "fields",
        "cut",
        "lexical",
        "packed",
        "engine",
        "remembered",
        "present",
        "shard",
        "counted",
        "vector",
        "qdrant",
        "remote",
        "embeddings",
        "onlooker",
        "marks",
        "places",
        "generations",
    ],
    "search": ["kept", "recipe", "around", "fusion", "relevance", "synonyms", "excerpt", "pipeline"],
    "operations": [
        "owner",
        "calm",
        "lookout",
        "noticed",
        "pairs",
        "tuning",
        "home",
        "reranking",
        "weights",
        "roots",
        "burial",
        "ingest",
        "collect",
        "optimize",
        "guard",
        "evidence",
        "fresh",
        "treewriter",
        "treewalk",
        "corpustree",
        "scancache",
        "reconcile",
        "onlooking",
        "filling",
        "shadow",
        "recover",
        "legs",
        "reordering",
        "filler",
        "steps",
        "canary",
        "building",
        "indexing",
        "scan",
        "writes",
        "callers",
        "inputs",
        "filed",
        "kept",
        "snapshots",
        "changes",
        "moments",
        "since",
        "restore",
        "artifacts",
        "plans",
        "found",
        "enclosing",
        "answers",
        "suggesting",
        "held",
        "drift",
        "citations",
        "freshness",
        "signals",
        "revisions",
        "facts",
        "named",
        "entries",
        "reading",
        "known",
        "why",
        "nearness",
        "comparing",
        "readds",
        "separation",
        "labelled",
        "neighbourhood",
        "calibrate",
        "revising",
        "previews",
        "lifecycle",
        "feedback",
        "gateway",
        "secondlook",
        "brief",
        "twins",
        "worn",
        "review",
        "leaving",
        "rebuild",
        "windows",
        "erase",
        "purge",
        "erasure",
        "forget",
        "losses",
        "refill",
        "retold",
        "check",
        "repair",
        "health",
        "vaultcare",
        "doctor",
        "beir",
        "temporary",
        "scoring",
        "contest",
        "asking",
        "ownset",
        "evaluate",
        "report",
        "plots",
        "arms",
    ],
    "server": [
        "detach",
        "sockets",
        "lanes",
        "sdk",
        "transport",
        "toolbox",
        "commands",
        "vaults",
        "reviews",
        "offered",
        "tools",
        "confirm",
        "sessions",
        "web",
        "api",
        "run",
        "daemon",
    ],
}
"""Rooms in order; inside a room a file imports only files listed before it."""
ISLANDS = {"store", "catalog", "sources", "extract", "models", "index"}
"""These never import each other."""
ABOVE = {"search": ISLANDS, "operations": ISLANDS | {"search"}, "server": {"operations"}}
TOP = [
    "client",
    "starting",
    "visible",
    "cli_words",
    "cli_status",
    "show",
    "shell",
    "cli_corpora",
    "cli_snapshots",
    "cli_calibrate",
    "cli_care",
    "cli_eval",
    "cli_upkeep",
    "cli_repair",
    "cli_review",
    "cli_vault",
    "cli_model",
    "cli_search",
    "cli",
    "__main__",
]

FOREIGN: dict[str, set[str]] = {
    "pydantic": {"memoryd/config.py", "memoryd/server/transport.py"},
    "pyfastcdc": {"memoryd/store/chunker.py"},
    "zstandard": {"memoryd/store/pack.py"},
    "yaml": {"memoryd/sources/frontmatter.py"},
    "pathspec": {"memoryd/sources/ignore.py"},
    "tantivy": {f"memoryd/index/{name}.py" for name in ("analysis", "fields", "lexical")},
    "qdrant_edge": {"memoryd/index/vector.py", "memoryd/index/shard.py"},
    "qdrant_client": {"memoryd/index/qdrant.py"},
    "httpx": {"memoryd/index/qdrant.py"},
    "onnxruntime": {"memoryd/models/embedded.py"},
    "tokenizers": {"memoryd/models/embedded.py"},
    "matplotlib": {"memoryd/operations/plots.py"},
    "numpy": {
        "memoryd/models/embedded.py",
        "memoryd/models/maxsim.py",
        "memoryd/models/bge_m3.py",
    },
    "torch": {f"memoryd/models/{name}.py" for name in ("bge_m3", "narrow", "reranker")},
    "FlagEmbedding": {"memoryd/models/bge_m3.py", "memoryd/models/reranker.py"},
    "safetensors": {"memoryd/models/narrow.py"},
    "huggingface_hub": {"memoryd/models/pull.py"},
    "filelock": {"memoryd/operations/owner.py"},
    "mcp": {"memoryd/server/sdk.py"},
    "mcp_types": {"memoryd/server/sdk.py"},
    "jsonschema": {"memoryd/server/toolbox.py"},
    "starlette": {f"memoryd/server/{name}.py" for name in ("web", "api", "run")},
    "uvicorn": {"memoryd/server/sdk.py"},
    "prometheus_client": {"memoryd/server/web.py"},
    "anyio": {f"memoryd/server/{name}.py" for name in ROOMS["server"]},
    "click": {
        f"memoryd/{name}.py"
        for name in (
            "shell",
            "cli_corpora",
            "cli_calibrate",
            "cli_care",
            "cli_eval",
            "cli_upkeep",
            "cli_snapshots",
            "cli_repair",
            "cli_review",
            "cli_vault",
            "cli_model",
            "cli_search",
            "cli",
        )
    },
    "rich": {"memoryd/show.py"},
}
LONG_FILES: dict[str, str] = {
    # one tree, as design section 6 asks for: whoever looks up a code, its parent or its next step finds all of them in
    # one place, and a class is five lines; split by room, every room would import the base and readers would search
    "memoryd/errors.py": "the whole tree of errors with codes and next steps, on one page",
}
"""Files over 400 lines, each with its reason."""


def modules() -> list[Path]:
    return sorted(path for top in ("memoryd", "memproxy") for path in (ROOT / top).rglob("*.py"))


def imports(path: Path) -> set[str]:
    """Dotted names that a file imports anywhere, also inside functions; TYPE_CHECKING blocks count too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def place(path: Path) -> tuple[str, str]:
    """(room, file) of a module of memoryd; ground files have the room `ground`, the CLI `top`."""
    parts = path.relative_to(ROOT / "memoryd").with_suffix("").parts
    if len(parts) == 1:
        return ("ground" if parts[0] in GROUND else "top"), parts[0]
    return parts[0], parts[1]


def allowed(room: str, name: str, target_room: str, target: str) -> bool:
    if target_room == "top":
        return room == "top" and TOP.index(target) < TOP.index(name)
    if room == "top":
        return True
    if target_room == "ground":
        return room != "ground" or GROUND.index(target) < GROUND.index(name)
    if room == target_room:
        return ROOMS[room].index(target) < ROOMS[room].index(name)
    return target_room in ABOVE.get(room, set())


def test_every_file_has_its_place_in_the_table():
    for path in modules():
        if path.name == "__init__.py" or path.is_relative_to(ROOT / "memproxy"):
            continue
        room, name = place(path)
        assert room in {"ground", "top"} or name in ROOMS.get(room, []), f"{path} is not in the table"
        assert room != "top" or name in TOP, f"{path} is not in the table"


@pytest.mark.parametrize("path", [p for p in modules() if p.is_relative_to(ROOT / "memoryd")], ids=str)
def test_arrows_go_down_only(path: Path):
    if path.name == "__init__.py":
        assert not {name for name in imports(path) if name.startswith("memoryd")}
        return
    room, name = place(path)
    for dotted in imports(path):
        parts = dotted.split(".")
        assert parts[0] != "memproxy" or (room, name) == ("top", "starting"), f"{path} imports memproxy"
        if parts[0] != "memoryd" or len(parts) < 2:
            continue
        if parts[1] in GROUND:
            target = ("ground", parts[1])
        elif parts[1] in ROOMS and len(parts) >= 3 and parts[2] in ROOMS[parts[1]]:
            target = (parts[1], parts[2])
        elif parts[1] in ROOMS:
            continue  # `from memoryd.room import file` is checked by its longer name
        else:
            target = ("top", parts[1])
        assert allowed(room, name, *target), f"{path} must not import {dotted}"


@pytest.mark.parametrize("path", modules(), ids=str)
def test_each_foreign_package_has_its_owner(path: Path):
    inside = path.relative_to(ROOT).as_posix()
    for dotted in imports(path):
        top = dotted.split(".")[0]
        if top in sys.stdlib_module_names or top in {"memoryd", "memproxy", "__future__"}:
            continue
        assert top in FOREIGN, f"{inside} imports {top}, which nobody owns"
        assert inside in FOREIGN[top], f"{inside} imports {top}, which {sorted(FOREIGN[top])} own"


def test_no_module_is_named_like_the_standard_library():
    for path in modules():
        assert path.stem.startswith("__") or path.stem not in sys.stdlib_module_names, path


def test_files_stay_readable():
    for path in modules():
        lines = len(path.read_text("utf-8").splitlines())
        inside = path.relative_to(ROOT).as_posix()
        assert lines <= 400 or inside in LONG_FILES, f"{inside} has {lines} lines"
    assert all((ROOT / name).exists() for name in LONG_FILES)


def test_a_home_without_a_vector_server_loads_nothing_of_one(tmp_path: Path):
    """`qdrant_client` costs 0.5 s and 89 MB: only who set `vector.url` pays for it."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom memoryd.operations.home import open_home\n"
        "open_home(Path(sys.argv[1]), environment={}).close()\nprint('\\n'.join(sys.modules))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "home")]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split())
    assert "memoryd.index.places" in loaded
    assert not loaded & {"memoryd.index.qdrant", "memoryd.index.remote", "qdrant_client", "httpx", "grpc"}


def test_only_the_server_is_async():
    for path in modules():
        if path.is_relative_to(ROOT / "memoryd" / "server"):
            continue
        tree = ast.parse(path.read_text("utf-8"))
        found = [node for node in ast.walk(tree) if isinstance(node, (ast.AsyncFunctionDef, ast.Await, ast.AsyncWith))]
        assert not found, f"{path} is async"


def test_the_proxy_is_light():
    """The proxy loads the standard library and `memoryd.runtime`, and none of the slow parts of either."""
    if not (ROOT / "memproxy" / "relay.py").exists():
        pytest.fail("memproxy/relay.py is missing")
    code = "import sys, memproxy.relay; print('\\n'.join(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(done.stdout.split())
    outside = {n for n in loaded if n.split(".")[0] not in sys.stdlib_module_names and n.split(".")[0] != "memproxy"}
    site_hooks = {n for n in outside if n.startswith(("_", "sitecustomize", "distutils"))}
    assert outside - site_hooks <= {"memoryd", "memoryd.runtime"}
    assert not loaded & {"asyncio", "anyio", "mcp", "filelock", "pydantic", "logging", "argparse", "pathlib", "typing"}
    for path in (ROOT / "memproxy").glob("*.py"):
        allowed_here = {"memoryd", "memoryd.runtime"}
        used = {n for n in imports(path) if n.startswith("memoryd") and not n.startswith("memoryd.runtime.")}
        assert used <= allowed_here, path
