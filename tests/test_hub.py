"""Models of the hub, against a server on this machine that speaks what the hub's client asks for."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import torch
from huggingface_hub import constants
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from conftest import TINY, deep_copy, write_params, write_study
from onelayer import hub, phases
from onelayer.analysis.study import _checkpoint_bytes
from onelayer.base import base_folder, base_manifest
from onelayer.config import Study, load_study
from onelayer.errors import UserError
from onelayer.fetch import fetch
from onelayer.grid import BASE, find_runs
from onelayer.manifest import read_manifest
from onelayer.models import export_model, load_base, make_micro_tokenizer
from onelayer.state import StudyState
from onelayer.store import run_folder

ALPHABET = "0123456789=+"


class Hub:
    """One repository, with commits, a moving branch, and what the real hub answers where something is wrong."""

    def __init__(self) -> None:
        self.commits: dict[str, dict[str, bytes]] = {}
        self.branches: dict[str, str] = {}
        self.gated = False
        self.down = False
        self.asked: list[str] = []

    def commit(self, folder: Path, branch: str = "main") -> str:
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        sha = hashlib.sha1(json.dumps({n: hashlib.sha1(c).hexdigest() for n, c in files.items()}).encode()).hexdigest()
        self.commits[sha] = files
        self.branches[branch] = sha
        return sha

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body."""
        self.asked.append(path)
        if self.down:
            return 503, {}, b"down for maintenance"
        parts = unquote(urlsplit(path).path).strip("/").split("/")
        api = parts[:2] == ["api", "models"]
        name, parts = "/".join(parts[2:4] if api else parts[:2]), parts[4:] if api else parts[2:]
        if name != "someone/tiny":
            return 404, {"X-Error-Code": "RepoNotFound"}, b"{}"
        revision = parts[1] if len(parts) > 1 else "main"
        sha = self.branches.get(revision, revision)
        if sha not in self.commits:
            return 404, {"X-Error-Code": "RevisionNotFound"}, b"{}"
        files = self.commits[sha]
        if api and parts[0] == "revision":
            return 200, {}, json.dumps({"id": name, "sha": sha, "siblings": [], "tags": []}).encode()
        if api and parts[0] == "tree":
            rows = [{"type": "file", "path": n, "size": len(c), "oid": _oid(c)} for n, c in files.items()]
            return 200, {}, json.dumps(rows).encode()
        if self.gated:
            return 403, {"X-Error-Code": "GatedRepo"}, b"{}"
        content = files[parts[2]]
        return 200, {"X-Repo-Commit": sha, "ETag": f'"{_oid(content)}"'}, content


def _oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    served = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = served.answer(self.path)
            self.send_response(status)
            for key, value in (headers | {"Content-Length": str(len(body))}).items():
                self.send_header(key, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    _use_hub(monkeypatch, f"http://127.0.0.1:{listening.server_port}", tmp_path / "cache")
    yield served
    listening.shutdown()
    listening.server_close()


def _use_hub(patch: pytest.MonkeyPatch, endpoint: str, cache: Path) -> None:
    patch.setattr(constants, "ENDPOINT", endpoint)
    patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", endpoint + "/{repo_id}/resolve/{revision}/{filename}")
    patch.setattr(constants, "HF_HUB_CACHE", str(cache))


def make_folder(folder: Path, tokenizer: PreTrainedTokenizerFast | None = None, rows: int | None = None) -> Path:
    tokenizer = tokenizer or make_micro_tokenizer(ALPHABET, 16)
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=rows or len(tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=3,
            num_attention_heads=2, num_key_value_heads=1, head_dim=8, max_position_embeddings=32, pad_token_id=0,
            eos_token_id=1, bos_token_id=None, tie_word_embeddings=True,
        )
    )  # fmt: skip
    model.save_pretrained(folder, max_shard_size="8KB")
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def published(server: Hub, tmp_path: Path) -> Hub:
    folder = make_folder(tmp_path / "published")
    (folder / "pytorch_model.bin").write_bytes(b"the weights again, in a format that can hold programs")
    (folder / "consolidated.safetensors").write_bytes(b"and again")
    server.commit(folder)
    return server


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    write_params(["tiny"])
    rows = "".join(f'{{"question": "{n}+{n}", "answer": "{2 * n}"}}\n' for n in range(60))
    Path("rows.jsonl").write_text(rows)
    return tmp_path / "project"


def study(**model: Any) -> Study:
    settings = deep_copy(TINY)
    settings["model"] = {"kind": "hub", "id": "someone/tiny", "layers": 3, **model}
    settings["task"] = {"kind": "questions", "sources": dict.fromkeys(("train", "select", "report"), "rows.jsonl"),
                        "sizes": {"train": 20, "select": 4, "report": 6}, "prompt": "{question}="}  # fmt: skip
    write_study("tiny", settings)
    return load_study("tiny")


def test_from_the_hub_to_records(published: Hub, project: Path) -> None:
    asked_for = study()
    assert not published.asked  # planning needs no network
    phases.prepare_phase(asked_for)
    commit = published.branches["main"]
    assert fetch(asked_for)[0].startswith(f"tiny: model someone/tiny at {commit}: ")
    published.down = True  # a compute node: what was fetched is enough, the branch's name included
    phases.base_phase(asked_for)
    manifest = base_manifest(asked_for)
    assert (manifest.details["repository"], manifest.details["commit"]) == ("someone/tiny", commit)
    assert sum(name.endswith(".safetensors") for name in manifest.files) > 1
    assert not {"consolidated.safetensors", "pytorch_model.bin"} & (
        manifest.files.keys() | {path.name for path in base_folder(manifest).iterdir()}
    )
    assert not any(Path(name).is_absolute() for name in manifest.files)
    runs = find_runs(asked_for, ["base", "layer-01-s0"])
    phases.train_phase(asked_for, runs[1:], None)
    phases.evaluate_phase(asked_for, runs, None)
    assert (_checkpoint_bytes(run_folder("tiny", "base"), manifest) or 0) > 0
    export_model(asked_for, "layer-01-s0", Path("out"))
    assert Path("out/config.json").is_file()


def test_a_pinned_base_travels_and_stays_at_its_commit(
    published: Hub, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_for = study()
    phases.base_phase(asked_for)
    manifest = base_manifest(asked_for)
    first = published.branches["main"]
    (tmp_path / "published" / "merges.txt").write_text("a later commit")
    assert published.commit(tmp_path / "published") != first

    # Another machine: the study's data came by DVC, the cache is empty. Nothing is damaged, and nothing is fetched yet.
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "other-cache"))
    published.asked.clear()
    assert StudyState(asked_for, thorough=True).training(BASE).done
    assert phases.verify(asked_for, thorough=True) == []
    assert not published.asked
    with pytest.raises(UserError, match=rf"{first}: not in the local cache; `onelayer fetch tiny` gets it"):
        base_folder(manifest)
    assert base_manifest(asked_for) == manifest  # fetched on need, at the pinned commit
    assert load_base(manifest).config.num_hidden_layers == 3
    assert base_folder(manifest).name == first

    # A damaged file in the cache is found, and the base is pinned anew at the same commit, with the same content.
    weights = next(path for path in base_folder(manifest).iterdir() if path.suffix == ".safetensors")
    blob = weights.resolve()
    blob.write_bytes(blob.read_bytes()[:-1] + b"?")
    with pytest.raises(UserError, match="its sha256 is not the one its manifest records"):
        base_manifest(asked_for)
    shutil.rmtree(tmp_path / "other-cache")
    phases.base_phase(asked_for)
    again = read_manifest(Path("data/tiny/runs/base"))
    assert again is not None
    assert (again.content, again.details["commit"]) == (manifest.content, first)

    # Another revision is another base.
    assert "revision" in StudyState(study(revision=published.branches["main"])).training(BASE).reason


def test_the_stated_depth_is_checked(published: Hub, project: Path) -> None:
    with pytest.raises(UserError, match=r"studies/tiny\.yaml: model\.layers: found a depth of 4; expected 3"):
        phases.base_phase(study(layers=4))
    assert not Path("data").exists()


@pytest.mark.parametrize("kind", ["unreachable", "down", "gated", "missing", "revision", "commit"])
def test_what_the_hub_refuses_is_said_before_anything_trains(
    published: Hub, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    more: dict[str, Any] = {}
    message = ""
    match kind:
        case "unreachable":
            _use_hub(monkeypatch, "http://127.0.0.1:9", tmp_path / "cache")
            message = r"the hub \(http://127.0.0.1:9\) cannot be asked \(ConnectError: .*no whole copy of main"
        case "down":
            published.down = True
            monkeypatch.setattr("time.sleep", lambda _: None)  # the client tries again, after pauses
            message = r"cannot be asked \(HfHubHTTPError: .*503"
        case "gated":
            published.gated = True
            message = r"gives it only to those who accepted its conditions: accept them at http://.*/someone/tiny"
        case "missing":
            more = {"id": "someone/else"}
            message = "has no such model, or shows it only to its owners"
        case "revision":
            more = {"revision": "v2"}
            message = "someone/tiny: found no revision 'v2'; expected a commit, branch or tag"
        case "commit":
            more = {"revision": "0" * 40}
            message = f"found no revision '{'0' * 40}'"
    with pytest.raises(UserError, match=message) as caught:
        phases.base_phase(study(**more))
    assert str(caught.value).startswith("studies/tiny.yaml: model: someone/")
    assert "\n" not in str(caught.value)
    assert not Path("data").exists()


def test_what_is_in_the_cache_needs_no_hub(published: Hub, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = published.branches["main"]
    folder, found = hub.fetch("someone/tiny", "main", key="x")
    assert found == commit
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert hub.fetch("someone/tiny", "main", key="x") == hub.fetch("someone/tiny", commit, key="x") == (folder, commit)
    assert hub.cached("someone/tiny", commit) == folder
    assert hub.cached("someone/tiny", "0" * 40) is None
    next(folder.glob("*.safetensors")).unlink()  # as a download that was cut short leaves it
    assert hub.cached("someone/tiny", commit) is None
    with pytest.raises(UserError, match="no whole copy of main"):
        hub.fetch("someone/tiny", "main", key="x")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            "more tokens than rows",
            r"not this model's: its token '\+' has the id 13, and the model's embedding has 8 rows",
        ),
        ("no end token", r"names no end token \(eos_token\)"),
        ("a mark beyond the rows", None),
        ("padding beyond the rows", r"its token '<mark>' has the id 14, and the model's embedding has 14 rows"),
    ],
)
def test_a_tokenizer_that_does_not_fit(
    server: Hub, project: Path, tmp_path: Path, kind: str, message: str | None
) -> None:
    tokenizer = make_micro_tokenizer(ALPHABET, 16)
    rows = len(tokenizer)
    match kind:
        case "more tokens than rows":
            rows = 8
        case "no end token":
            tokenizer.eos_token = None
        case "a mark beyond the rows":
            tokenizer.add_special_tokens({"additional_special_tokens": ["<mark>"]})
        case "padding beyond the rows":
            tokenizer.add_special_tokens({"pad_token": "<mark>"})
    server.commit(make_folder(tmp_path / "published", tokenizer, rows))
    if message is None:
        phases.base_phase(study())
        return
    with pytest.raises(UserError, match=message):
        phases.base_phase(study())
    assert not Path("data").exists()


def test_settings_that_this_model_cannot_serve(published: Hub, project: Path) -> None:
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({"chat": {}}, r"studies/tiny\.yaml: model\.chat: expected a tokenizer with a chat template"),
        ({"stop": ["1", "12"]}, r"model\.stop\[1\]: expected one token, found '12', which is read as \['1', '2'\]"),
        ({"attention": "flash_attention_2", "precision": "bfloat16"}, "flash_attention_2 needs a CUDA"),
    )  # fmt: skip
    for more, message in refused:
        with pytest.raises(UserError, match=message):
            phases.base_phase(study(**more))
        assert not Path("data").exists()
    # They are no part of the base, so a later change of one finds it pinned already.
    phases.base_phase(study())
    phases.prepare_phase(study())
    for more, message in refused:
        asked_for = study(**more)
        with pytest.raises(UserError, match=message):
            phases.train_phase(asked_for, find_runs(asked_for, ["layer-01-s0"]), None)
        with pytest.raises(UserError, match=message):
            phases.evaluate_phase(asked_for, find_runs(asked_for, ["base"]), None)
        assert [path.name for path in Path("data/tiny/runs").iterdir()] == ["base"]
        assert not list(Path(".work").rglob("checkpoint*"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "no-such"}, "transformers cannot use it"),
        ({"architectures": None}, r"architectures: expected Qwen3ForCausalLM, found none"),
        ({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True}, "encoder"),
        ({"auto_map": {"AutoConfig": "own.Config"}, "model_type": "own"}, "transformers cannot use it"),
    ],
)
def test_a_class_that_cannot_be_used(
    server: Hub, project: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    folder = make_folder(tmp_path / "published")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    server.commit(folder)
    with pytest.raises(UserError, match=message):
        phases.base_phase(study())
    assert not Path("data").exists()


def test_tensors_that_are_not_there_are_not_made_up(server: Hub, project: Path, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "published")
    config = json.loads((folder / "config.json").read_text())
    config |= {"tie_word_embeddings": False}
    (folder / "config.json").write_text(json.dumps(config))
    server.commit(folder)
    asked_for = study()
    phases.base_phase(asked_for)
    with pytest.raises(UserError, match=r"expected every tensor of Qwen3ForCausalLM, found no lm_head\.weight"):
        load_base(base_manifest(asked_for))


def test_shapes_that_are_not_those_of_the_configuration(server: Hub, project: Path, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "published")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"intermediate_size": 48}))
    server.commit(folder)
    asked_for = study()
    phases.base_phase(asked_for)
    with pytest.raises(UserError, match="do not fit"):
        load_base(base_manifest(asked_for))
