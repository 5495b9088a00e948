"""Is every key known, checked, and named when it is wrong?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memoryd.config import Config, config_path, known_keys, load_config, parse_config
from memoryd.errors import ConfigError, ConfigKeyUnknown

ROOT = Path(__file__).resolve().parents[2]


def test_no_file_means_the_defaults(tmp_path):
    loaded = load_config(tmp_path / "config.json")
    assert loaded.config == Config()
    assert not loaded.file_differs()


def test_a_file_that_changes_under_a_running_daemon_is_noticed(tmp_path):
    path = tmp_path / "config.json"
    loaded = load_config(path)
    path.write_text('{"log_level": "DEBUG"}')
    assert loaded.file_differs()
    again = load_config(path)
    assert not again.file_differs()
    path.unlink()
    assert again.file_differs()


@pytest.mark.parametrize(
    ("text", "key", "nearest"),
    [
        ('{"corpra": []}', "corpra", "corpora"),
        ('{"search": {"model_wait": 3}}', "search.model_wait", "search.model_wait_ms"),
        ('{"health": {"listn": "127.0.0.1:1"}}', "health.listn", "health.listen"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_name(text, key, nearest):
    with pytest.raises(ConfigKeyUnknown) as caught:
        parse_config(text.encode(), "config.json")
    assert caught.value.details["key"] == key
    assert f"`{nearest}`" in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"search": {"model_wait_ms": -1}}',
        '{"search": {"model_wait_ms": "10"}}',
        '{"health": {"listen": "0.0.0.0:80"}}',
        '{"corpora": [{"label": "vault", "path": "/x"}]}',
        '{"corpora": [{"label": "artifact", "path": "/x"}]}',
        '{"corpora": [{"label": "a/b", "path": "/x"}]}',
        '{"corpora": [{"label": "a"}]}',
        "\xff",
    ],
)
def test_a_wrong_value_is_a_typed_error_that_names_the_file(text):
    with pytest.raises(ConfigError) as caught:
        parse_config(text.encode("latin-1"), "config.json")
    assert "config.json" in caught.value.message
    assert caught.value.next_step


def test_an_unreadable_file_is_a_typed_error(tmp_path):
    (tmp_path / "config.json").mkdir()
    with pytest.raises(ConfigError):
        load_config(tmp_path / "config.json")


def test_the_variable_points_elsewhere(tmp_path):
    assert config_path(tmp_path, {}) == tmp_path / "config.json"
    assert config_path(tmp_path, {"MEMORYD_CONFIG": "/etc/x.json"}) == Path("/etc/x.json")


def test_the_example_is_valid_and_shows_every_key():
    raw = (ROOT / "config.example.json").read_bytes()
    parse_config(raw, "config.example.json")
    assert keys_of(json.loads(raw), "") == set(known_keys())


def keys_of(data, prefix):
    found = set()
    for key, value in data.items():
        found.add(prefix + key)
        if isinstance(value, dict):
            found |= keys_of(value, f"{prefix}{key}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            found |= keys_of(value[0], f"{prefix}{key}.")
    return found
