"""Do all places of one project share one scope, and do different projects never?"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.sources.projects import ProjectFinder, cloned_from, normalise_remote, project_of

URL = "https://github.com/me/shop.git"


def git(*arguments: object, cwd: Path) -> None:
    command = ["git", "-c", "user.name=p", "-c", "user.email=p@localhost", "-c", "protocol.file.allow=always"]
    subprocess.run([*command, *map(str, arguments)], cwd=cwd, check=True, capture_output=True)


def repository(path: Path, *remotes: tuple[str, str]) -> Path:
    path.mkdir(parents=True)
    git("init", "-q", cwd=path)
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=path)
    for name, url in remotes:
        git("remote", "add", name, url, cwd=path)
    return path


def scope(path: Path | str, **aliases: str) -> str:
    project = project_of(str(path), aliases)
    assert project is not None
    assert re.fullmatch(r"p-[a-z0-9-]+-[0-9a-f]{8}", project.scope)
    return project.scope


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/me/shop.git",
        "https://github.com/me/shop",
        "https://github.com/me/shop/",
        "https://GitHub.COM/me/shop.git",
        "https://user:secret@github.com/me/shop.git",
        "https://x-access-token:secret@github.com:443/me/shop.git",
        "http://github.com:80/me//shop.git/",
        "git://github.com/me/shop.git",
        "ssh://git@github.com/me/shop.git",
        "ssh://git@github.com:22/me/shop",
        "git+ssh://git@github.com/me/shop.git",
        "git@github.com:me/shop.git",
        "git@github.com:/me/shop.git",
        "github.com:me/shop",
        "https://github.com/me/shop.git?token=secret#x",
        " https://github.com./me/shop.git\n",
    ],
)
def test_all_spellings_of_a_remote_are_one(url):
    assert normalise_remote(url) == "github.com/me/shop"


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("ssh://git@host:2222/a/b.git", "host:2222/a/b"),
        ("https://host/Case/Kept.git", "host/Case/Kept"),
        ("git@[::1]:a/b.git", "[::1]/a/b"),
        ("ssh://git@[::1]:22/a/b.git", "[::1]/a/b"),
        ("https://host/a%20b.git", "host/a b"),
        ("ext::https://u:p@host/a.git", "host/a"),
        ("/srv/git/a.git", "/srv/git/a"),
        ("file:///srv/git/a.git", "/srv/git/a"),
        ("file:///srv/work/a/.git", "/srv/work/a"),
    ],
)
def test_other_remotes(url, wanted):
    assert normalise_remote(url) == wanted


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), st.text("abc", min_size=1, max_size=5))
def test_no_credentials_survive(password, host):
    shown = normalise_remote(f"https://user:{password.translate(dict.fromkeys(map(ord, '/@?#[]')))}@{host}/p.git")
    assert shown == f"{host}/p"


def test_a_project_is_found_from_any_folder_inside(tmp_path):
    root = repository(tmp_path / "shop", ("origin", URL))
    inside = root / "a" / "b"
    inside.mkdir(parents=True)
    project = project_of(str(inside), {})
    assert project is not None
    assert (project.name, project.remote, project.root) == ("shop", "github.com/me/shop", str(root))
    assert project.scope.startswith("p-shop-")
    assert project_of(f"{root}/", {}) == project_of(str(root), {}) == project
    link = tmp_path / "link"
    link.symlink_to(inside)
    assert project_of(str(link), {}) == project


def test_clones_and_work_trees_of_one_remote_are_one_project(tmp_path):
    one = repository(tmp_path / "one", ("origin", URL))
    two = repository(tmp_path / "two", ("origin", "git@github.com:me/shop.git"))
    git("worktree", "add", "-q", tmp_path / "tree", cwd=one)
    other = repository(tmp_path / "other", ("origin", "https://github.com/me/shop2.git"))
    assert scope(one) == scope(two) == scope(tmp_path / "tree")
    assert scope(other) != scope(one)


def test_what_a_repository_was_cloned_from_is_in_its_log(tmp_path):
    one = repository(tmp_path / "one")
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=one)
    git("clone", "-q", one, tmp_path / "two", cwd=tmp_path)
    two = tmp_path / "two"
    git("remote", "set-url", "origin", URL, cwd=two)
    git("worktree", "add", "-q", tmp_path / "tree", cwd=two)
    for place in (two, tmp_path / "tree"):
        assert cloned_from(project_of(str(place), {})) == str(one)
    assert cloned_from(project_of(str(one), {})) is None
    log = two / ".git" / "logs" / "HEAD"
    first = log.read_text().splitlines()[0]
    for said in (first.replace(str(one), "https://[bad"), "", "\tclone: from ", first.replace("clone: from", "x")):
        log.write_text(said)
        assert not cloned_from(project_of(str(two), {}))
    log.write_text(first.replace(str(one), "https://user:secret@github.com/me/shop.git"))
    assert cloned_from(project_of(str(two), {})) == "github.com/me/shop"
    log.unlink()
    os.mkfifo(log)
    assert cloned_from(project_of(str(two), {})) is None


def test_work_trees_without_a_remote_are_one_project(tmp_path):
    one = repository(tmp_path / "one")
    git("worktree", "add", "-q", tmp_path / "tree", cwd=one)
    other = repository(tmp_path / "other" / "one")
    assert scope(one) == scope(tmp_path / "tree")
    assert scope(one) != scope(other)
    assert project_of(str(tmp_path / "tree"), {}).root == str(one)


def test_work_trees_of_a_bare_repository(tmp_path):
    one = repository(tmp_path / "one")
    git("clone", "-q", "--bare", one, tmp_path / "store.git", cwd=tmp_path)
    git("worktree", "add", "-q", tmp_path / "tree", cwd=tmp_path / "store.git")
    project = project_of(str(tmp_path / "tree"), {})
    assert project.remote == str(one)
    assert project.scope == scope(tmp_path / "tree")


def test_a_submodule_is_its_own_project(tmp_path):
    library = repository(tmp_path / "library")
    app = repository(tmp_path / "app", ("origin", URL))
    git("submodule", "add", "-q", library, "lib", cwd=app)
    assert scope(app / "lib") != scope(app)
    assert project_of(str(app / "lib"), {}).remote == str(library)


def test_origin_wins_over_the_first_remote(tmp_path):
    root = repository(tmp_path / "r", ("fork", "https://host/fork.git"), ("origin", "https://host/main.git"))
    assert project_of(str(root), {}).remote == "host/main"
    other = repository(tmp_path / "o", ("up", "https://host/up.git"), ("b", "https://host/b.git"))
    assert project_of(str(other), {}).remote == "host/up"


def test_a_local_remote_is_the_same_from_everywhere(tmp_path):
    root = repository(tmp_path / "a" / "r", ("origin", "../bare.git"))
    other = repository(tmp_path / "b", ("origin", f"file://{tmp_path}/a/bare.git"))
    assert scope(root) == scope(other)


def test_configuration_syntax_of_git_is_understood(tmp_path):
    root = repository(tmp_path / "r")
    (root / ".git" / "config").write_text(
        '; a comment\n[core]\n\turl = https://wrong/one\n[remote "ori\\"gin"]\n url = https://host/quoted\n'
        '[Remote "origin"] ; main\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n'
        '\tURL = "https://host/ma\\\nin.git" # the main one\n\turl = https://host/second\n'
    )
    command = ["git", "config", "--get-all", "remote.origin.url"]
    said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == ["https://host/main.git", "https://host/second"]
    assert project_of(str(root), {}).remote == "host/main"


@pytest.mark.parametrize("url", ["https://[bad", "ssh://[::1/x", "https://a]b/c", "file://[x"])
def test_a_remote_that_is_no_url_leaves_the_project_of_the_path(tmp_path, url):
    root = repository(tmp_path / "shop", ("origin", url))
    plain = repository(tmp_path / "plain" / "shop")
    project = project_of(str(root), {})
    assert project is not None
    assert (project.remote, project.key) == (None, f"path:{root}")
    assert project == project_of(str(root), {})
    assert project.scope != scope(plain)


def test_a_remote_that_is_not_text_leaves_the_project_of_the_path(tmp_path):
    root = repository(tmp_path / "shop")
    with (root / ".git" / "config").open("ab") as config:
        config.write(b'[remote "origin"]\n\turl = https://example.org/\xff\xfe\n')
    project = project_of(str(root), {})
    assert project is not None and project.key == f"path:{root}"


def aged() -> None:
    """As if nobody had touched them for a while: what changed just now is read again anyway."""
    time.sleep(2.1)


def test_a_finder_answers_as_project_of_and_sees_every_change_at_once(tmp_path):
    root = repository(tmp_path / "shop", ("origin", URL))
    inner = root / "src" / "deep"
    inner.mkdir(parents=True)
    git("worktree", "add", "-q", tmp_path / "tree", cwd=root)
    places = [str(root), str(inner), str(tmp_path / "tree"), str(tmp_path), "relative", "/no/such", "\0"]
    finder = ProjectFinder()

    def same() -> None:
        for place in places:
            for aliases in ({}, {"remote:github.com/me/shop": "p-kept-00000000"}):
                assert finder.find(place, aliases) == project_of(place, aliases), place

    same()
    aged()
    same()
    git("remote", "set-url", "origin", "https://example.org/other.git", cwd=root)
    same()
    assert finder.find(str(inner), {}).remote == "example.org/other"
    aged()
    same()
    repository(inner.parent / "x")
    git("init", "-q", cwd=inner)
    same()
    assert finder.find(str(inner), {}).root == str(inner)
    shutil.rmtree(root / ".git")
    same()
    git("init", "-q", cwd=root)
    same()


def test_a_finder_reads_no_file_twice(tmp_path, monkeypatch):
    root = repository(tmp_path / "shop", ("origin", URL))
    finder = ProjectFinder()
    aged()
    first = finder.find(str(root), {})
    monkeypatch.setattr("memoryd.sources.projects._small_text", lambda path: pytest.fail(f"{path} is read again"))
    assert finder.find(str(root), {}) == first


def test_a_finder_keeps_the_last_answer_for_a_directory_that_is_gone(tmp_path):
    root = repository(tmp_path / "shop", ("origin", URL))
    finder = ProjectFinder()
    first = finder.find(str(root), {})
    shutil.rmtree(root)
    assert finder.find(str(root), {}) == first
    assert finder.find(str(root), {first.key: "p-kept-00000000"}).scope == "p-kept-00000000"
    assert ProjectFinder().find(str(root), {}) is None
    repository(root, ("origin", "https://example.org/other.git"))
    assert finder.find(str(root), {}).remote == "example.org/other"


def test_a_finder_remembers_only_so_many_directories(tmp_path):
    roots = [repository(tmp_path / name) for name in "abc"]
    finder = ProjectFinder(size=2)
    for root in roots:
        finder.find(str(root), {})
        shutil.rmtree(root)
    assert [finder.find(str(root), {}) is None for root in reversed(roots)] == [False, False, True]


def test_the_alias_table_keeps_the_id_when_the_remote_changes(tmp_path):
    root = repository(tmp_path / "r", ("origin", URL))
    before = project_of(str(root), {})
    git("remote", "set-url", "origin", "https://github.com/me/store.git", cwd=root)
    after = project_of(str(root), {})
    assert after.scope != before.scope
    assert project_of(str(root), {after.key: before.scope}).scope == before.scope


def test_h31_odd_places_are_no_project(tmp_path):
    """H31: deleted, unreadable, relative, a file, not a path, a broken link, an empty `.git`; never an exception."""
    gone = tmp_path / "gone"
    file = tmp_path / "file"
    file.write_text("")
    for place in (gone, file, "relative", "", "~", "file:///tmp", "a\0b", "/\ud800", tmp_path / "plain"):
        assert project_of(str(place), {}) is None
    (tmp_path / "fake" / ".git").mkdir(parents=True)
    assert project_of(str(tmp_path / "fake"), {}) is None
    pointing = tmp_path / "pointing"
    pointing.mkdir()
    for text in ("gitdir: ../nowhere\n", "nonsense", ""):
        (pointing / ".git").write_text(text)
        assert project_of(str(pointing), {}) is None
    os.mkfifo(tmp_path / "fake" / "pipe")
    root = repository(tmp_path / "piped")
    (root / ".git" / "config").unlink()
    os.mkfifo(root / ".git" / "config")
    assert project_of(str(root), {}) is None


def test_an_inner_folder_named_like_a_repository_does_not_hide_the_outer_one(tmp_path):
    root = repository(tmp_path / "r", ("origin", URL))
    (root / "sub" / ".git").mkdir(parents=True)
    assert scope(root / "sub") == scope(root)


def test_names_that_are_not_text_still_have_an_id(tmp_path):
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe"))
    repository(root)
    project = project_of(str(root), {})
    project.root.encode()
    project.name.encode()
    assert re.fullmatch(r"p-project-[0-9a-f]{8}", project.scope)
    assert scope(repository(tmp_path / "日本")).startswith("p-project-")


def test_no_git_process_is_needed(tmp_path, monkeypatch):
    root = repository(tmp_path / "r", ("origin", URL))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert project_of(str(root), {}).remote == "github.com/me/shop"


def test_an_unreadable_directory_is_no_project(tmp_path):
    root = repository(tmp_path / "r", ("origin", URL))
    root.chmod(0)
    child = os.fork()
    if child == 0:
        if os.getuid() == 0:
            os.setuid(65534)
        os._exit(0 if project_of(str(root), {}) is None else 1)
    _, status = os.waitpid(child, 0)
    root.chmod(0o700)
    assert status == 0


def test_scope_ids_are_fixed(tmp_path):
    """The golden vector of docs/formats.md: the id is made of the key, whoever computes it."""
    root = repository(tmp_path / "r", ("origin", "git@github.com:me/My_Shop.git"))
    project = project_of(str(root), {})
    assert (project.key, project.scope) == ("remote:github.com/me/My_Shop", "p-my-shop-d0215413")
    local = project_of(str(repository(tmp_path / "plain")), {})
    assert local.key == f"path:{tmp_path / 'plain'}"
    assert local.scope == "p-plain-" + hashlib.sha256(local.key.encode()).hexdigest()[:8]
