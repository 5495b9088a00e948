"""Behaviour of memoryd.index.places: generations whose vectors lie on a server, beside those that lie in files."""

from __future__ import annotations

import json
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.config import VectorConfig
from memoryd.errors import ExtraMissing, IndexDamaged, IndexOutdated, VectorServerAway, VectorServerRefused
from memoryd.files import Files
from memoryd.index.generations import Generation, Generations
from memoryd.index.marks import IndexIdentity
from memoryd.index.places import Places, places_for
from tests.index.entries import DIMS, EVERYWHERE, entry, words


def identity(places: Places) -> IndexIdentity:
    return IndexIdentity("m" * 64, DIMS, 1, 1, False, places.place)


def test_without_the_package_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    monkeypatch.delitem(sys.modules, "memoryd.index.qdrant", raising=False)
    with pytest.raises(ExtraMissing) as caught:
        places_for(tmp_path, Files(), VectorConfig(url="http://127.0.0.1:1"), None, {})
    assert "memoryd[qdrant]" in caught.value.next_step


def test_without_a_url_everything_lies_in_files(tmp_path):
    places = places_for(tmp_path, Files(), VectorConfig(), None, {})
    made = Generations(tmp_path / "indexes", Files(), places).create(identity(places))
    assert places.place == "" and (made.path / "vectors" / "segments").is_dir()
    assert not (tmp_path / "vectors.id").exists()
    made.close()


@pytest.fixture
def standin() -> Iterator:
    pytest.importorskip("qdrant_client")  # Reason: an optional part
    from tests.standin import StandIn

    server = StandIn()
    yield server
    server.stop()


class House:
    """One home's generations, with its vectors on a server."""

    def __init__(self, home: Path, url: str | None, environment: dict[str, str] | None = None, **config) -> None:
        home.mkdir(exist_ok=True)
        key_file = Path(config["api_key_file"]) if "api_key_file" in config else None
        self.home = home
        self.places = places_for(home, Files(), VectorConfig(url=url, **config), key_file, environment or {})
        self.generations = Generations(home / "indexes", Files(), self.places)
        self.identity = identity(self.places)

    def publish(self, *names: str) -> Generation:
        made = self.generations.create(self.identity)
        self.generations.publish(made)
        if names:
            fill(made, *names)
        return made

    def current(self) -> Generation | None:
        return self.generations.open_current(self.identity)


def fill(generation: Generation, *names: str) -> None:
    entries = [entry(name) for name in names]
    generation.lexical.replace([one.document_id for one in entries], [words(name, "some text") for name in names])
    generation.commit_lexical(1, "c")
    generation.vectors.replace([one.document_id for one in entries], entries)
    generation.commit_vectors(1)


def collections(standin) -> list[str]:
    return sorted(one.name for one in standin.client.get_collections().collections)


extras = pytest.mark.extras


@extras
def test_a_generation_is_one_collection_named_by_home_and_number(standin, tmp_path):
    house = House(tmp_path / "home", standin.url, collection_prefix="team")
    made = house.publish("a.md")
    drawn = json.loads((tmp_path / "home" / "vectors.id").read_text())["id"]
    assert collections(standin) == [f"team-{drawn}-1"] and len(drawn) == 16
    made.close()
    again = house.current()
    assert again.vectors.search(entry("a.md").vector, EVERYWHERE, 5)[0].document_id == entry("a.md").document_id
    assert (again.vectors.count(), again.mismatches(), again.problems) == (1, {}, {})
    again.close()
    assert stat.S_IMODE((tmp_path / "home" / "vectors.id").stat().st_mode) == 0o600


@extras
def test_two_homes_on_one_server_never_share(standin, tmp_path):
    one, two = House(tmp_path / "one", standin.url), House(tmp_path / "two", standin.url)
    first, second = one.publish("a.md"), two.publish("b.md")
    assert len(collections(standin)) == 2
    assert [found for found, _ in first.vectors.ids()] == [entry("a.md").document_id]
    assert [found for found, _ in second.vectors.ids()] == [entry("b.md").document_id]
    two.generations.collect()
    assert len(collections(standin)) == 2
    first.close(), second.close()


@extras
def test_a_copied_home_leaves_the_originals_collections_alone(standin, tmp_path):
    one = House(tmp_path / "one", standin.url)
    first = one.publish("a.md")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    two = House(tmp_path / "two", standin.url)
    found = two.current()
    assert found.vectors is None and isinstance(found.problems["vectors"], IndexDamaged)
    assert found.lexical.search("text", EVERYWHERE, 5)
    two.publish("b.md").close()
    two.generations.collect()
    assert [document for document, _ in first.vectors.ids()] == [entry("a.md").document_id]
    assert first.mismatches() == {}
    first.close(), found.close()


@extras
def test_a_moved_home_keeps_its_collections(standin, tmp_path):
    House(tmp_path / "one", standin.url).publish("a.md").close()
    (tmp_path / "one").rename(tmp_path / "moved")
    found = House(tmp_path / "moved", standin.url).current()
    assert found.vectors.count() == 1
    found.close()


@extras
def test_collections_without_a_generation_are_collected(standin, tmp_path):
    """This home's own alone: a former generation's, and one of a folder that is gone."""
    house = House(tmp_path / "home", standin.url)
    first = house.publish("a.md")
    first.close()
    stem = collections(standin)[0][:-1]
    for other in (f"{stem}77", f"{stem}x", "memoryd-ffffffffffffffff-1", "somebody's"):
        standin.client.create_collection(other, vectors_config={})
    second = house.publish("a.md")
    assert house.generations.collect() == [1]
    assert collections(standin) == sorted([f"{stem}2", f"{stem}x", "memoryd-ffffffffffffffff-1", "somebody's"])
    second.close()


@extras
def test_what_cannot_be_collected_now_is_collected_later(standin, tmp_path):
    house = House(tmp_path / "home", standin.url)
    now = [0.0]
    house.places._clock = lambda: now[0]
    house.publish("a.md").close()
    made = house.publish("a.md")
    standin.trouble = lambda *_: 500
    assert house.generations.collect() == [1]
    standin.trouble = lambda *_: None
    house.generations.collect()
    assert len(collections(standin)) == 2  # a server that failed is left in peace for a while
    now[0] += 61
    house.generations.collect()
    assert len(collections(standin)) == 1
    made.close()


@extras
def test_while_the_server_is_away_words_are_searched_and_vectors_come_back(standin, tmp_path):
    """Also where it was away when the generation was made."""
    house = House(tmp_path / "home", standin.url)
    standin.trouble = lambda *_: 503
    made = house.generations.create(house.identity)
    house.generations.publish(made)
    made.lexical.replace([], [words("a.md", "some text")])
    made.commit_lexical(1, "c")
    assert made.lexical.search("text", EVERYWHERE, 5)
    assert made.mismatches() == {}
    assert isinstance(made.problems["vectors"], VectorServerAway)
    with pytest.raises(VectorServerAway):
        made.commit_vectors(1)
    assert made.watermark.vector_seq == 0
    standin.trouble = lambda *_: None
    made.vectors._server._away_until = 0.0
    fill(made, "a.md")
    assert (made.mismatches(), made.problems, made.watermark.vector_seq) == ({}, {}, 1)
    made.close()


@extras
def test_a_key_that_is_refused_when_opened_can_be_corrected(standin, tmp_path):
    key = tmp_path / "key"
    key.write_text("right\n")
    standin.key = "right"
    house = House(tmp_path / "home", standin.url, api_key_file=str(key))
    house.publish("a.md").close()
    key.write_text("old")
    found = house.current()
    found.mismatches()
    assert isinstance(found.problems["vectors"], VectorServerRefused)
    key.write_text("right")
    assert (found.mismatches(), found.problems, found.vectors.count()) == ({}, {}, 1)
    found.close()


@extras
@pytest.mark.parametrize("given", ["", "   \n", "two\nlines", "schlüssel"])
def test_a_key_that_is_none_is_never_sent(standin, tmp_path, given):
    house = House(tmp_path / "home", standin.url, {"KEY": given}, api_key_env="KEY")
    made = house.publish()
    made.mismatches()
    assert "KEY" in made.problems["vectors"].message and standin.asked == []
    made.close()


@extras
def test_a_key_comes_from_the_named_variable(standin, tmp_path):
    standin.key = "from the variable"
    made = House(tmp_path / "home", standin.url, {"KEY": standin.key}, api_key_env="KEY").publish("a.md")
    assert made.vectors.count() == 1
    made.close()


@extras
def test_a_lost_collection_is_damage_at_opening(standin, tmp_path):
    house = House(tmp_path / "home", standin.url)
    house.publish("a.md").close()
    standin.client.delete_collection(collections(standin)[0])
    found = house.current()
    assert found.vectors is None and isinstance(found.problems["vectors"], IndexDamaged)
    found.close()


@extras
def test_vectors_in_files_serve_until_those_on_the_server_stand(standin, tmp_path):
    """And the other way round they cannot: without `vector.url` nobody is asked."""
    House(tmp_path / "home", None).publish("a.md").close()
    house = House(tmp_path / "home", standin.url)
    assert house.current() is None and isinstance(house.generations.reason, IndexOutdated)
    former = house.generations.open_former(house.identity)
    assert former.vectors.search(entry("a.md").vector, EVERYWHERE, 5) and standin.asked == []
    second = house.publish("a.md")
    assert second.number == 2 and len(collections(standin)) == 1
    former.close(), second.close()
    back = House(tmp_path / "home", None)
    assert back.current() is None
    found = back.generations.open_former(back.identity)
    assert found.vectors is None and isinstance(found.problems["vectors"], IndexOutdated)
    assert found.lexical.search("text", EVERYWHERE, 5)
    found.close()


@extras
@pytest.mark.parametrize("changed", [{"shards": 2}, {"replication_factor": 2}, {"collection_prefix": "other"}])
def test_another_layout_is_another_identity(standin, tmp_path, changed):
    House(tmp_path / "home", standin.url).publish().close()
    assert House(tmp_path / "home", standin.url, **changed).current() is None


@extras
def test_files_on_disk_are_those_of_the_format(standin, tmp_path):
    """A golden sample: what a later version must still read."""
    house = House(tmp_path / "home", standin.url)
    house.publish("a.md").close()
    (name,) = collections(standin)
    folder = tmp_path / "home" / "indexes" / "gen-1"
    assert (folder / "vectors" / "collection.json").read_text() == f'{{"made":true,"name":"{name}","v":1}}\n'
    place = f"{standin.url} (memoryd, 1 shards, 1 replicas)"
    assert json.loads((folder / "manifest.json").read_text())["identity"]["place"] == place
    drawn = json.loads((tmp_path / "home" / "vectors.id").read_text())
    assert drawn == {"v": 1, "id": name.split("-")[1], "folder": (tmp_path / "home").stat().st_ino}


@extras
@pytest.mark.parametrize("broken", ["", "[]", '{"v":1}', '{"made":1,"name":"x","v":1}'])
def test_a_damaged_note_of_the_collection_is_damage(standin, tmp_path, broken):
    house = House(tmp_path / "home", standin.url)
    house.publish("a.md").close()
    (tmp_path / "home" / "indexes" / "gen-1" / "vectors" / "collection.json").write_text(broken)
    found = house.current()
    assert isinstance(found.problems["vectors"], IndexDamaged)
    found.close()
